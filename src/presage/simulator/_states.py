"""The nodes ordered by what is free on them, in a tree that bounds every group of nodes with alike states.

It is a radix tree over the bits of a key (the kind of the node, then shares of what is free, bit by bit in turn,
then the number of the node), without the inner nodes that would have a single child. Groups below an inner node
are boxes of free amounts: the deeper, the narrower. Nodes in the same state are neighbours.

One array holds it. Rows below the number of nodes are inner nodes: row 0 has the root as its left child, the
others are in no order. The row of node n is the number of nodes plus n. A node that moves takes its inner
node along, so rows are never given out or collected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.simulator._compiling import inner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

LEFT, RIGHT, UP = 0, 1, 2
SPLIT = 3
"""The bit that tells the two children of an inner node apart, 0 the highest; the key of a leaf."""
KIND = 4
"""That of all nodes below, or MIXED."""
FIRST = 5
"""The lowest number of a node below."""
# The least below of each, and then the most of the first four.
LOW_CPU, LOW_MEM, LOW_WHOLE, LOW_WIDEST, LOW_GPU, LOW_ASKED_CPU, LOW_ASKED_MEM = 6, 7, 8, 9, 10, 11, 12
HIGH_CPU, HIGH_MEM, HIGH_WHOLE, HIGH_WIDEST = 13, 14, 15, 16
AMOUNTS = 17
"""Ranges of the amounts that are free of single GPUs below, as a mask."""
STATE_COLUMNS = 18
MIXED = -1
DEEPEST = 128
"""More than any path is long."""
_KEY_BITS = 63
_NUMBER_BITS = 32
_STEPS = 10


@inner
def key_of(kind: int, cpu: int, mem: int, gpu: int, all_cpu: int, all_mem: int, all_gpu: int) -> int:
    """Return the key of a state: the kind, then the bits of three free shares in turn."""
    shares = (_step(gpu, all_gpu), _step(cpu, all_cpu), _step(mem, all_mem))
    key = kind
    for bit in range(_STEPS - 1, -1, -1):
        for share in shares:
            key = key << 1 | (share >> bit & 1)
    return key


@inner
def _step(amount: int, of: int) -> int:
    return min(max(amount, 0), of) * ((1 << _STEPS) - 1) // max(of, 1)


@inner
def insert(rows: Ints, node: int, key: int, inner: int) -> None:
    """Add a node, whose row but for its links is filled, with an inner row of its own that is not in use."""
    leaf = len(rows) // 2 + node
    rows[leaf, SPLIT] = key
    at = rows[0, LEFT]
    if at == 0:
        rows[0, LEFT] = leaf
        rows[leaf, UP] = 0
        return
    leaves = len(rows) // 2
    while at < leaves:
        at = rows[at, RIGHT if _bit(key, node, rows[at, SPLIT]) else LEFT]
    split = _first_difference(key, node, rows[at, SPLIT], at - leaves)
    while rows[at, UP] != 0 and rows[rows[at, UP], SPLIT] > split:
        at = rows[at, UP]
    up = rows[at, UP]
    rows[up, LEFT if rows[up, LEFT] == at else RIGHT] = inner
    rows[inner, UP] = up
    rows[inner, SPLIT] = split
    right = _bit(key, node, split)
    rows[inner, LEFT] = at if right else leaf
    rows[inner, RIGHT] = leaf if right else at
    rows[at, UP] = inner
    rows[leaf, UP] = inner
    _join(rows, inner)
    climb(rows, up)


@inner
def remove(rows: Ints, node: int) -> int:
    """Take a node out and return the inner row that went with it, 0 if it was the only node."""
    leaf = len(rows) // 2 + node
    inner = rows[leaf, UP]
    if inner == 0:
        rows[0, LEFT] = 0
        return 0
    other = rows[inner, RIGHT if rows[inner, LEFT] == leaf else LEFT]
    up = rows[inner, UP]
    rows[up, LEFT if rows[up, LEFT] == inner else RIGHT] = other
    rows[other, UP] = up
    climb(rows, up)
    return int(inner)


@inner
def climb(rows: Ints, at: int) -> None:
    """Compute inner nodes anew from `at` upwards until nothing changes."""
    while at != 0 and _join(rows, at):
        at = rows[at, UP]


@inner
def _join(rows: Ints, at: int) -> bool:
    left = rows[at, LEFT]
    right = rows[at, RIGHT]
    changed = False
    kind = rows[left, KIND] if rows[left, KIND] == rows[right, KIND] else MIXED
    if kind != rows[at, KIND]:
        rows[at, KIND] = kind
        changed = True
    for column in range(FIRST, HIGH_CPU):
        value = min(rows[left, column], rows[right, column])
        if value != rows[at, column]:
            rows[at, column] = value
            changed = True
    for column in range(HIGH_CPU, AMOUNTS):
        value = max(rows[left, column], rows[right, column])
        if value != rows[at, column]:
            rows[at, column] = value
            changed = True
    amounts = rows[left, AMOUNTS] | rows[right, AMOUNTS]
    if amounts != rows[at, AMOUNTS]:
        rows[at, AMOUNTS] = amounts
        changed = True
    return changed


@inner
def _bit(key: int, node: int, bit: int) -> bool:
    if bit < _KEY_BITS:
        return (key >> (_KEY_BITS - 1 - bit)) & 1 == 1
    return (node >> (_KEY_BITS + _NUMBER_BITS - 1 - bit)) & 1 == 1


@inner
def _first_difference(key: int, node: int, other_key: int, other_node: int) -> int:
    if key != other_key:
        return _KEY_BITS - 1 - _highest(key ^ other_key)
    return _KEY_BITS + _NUMBER_BITS - 1 - _highest(node ^ other_node)


@inner
def _highest(word: int) -> int:
    """Return the number of the highest bit that is set."""
    highest = 0
    for width in (32, 16, 8, 4, 2, 1):
        if word >> width:
            word >>= width
            highest += width
    return highest
