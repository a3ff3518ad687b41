"""A model that goes on learning: fine-tuned again and again, and replaced only by a better one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import InputError
from presage.foundation.evaluation import answer_test
from presage.foundation.lineage import finetuned, learning
from presage.foundation.model import Model
from presage.foundation.scoring import Split
from presage.foundation.store import Attempt
from presage.foundation.training.finetuning import COURSES, finetune_tower
from presage.foundation.view._replay import SUBMITTED
from presage.foundation.view.examples import at_submits, examples_of
from presage.foundation.view.jobs import history_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.foundation.model import Tower
    from presage.foundation.scoring import Scores
    from presage.foundation.store import ModelStore
    from presage.foundation.view.examples import Examples
    from presage.traces import Trace

WINDOW = 2000
"""Jobs by which the old and the new model are compared: the latest ones, which neither has learnt from."""
STOPPING = 1000
"""Jobs before them by which fine-tuning stops."""
FEWEST = 500
GAIN = 0.005
"""A new model must be better by so much (log10 of seconds) in one task, and by no more worse in the other."""


@dataclass(frozen=True)
class _Compared:
    old: Scores
    new: Scores


def update(
    trace: Trace,
    store: ModelStore,
    *,
    steps: int | None = None,
    latest: int = 50_000,
    seed: int = 0,
    now: datetime | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
) -> Attempt:
    """Fine-tune the model in use on a log, compare both on the latest jobs, and let the better one stay.

    Returns what was tried, as it is remembered in the store. Raises InputError if too few jobs ended.
    """
    current = store.current()
    history = history_of(trace)
    examples = examples_of(history, at_submits(history, first := max(0, len(history) - latest)), first)
    towers, compared, networks = dict(current.towers), {}, {}
    tasks = [task for task in Task if task is Task.RUN or history.has_waits]
    for task in tasks:
        learn, stop, judge = _windows(examples, task)
        tuned = finetune_tower(
            towers[task], examples, learn, stop, course=COURSES[task].of_steps(steps), seed=seed,
            on_progress=lambda share: on_progress(share / len(tasks)),
        )  # fmt: skip
        part = Split(learn, stop, judge)
        compared[task] = _Compared(_scores(towers[task], examples, part), _scores(tuned.tower, examples, part))
        networks[task] = learning(tuned, learn, stop)
        towers[task] = tuned.tower
    took_over, reason = _verdict(compared)
    version = store.next_version()
    attempt = Attempt(
        version=version,
        replaces=store.current_version(),
        made=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
        took_over=took_over,
        reason=reason,
        jobs=max(each.old.jobs for each in compared.values()),
        figures={task.value: _figures(each, task, store) for task, each in compared.items()},
    )
    about = finetuned(
        current.about, version=version, log=trace.manifest.name, jobs=len(history) - first, networks=networks
    )
    store.record(attempt, Model(towers, {**about, "replaces": attempt.replaces}))
    return attempt


def _windows(examples: Examples, task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows to learn from, to stop by, and to judge by, one after another in time."""
    targets, questions, history = targets_of(examples, task), examples.questions, examples.history
    rows = np.flatnonzero(targets.usable & ~targets.is_censored & (questions.kinds == SUBMITTED))
    if len(rows) < FEWEST:
        raise InputError(
            f"Only {len(rows)} jobs of the log can be learnt from",
            expected=f"at least {FEWEST} jobs that ran",
            remedy="Use the model as it is: it needs no training",
        )
    window = min(WINDOW, len(rows) // 4)
    judge = rows[-window:]
    known_s = (history.start_s if task is Task.WAIT else history.end_s)[questions.asked]
    earlier = rows[:-window][known_s[rows[:-window]] < questions.time_s[judge[0]]]
    stop = earlier[-min(STOPPING, len(earlier) // 4) :]
    learn = earlier[: -len(stop)]
    return learn[known_s[learn] < questions.time_s[stop[0]]], stop, judge


def _scores(tower: Tower, examples: Examples, part: Split) -> Scores:
    return answer_test(tower, examples, part).recalibrated


def _verdict(compared: dict[Task, _Compared]) -> tuple[bool, str]:
    gains = {task: each.old.log_mae - each.new.log_mae for task, each in compared.items()}
    told = ", ".join(f"{task} {gain:+.3f}" for task, gain in gains.items())
    if min(gains.values()) < -GAIN:
        return False, f"worse on the latest jobs (gain: {told})"
    if max(gains.values()) < GAIN:
        return False, f"not better on the latest jobs (gain: {told})"
    return True, f"better on the latest jobs (gain: {told})"


def _figures(compared: _Compared, task: Task, store: ModelStore) -> dict[str, float | None]:
    """Return the errors of both, and how much worse the old one has become since it took over."""
    then = next(
        (each.figures.get(task.value, {}) for each in reversed(store.attempts()) if each.took_over), {}
    ).get("new_log_mae")
    return {
        "old_log_mae": compared.old.log_mae,
        "new_log_mae": compared.new.log_mae,
        "old_coverage_80": compared.old.coverage_80,
        "new_coverage_80": compared.new.coverage_80,
        "drift": None if then is None else compared.old.log_mae - then,
    }
