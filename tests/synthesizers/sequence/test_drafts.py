from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from presage.synthesizers._base import Drawing
from presage.synthesizers.sequence import drafts as drafts_module
from presage.synthesizers.sequence.drafts import Drafts
from presage.synthesizers.sequence.features import Moment, work_of
from presage.synthesizers.sequence.meanings import Meanings
from presage.synthesizers.sequence.memory import Memory
from presage.synthesizers.sequence.model import SequenceModel
from presage.synthesizers.sequence.plans import Plan
from presage.synthesizers.sequence.steps import NextJobs
from presage.synthesizers.sequence.streams import DAY_S, calendar_from
from presage.synthesizers.sequence.tallies import Tally

DRAFTS, WORDS = 3, 600


def plan_of_two() -> Plan:
    """Return a plan of a user with two jobs on Monday and one on Tuesday, and of one with a job on Monday."""
    return Plan(
        calendar=calendar_from(4 * DAY_S * 1000, 4 * DAY_S * 1000, "UTC"),
        user=np.array([0, 1]),
        jobs=np.array([3, 1]),
        day=np.array([0, 0, 1, 0]),
        of_day=np.array([2, 2, 1, 1]),
        of_week=np.array([3, 3, 3, 1]),
        work=np.array([100.0, 100.0, 10.0, 50.0]),
    )


class Table:
    """Drafts of the plan above, to which jobs are written whose run times are their work, and their word.

    `usual` (words,): what is usual for both users; else every word is as usual as the others.
    """

    def __init__(self, usual: np.ndarray[Any, Any] | None = None) -> None:
        shares = np.full(WORDS, 1 / WORDS) if usual is None else usual
        tally = Tally(np.stack([shares] * 2), np.array([WORDS]), np.array([WORDS]), np.array([False]))
        self.drafts = Drafts(plan_of_two(), 1, DRAFTS, tally)
        self.moment = Moment.begin(2 * DRAFTS)
        self.memory = Memory.empty(2 * DRAFTS, np.array([WORDS]), 1, sort=(0,))

    def write(self, places: list[int], runs_s: list[list[float]], times_s: list[list[float]]) -> None:
        rows = len(places) * DRAFTS
        now, held = self.moment.of(slice(rows)), self.memory.of(slice(rows))
        run_s, time_s = np.array(runs_s).ravel(), np.array(times_s).ravel()
        words = run_s.astype(np.int64)[:, None]
        self.drafts.write(np.array(places), NextJobs(words, time_s - now.now_s, run_s), time_s)
        now.work_today[:] += run_s
        now.now_s[:] = time_s
        held.add(words, np.zeros((rows, 1), np.float32), np.zeros((rows, 1), np.float32), run_s)
        self.drafts.settle(np.array(places), now, held)


def test_of_each_day_the_draft_with_the_work_of_the_plan_is_kept_with_all_its_jobs() -> None:
    table = Table()
    table.write([0, 3], [[70.0, 10.0, 20.0], [5.0, 500.0, 49.0]], [[1.0, 2.0, 3.0]] * 2)
    table.write([1], [[90.0, 95.0, 10.0]], [[7.0, 8.0, 9.0]])  # 160, 105 and 30 of 100
    table.moment.work_today[:] = 0  # as when the next day begins
    table.write([2], [[1.0, 2.0, 11.0]], [[DAY_S + 1.0] * DRAFTS])
    words, run_s, time_s = table.drafts.kept()
    assert run_s.tolist() == [10, 95, 11, 49]
    assert words[:, 0].tolist() == [10, 95, 11, 49]
    assert time_s.tolist() == [2, 8, DAY_S + 1, 3]


def test_all_drafts_go_on_from_what_is_kept() -> None:
    table = Table()
    table.write([0, 3], [[70.0, 10.0, 20.0], [5.0, 500.0, 49.0]], [[1.0, 2.0, 3.0]] * 2)
    assert table.memory.words[:, 0, 0].tolist() == [70, 10, 20, 49, 49, 49]  # the first user's day is not over
    table.write([1], [[90.0, 95.0, 10.0]], [[7.0, 8.0, 9.0]])
    assert table.memory.words[:DRAFTS, :2, 0].tolist() == [[95, 10]] * DRAFTS
    assert table.moment.now_s.tolist() == [8] * DRAFTS + [3] * DRAFTS


