"""What is seen of machines while a running job has no successor yet, and one decision on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.environments._observing import LOG_SCALE
from presage.simulator._moments import (
    FREE,
    NOW,
    PROCESSORS,
    RUNNING,
    WAITING,
    Machines,
    reservation,
)
from presage.simulator.choices import compiled
from presage.simulator.submissions import hand_over, run_until

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

SUBMIT_FEATURES = (
    "remaining", "limit", "size", "fits_in", "free", "waiting", "running", "oldest", "work", "wanted", "first_in",
    "promised",
)  # fmt: skip
"""What is observed before a submit. Of the chain: how long its running job still runs, its limit, its share of the
machine, and how long until so much would be free if nobody else waited. Of the machine: the free share, how many
jobs wait and run, how long the oldest has waited, the work and the processors that are waited for, how long until
the first in the queue is planned to start, and the work that running jobs still may do. Times are logarithms of
seconds over 16, work is the time that the whole machine would need for it; counts, and the share of the machine
that is waited for, are logarithms over 16 too."""
HOUR_MS = 3_600_000
MOST_MS = 10**12
"""Longer times, like that until processors are there that have failed, count as this."""
# Columns of `chains`: the running job, the one to be submitted, when the first ends, how often one is asked, and
# for how long both ran.
PREDECESSOR, SUCCESSOR, END, INTERVAL, OVERLAP = range(5)


@compiled
def observe_chain(m: Machines, chains: Ints, at: int, out: np.ndarray) -> None:
    """Write what is seen of a machine and of the chain on it."""
    facts, chain = m.facts[at], chains[at]
    successor = chain[SUCCESSOR]
    fits_ms = 0
    if m.size[at, successor] > facts[FREE]:
        fits_ms = max(0, reservation(m, at, successor)[0] - facts[NOW])
    first_ms = 0
    if facts[WAITING] > 0:
        first_ms = max(0, reservation(m, at, m.queue[at, 0])[0] - facts[NOW])
    oldest_ms, work_s, wanted = 0, 0.0, 0
    for k in range(facts[WAITING]):
        job = m.queue[at, k]
        oldest_ms = max(oldest_ms, facts[NOW] - m.submit[at, job])
        work_s += m.plan[at, job] / 1000 * m.size[at, job] / facts[PROCESSORS]
        wanted += m.size[at, job]
    promised_ms = 0
    for k in range(facts[RUNNING]):
        promised_ms += max(0, m.planned[at, k] - facts[NOW]) * m.size[at, m.holding[at, k]]
    out[0] = np.log1p((chain[END] - facts[NOW]) / 1000)
    out[1] = np.log1p(m.limit[at, successor] / 1000)
    out[2] = m.size[at, successor] / facts[PROCESSORS] / LOG_SCALE
    out[3] = np.log1p(min(fits_ms, MOST_MS) / 1000)
    out[4] = facts[FREE] / facts[PROCESSORS] / LOG_SCALE
    out[5] = np.log1p(facts[WAITING])
    out[6] = np.log1p(facts[RUNNING])
    out[7] = np.log1p(oldest_ms / 1000)
    out[8] = np.log1p(work_s)
    out[9] = np.log1p(wanted / facts[PROCESSORS])
    out[10] = np.log1p(min(first_ms, MOST_MS) / 1000)
    out[11] = np.log1p(promised_ms / 1000 / facts[PROCESSORS])
    out *= LOG_SCALE


@compiled
def step_chains(
    m: Machines, chains: Ints, actions: Ints, prices: np.ndarray, out: np.ndarray,
    costs: np.ndarray, done: np.ndarray,
) -> None:  # fmt: skip
    """Submit now (1), or wait until the next decision or the end of the running job, which submits by itself.

    Where processors fail, the end may be earlier than was planned.
    """
    for at in range(len(actions)):
        costs[at] = 0
        if done[at]:
            continue
        chain = chains[at]
        if actions[at] != 1:
            next_ask = min(m.facts[at, NOW] + chain[INTERVAL], chain[END])
            if run_until(m, at, chain[PREDECESSOR], next_ask):
                chain[END] = m.facts[at, NOW]
        if actions[at] == 1 or m.facts[at, NOW] == chain[END]:
            chain[END], chain[OVERLAP] = hand_over(m, at, chain[PREDECESSOR], chain[SUCCESSOR], chain[END])
            gap_ms = max(0, m.start[at, chain[SUCCESSOR]] - chain[END])
            costs[at] = prices[0] * (gap_ms / HOUR_MS) + prices[1] * (chain[OVERLAP] / HOUR_MS)
            done[at] = True
            out[at] = 0
        else:
            observe_chain(m, chains, at, out[at])
