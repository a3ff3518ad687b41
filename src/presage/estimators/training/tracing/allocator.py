"""How much a caching allocator reserves for the memory that a step asks for, by the rules of torch's for CUDA.

Sizes are rounded up to 512 bytes. Up to 1 MiB they come out of segments of 2 MiB, below 10 MiB out of segments of
20 MiB, and beyond that each has a segment of its own, rounded up to 2 MiB. The smallest free block that is large
enough is taken and, where enough is left over, split. What is freed joins free neighbours of its segment. Segments
are kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

_MIB = 1 << 20
_ROUNDING = 512
_SMALL = _MIB
_SMALL_SEGMENT = 2 * _MIB
_MEDIUM = 10 * _MIB
_MEDIUM_SEGMENT = 20 * _MIB
_LARGE_ROUNDING = 2 * _MIB


@dataclass(slots=True)
class _Block:
    address: int
    size: int
    small: bool
    free: bool = False
    before: _Block | None = None
    after: _Block | None = None


@dataclass
class _Pool:
    """Free blocks by size, then address."""

    order: list[tuple[int, int]] = field(default_factory=list)
    blocks: dict[int, _Block] = field(default_factory=dict)

    def add(self, block: _Block) -> None:
        block.free = True
        insort(self.order, (block.size, block.address))
        self.blocks[block.address] = block

    def remove(self, block: _Block) -> None:
        block.free = False
        del self.order[bisect_left(self.order, (block.size, block.address))]
        del self.blocks[block.address]

    def best(self, size: int) -> _Block | None:
        place = bisect_left(self.order, (size, 0))
        return self.blocks[self.order[place][1]] if place < len(self.order) else None


class CachingAllocator:
    """A device's memory as torch holds it. `allocate` gives a handle that `release` takes."""

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self._small = _Pool()
        self._large = _Pool()
        self._next_address = 0

    def allocate(self, size: int) -> _Block | None:
        """Return a block for so many bytes, None for no bytes."""
        if size <= 0:
            return None
        size = _up(size, _ROUNDING)
        small = size <= _SMALL
        pool = self._small if small else self._large
        block = pool.best(size)
        if block is None:
            block = self._new_segment(size, small=small)
        else:
            pool.remove(block)
        self._split(block, size, pool)
        return block

    def release(self, block: _Block | None) -> None:
        """Free a block; its segment stays reserved."""
        if block is None:
            return
        pool = self._small if block.small else self._large
        if block.before is not None and block.before.free:
            earlier = block.before
            pool.remove(earlier)
            earlier.size += block.size
            _link(earlier, block.after)
            block = earlier
        if block.after is not None and block.after.free:
            later = block.after
            pool.remove(later)
            block.size += later.size
            _link(block, later.after)
        pool.add(block)

    def _new_segment(self, size: int, *, small: bool) -> _Block:
        own = _MEDIUM_SEGMENT if size < _MEDIUM else _up(size, _LARGE_ROUNDING)
        segment = _SMALL_SEGMENT if small else own
        block = _Block(self._next_address, segment, small)
        self._next_address += segment
        self.reserved_bytes += segment
        return block

    def _split(self, block: _Block, size: int, pool: _Pool) -> None:
        rest = block.size - size
        worth_it = rest >= _ROUNDING if block.small else rest > _SMALL
        if not worth_it:
            return
        remainder = _Block(block.address + size, rest, block.small)
        block.size = size
        _link(remainder, block.after)
        _link(block, remainder)
        pool.add(remainder)


def _link(first: _Block, second: _Block | None) -> None:
    first.after = second
    if second is not None:
        second.before = first


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