def test_who_is_late_by_days_is_not_kept_for_the_work() -> None:
    table = Table()
    table.write([0, 3], [[1.0, 1.0, 1.0], [50.0, 40.0, 10.0]], [[1.0] * 3, [3.0 * DAY_S, 0.9 * DAY_S, 5.0]])
    assert table.drafts.kept()[1][3] == 40


def test_who_brings_much_is_further_from_the_plan_than_who_brings_little() -> None:
    """Of the ten seconds that are planned for Tuesday, 80 are nearer than 0.3, as factors; but 80 make a queue."""
    table = Table()
    table.write([0, 3], [[1.0] * 3, [50.0] * 3], [[1.0] * 3] * 2)
    table.write([1], [[99.0] * 3], [[2.0] * 3])
    table.moment.work_today[:] = 0  # as when the next day begins
    table.write([2], [[80.0, 0.3, 80.0]], [[DAY_S + 1.0] * DRAFTS])
    assert table.drafts.kept()[1][2] == 0.3


def test_of_drafts_with_about_the_work_of_the_plan_the_usual_one_is_kept() -> None:
    usual = np.zeros(WORDS)
    usual[45] = 1.0
    table = Table(usual)
    table.write([0, 3], [[1.0, 1.0, 1.0], [50.0, 45.0, 1.0]], [[1.0] * 3, [1.0] * 3])
    assert table.drafts.kept()[1][3] == 45


def test_of_many_jobs_in_a_day_a_draft_is_kept_of_every_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a plan of 100, 250 are too much even before the day is over; 20 may still become enough."""
    monkeypatch.setattr(drafts_module, "AT_ONCE", 1)
    usual = np.zeros(WORDS)
    usual[20] = usual[250] = 0.5
    table = Table(usual)
    table.write([0, 3], [[250.0, 20.0, 99.0], [50.0] * 3], [[1.0, 2.0, 3.0]] * 2)
    assert table.memory.words[:DRAFTS, 0, 0].tolist() == [20] * DRAFTS
    assert table.moment.work_today[:DRAFTS].tolist() == [20] * DRAFTS
    table.write([1], [[60.0, 82.0, 1.0]], [[7.0, 8.0, 9.0]])
    words, run_s, time_s = table.drafts.kept()
    assert run_s[:2].tolist() == [20, 82]
    assert words[:2, 0].tolist() == [20, 82]
    assert time_s[:2].tolist() == [2, 8]


def days_off(model: SequenceModel, drafts: int, seed: int) -> float:
    """Return by how much the work of a user's day differs from the plan, as a mean of powers of e."""
    rng = np.random.default_rng(seed)
    plan = model._plan(400, model.source.first_ms, rng)
    words, run_s, _ = replace(model.drawer, drafts=drafts).draw_streams(plan, rng, Drawing())
    meanings = Meanings.of(model.columns, model.drawer.fields, model.drawer.week)
    work = work_of(meanings.sizes[words[:, meanings.size_place]], run_s)
    ends = np.flatnonzero(plan.ends_of_days())
    drawn = np.diff(np.cumsum(work)[ends], prepend=0)
    return float(np.abs(np.log(drawn / plan.work[ends])).mean())


@pytest.mark.parametrize("seed", range(3))
def test_more_drafts_keep_nearer_to_the_plan(
    model: SequenceModel, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert days_off(model, 6, seed) < 0.8 * days_off(model, 1, seed)
    monkeypatch.setattr(drafts_module, "UNUSUAL", 0.0)  # what is usual is chosen for at the plan's expense
    assert days_off(model, 6, seed) < 0.7 * days_off(model, 1, seed)


def unusual(model: SequenceModel, drafts: int, seed: int) -> float:
    """Return by how many jobs, as a share, the words of users differ from what is usual for them."""
    rng = np.random.default_rng(seed)
    plan = model._plan(400, model.source.first_ms, rng)
    words, _, _ = replace(model.drawer, drafts=drafts).draw_streams(plan, rng, Drawing())
    tally = Tally.of(model.drawer.weights, model.drawer.fields, model.columns)
    user = np.repeat(plan.user, plan.jobs)
    away = [tally.distance(each, tally.after(each, words[user == each][:, None])) for each in np.unique(user)]
    return float(np.sum(away) / len(words))


@pytest.mark.parametrize("seed", range(3))
def test_more_drafts_keep_users_nearer_to_what_is_usual(model: SequenceModel, seed: int) -> None:
    assert unusual(model, 6, seed) < 0.8 * unusual(model, 1, seed)
