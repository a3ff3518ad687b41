"""What is seen of machines that wait for a choice, and one choice on each of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._moments import (
    EXTRA,
    FREE,
    HEAD,
    JOBS,
    NOBODY,
    NOW,
    PROCESSORS,
    RANKED,
    RESERVED,
    RUNNING,
    WAITING,
    Machines,
    is_over,
)
from presage.simulator.choices import BY_CHOICE, choose, compiled, is_possible, two_possible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float32]

FEATURES = (
    "waited", "estimate", "size", "area", "slowdown", "fits", "free", "waiting", "running", "oldest", "work",
    "is_there",
)  # fmt: skip
"""What is observed of each waiting job: logarithms of seconds over 16, shares of the machine, flags. `free`,
`waiting`, `running`, `oldest` and `work` are of the machine, and the same in every row."""
BACKFILL_FEATURES = (*FEATURES, "is_first", "reserved_in", "left_over", "ends_before")
"""What is observed where jobs are backfilled: `reserved_in` (a logarithm of seconds over 16) and `left_over` (a
share of the machine) are of the reservation of the first job; `ends_before` says that a job leaves it its time."""
LOG_SCALE = np.float32(1 / 16)
MOST_S = np.float32(1e9)
"""Longer times, like that of a reservation that nobody knows, count as this."""


class Known(NamedTuple):
    """What is observed of the jobs of each machine and does not change; one row per machine."""

    estimate_s: Floats
    logs: Floats
    """Per job: estimate, size and area."""


def nothing_known(machines: int, jobs: int) -> Known:
    """Return room for so many machines with at most so many jobs each."""
    return Known(np.ones((machines, jobs), np.float32), np.zeros((machines, jobs, 3), np.float32))


def write_known(known: Known, at: int, estimate_s: NDArray[np.float64], share: NDArray[np.float64]) -> None:
    """Write the jobs of a machine: what is believed of their run times, and their shares of the machine."""
    count = len(share)
    known.estimate_s[at, :count] = estimate_s
    known.logs[at, :count, 0] = np.log1p(estimate_s) * LOG_SCALE
    known.logs[at, :count, 1] = share
    known.logs[at, :count, 2] = np.log1p(estimate_s * share) * LOG_SCALE


@compiled
def observe(m: Machines, known: Known, at: int, out: np.ndarray, mask: np.ndarray) -> None:
    """Write what is seen of the first jobs in the queue, one row each, and which rows may be chosen."""
    facts = m.facts[at]
    shown = min(facts[WAITING], len(out))
    free = np.float32(facts[FREE] / facts[PROCESSORS])
    waiting = np.float32(np.log1p(facts[WAITING]) * LOG_SCALE)
    running = np.float32(np.log1p(facts[RUNNING]) * LOG_SCALE)
    oldest = np.float32(0)
    work = np.float32(0)
    for k in range(shown):
        job = m.queue[at, k]
        waited_s = np.float32((facts[NOW] - m.submit[at, job]) / 1000)
        seconds = max(known.estimate_s[at, job], np.float32(10))
        oldest = max(oldest, waited_s)
        work += known.estimate_s[at, job] * known.logs[at, job, 1]
        out[k, 0] = np.log1p(waited_s) * LOG_SCALE
        out[k, 1] = known.logs[at, job, 0]
        out[k, 2] = known.logs[at, job, 1]
        out[k, 3] = known.logs[at, job, 2]
        out[k, 4] = np.log1p(waited_s / seconds) * LOG_SCALE
        out[k, 5] = 1 if m.size[at, job] <= facts[FREE] else 0
        mask[k] = is_possible(m, at, k)
    oldest = np.log1p(oldest) * LOG_SCALE
    work = np.log1p(work) * LOG_SCALE
    for k in range(shown):
        out[k, 6] = free
        out[k, 7] = waiting
        out[k, 8] = running
        out[k, 9] = oldest
        out[k, 10] = work
        out[k, 11] = 1
    k = shown
    while k < len(out) and out[k, 11] != 0:  # behind the first empty row all are empty
        out[k, :] = 0
        mask[k] = False
        k += 1


@compiled
def step_all(
    m: Machines, known: Known, actions: Ints, semantics: int, backfilling: int, out: np.ndarray, mask: np.ndarray,
    costs: np.ndarray, done: np.ndarray,
) -> None:  # fmt: skip
    """Follow one choice on every machine; write what is seen then, what it cost, and which episodes are over.

    A choice that is not possible counts as the first one that is; where an episode is over nothing happens.
    """
    for at in range(len(actions)):
        if is_over(m, at):
            done[at], costs[at] = True, 0
            continue
        slot = actions[at]
        if not is_possible(m, at, slot):
            slot = two_possible(m, at)[0]
        done[at] = not choose(m, at, slot, semantics, backfilling)
        costs[at] = m.cost[at] / m.facts[at, JOBS]
        m.cost[at] = 0
        observe(m, known, at, out[at], mask[at])


@compiled
def observe_behind(m: Machines, known: Known, at: int, out: np.ndarray, mask: np.ndarray) -> None:
    """Write what is seen of the queue behind its first job; the last of the mask stands for nobody."""
    observe(m, known, at, out, mask)
    facts = m.facts[at]
    reserved_s = min(np.float32((facts[RESERVED] - facts[NOW]) / 1000), MOST_S)
    reserved_in = np.float32(np.log1p(reserved_s) * LOG_SCALE)
    left_over = np.float32(facts[EXTRA] / facts[PROCESSORS])
    first = len(FEATURES)
    for k in range(min(facts[WAITING], len(out))):
        job = m.queue[at, k]
        out[k, first] = 1 if job == facts[HEAD] else 0
        out[k, first + 1] = reserved_in
        out[k, first + 2] = left_over
        out[k, first + 3] = 1 if facts[NOW] + m.plan[at, job] <= facts[RESERVED] else 0
    mask[len(out)] = facts[HEAD] != NOBODY


@compiled
def step_all_behind(
    m: Machines, known: Known, actions: Ints, out: np.ndarray, mask: np.ndarray, costs: np.ndarray,
    done: np.ndarray,
) -> None:  # fmt: skip
    """Do what `step_all` does where jobs are backfilled; the action behind all slots stands for nobody."""
    slots = out.shape[1]
    for at in range(len(actions)):
        if is_over(m, at):
            done[at], costs[at] = True, 0
            continue
        slot = actions[at]
        if slot != slots and not is_possible(m, at, slot):
            slot = two_possible(m, at)[0]
        done[at] = not choose(m, at, slot, RANKED, BY_CHOICE)
        costs[at] = m.cost[at] / m.facts[at, JOBS]
        m.cost[at] = 0
        observe_behind(m, known, at, out[at], mask[at])
