"""Earlier jobs as the model reads them: relative to the job that is asked about."""

from __future__ import annotations

import numpy as np

from presage.foundation.view import numbers
from presage.foundation.view._compiling import compiled, lean
from presage.foundation.view._summaries import share_in_common

VALUES, SAME, KINDS = len(numbers.TOKEN_VALUES), len(numbers.TOKEN_SAME), len(numbers.TOKEN_KINDS)
AT_SAME, AT_KINDS, AT_STATE = VALUES, VALUES + SAME, VALUES + SAME + KINDS
STATE, HABITS = len(numbers.STATE), len(numbers.HABIT_STATE)
HABIT_PLACES = np.array([numbers.PLACE[name] for name in numbers.HABIT_STATE])
STATE_PLACES = np.array([numbers.PLACE[name] for name in numbers.STATE])
WAIT_ANCHOR, WORK_ANCHOR = numbers.PLACE["wait_anchor"], numbers.PLACE["work_anchor"]


def _kinds(*counts: int) -> np.ndarray:
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


WAIT_KINDS = _kinds(numbers.NEIGHBOURS, numbers.OF_USER, numbers.RECENT, numbers.STILL_WAITING)
RUN_KINDS = _kinds(
    numbers.SIMILAR, numbers.LATEST + numbers.CAMPAIGNS, numbers.OTHERS + numbers.ALIKE, numbers.STILL_RUNNING
)
CENSORED_KIND = 3


@lean
def _fill(
    jobs: np.ndarray, index: int, time_s: float, x: np.ndarray, context: np.ndarray, is_wait: bool,
    out: np.ndarray, outcomes: np.ndarray, classes: np.ndarray,
) -> None:  # fmt: skip
    """Write one row per job of the context: its token, its log outcome so far, and how it ended (-1: unknown).

    Rows of a context that has no such job are zero; their outcome is 0.
    """
    anchor = x[WAIT_ANCHOR] if is_wait else x[WORK_ANCHOR]
    for k in range(len(context)):
        other = context[k]
        for place in range(out.shape[1]):
            out[k, place] = 0
        outcomes[k] = 0
        classes[k] = -1
        if other < 0:
            continue
        kind = WAIT_KINDS[k] if is_wait else RUN_KINDS[k]
        censored = kind == CENSORED_KIND
        outcomes[k] = _outcome(jobs, other, time_s, is_wait, censored)
        _write_values(out, k, jobs, index, other, time_s, outcomes[k], anchor, is_wait, censored)
        _write_same(out, k, jobs, index, other)
        out[k, AT_KINDS + kind] = 1
        if is_wait:
            for place in range(STATE):
                out[k, AT_STATE + place] = _bounded(jobs[other].state[place] - x[STATE_PLACES[place]])
        else:
            for place in range(HABITS):
                out[k, AT_STATE + place] = _bounded(jobs[other].habit_state[place] - x[HABIT_PLACES[place]])
        if not is_wait and not censored:
            classes[k] = jobs[other].outcome


@lean
def _bounded(difference: np.float32) -> np.float32:
    return min(max(difference, np.float32(-5)), np.float32(5))


@lean
def _outcome(jobs: np.ndarray, other: int, time_s: float, is_wait: bool, censored: bool) -> float:
    job = jobs[other]
    if is_wait:
        return np.log1p(time_s - job.submit_s) if censored else job.log_wait
    return np.log1p(time_s - job.start_s) if censored else job.log_run


@lean
def _write_values(
    out: np.ndarray, k: int, jobs: np.ndarray, index: int, other: int, time_s: float, outcome: float,
    anchor: float, is_wait: bool, censored: bool,
) -> None:  # fmt: skip
    me = jobs[index]
    job = jobs[other]
    its_anchor = job.wait_anchor if is_wait else job.work_anchor
    known_s = job.start_s if is_wait or censored else job.end_s
    out[k, 0] = (outcome - anchor) / 2
    out[k, 1] = outcome / 8
    out[k, 2] = 1.0 if censored else 0.0
    out[k, 3] = np.log1p(time_s - job.submit_s) / 8
    out[k, 4] = 0.0 if censored and is_wait else np.log1p(time_s - known_s) / 8
    out[k, 5] = 0.0 if censored else (outcome - its_anchor) / 2
    out[k, 6] = (outcome - job.log_limit) / 2
    out[k, 7] = (outcome - me.log_limit) / 2
    out[k, 8] = 1.0 if not is_wait and not censored and job.outcome > 0 else 0.0
    out[k, 9] = share_in_common(me.name_bits, job.name_bits)
    out[k, 10] = (job.log_memory - me.log_memory) / 4
    out[k, 11] = (job.log_gpus - me.log_gpus) / 2


@lean
def _write_same(out: np.ndarray, k: int, jobs: np.ndarray, index: int, other: int) -> None:
    me = jobs[index]
    job = jobs[other]
    out[k, AT_SAME] = me.user == job.user
    out[k, AT_SAME + 1] = me.queue == job.queue
    out[k, AT_SAME + 2] = me.group == job.group
    out[k, AT_SAME + 3] = me.program == job.program
    out[k, AT_SAME + 4] = me.size == job.size
    out[k, AT_SAME + 5] = me.limit_s == job.limit_s
    out[k, AT_SAME + 6] = me.name == job.name
    out[k, AT_SAME + 7] = out[k, AT_SAME] * out[k, AT_SAME + 4] * out[k, AT_SAME + 5]


@compiled
def fill_batch(
    jobs: np.ndarray, rows: np.ndarray, asked: np.ndarray, time_s: np.ndarray, x: np.ndarray, contexts: np.ndarray,
    is_wait: bool, out: np.ndarray, outcomes: np.ndarray, classes: np.ndarray,
) -> None:  # fmt: skip
    """Write the tokens of many questions, row by row of `rows`, as `fill_tokens` does for one."""
    for k in range(len(rows)):
        row = rows[k]
        _fill(jobs, asked[row], time_s[row], x[row], contexts[row], is_wait, out[k], outcomes[k], classes[k])


@compiled
def fill_tokens(
    jobs: np.ndarray, index: int, time_s: float, x: np.ndarray, context: np.ndarray, is_wait: bool,
    out: np.ndarray, outcomes: np.ndarray, classes: np.ndarray,
) -> None:  # fmt: skip
    """Write the tokens of one question."""
    _fill(jobs, index, time_s, x, context, is_wait, out, outcomes, classes)
