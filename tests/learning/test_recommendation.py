from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from presage.errors import InputError, UsageError
from presage.foundation.store import SHIPPED
from presage.learning.cases import Case
from presage.learning.evaluation import Schedule
from presage.learning.learned_policy import LearnedPolicy
from presage.learning.recommendation import Period, PolicyStore, Recommendation, Standing, latest_weeks, recommend
from presage.learning.static_rules import FIRST_COME
from presage.policies.queue_scorer import GUARDS, INDEX_WEIGHTS, OF_THE_JOB, QueueScorer
from presage.simulator.guided import Decider
from tests.learning.making import make_case

DAY_MS = 86_400_000
NOW = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def busy() -> Case:
    """About three weeks with long queues."""
    return make_case(seed=2, jobs=3000, load=0.9)


@pytest.fixture(scope="module")
def idle() -> Case:
    return make_case(jobs=400, load=0.01)


def policy(name: str, sign: float = 1.0, **named: float) -> LearnedPolicy:
    """The fixed index with other weights, or against it."""
    weights = np.array([sign * {**INDEX_WEIGHTS, **named}.get(each, 0.0) for each in OF_THE_JOB])
    return LearnedPolicy(name, QueueScorer(weights), watches=False)


WORST = policy("longest-first", log_expected_run=-1.0, log_typical_run=-1.0, log_waited=0.0)


def standing(name: str, ratio: float, *, safe: bool = True) -> Standing:
    return Standing(name, 10.0, ratio, ratio - 0.1, ratio + 0.1, 1.0, 1.5, safe)


def said(before: Period | None, *latest: Standing, choice: int | None) -> str:
    return Recommendation("fcfs/-", 8.0, Period(1234, 0.8, 20.0, latest), before, choice).says


def test_a_better_rule_is_recommended_where_the_queue_is_bad(busy: Case) -> None:
    made = recommend(busy, candidates=[WORST, Decider("saf"), LearnedPolicy()], weeks=1.3)

    assert made.choice is not None
    choice = made.latest.standings[made.choice]
    assert made.change_to == choice.name != "longest-first"
    assert choice.safe
    assert choice.high is not None
    assert choice.high < 1
    assert choice.ratio == min(each.ratio for each in made.latest.standings if each.is_better)
    assert made.says.startswith(f"Change from fcfs/- to {choice.name}: on the latest 1.3 weeks (")


def test_ratios_are_those_of_the_latest_jobs(busy: Case) -> None:
    made = recommend(busy, candidates=[LearnedPolicy()], weeks=1.0)
    rows = np.flatnonzero(busy.jobs.submit_ms > busy.jobs.submit_ms[-1] - 7 * DAY_MS)
    last = busy.select(rows)
    own, line = Schedule.of(last, LearnedPolicy()), Schedule.of(last, FIRST_COME)

    got = made.latest.standings[0]
    assert made.latest.jobs == len(rows)
    assert got.ratio == pytest.approx(own.outcome.slowdown / line.outcome.slowdown)
    assert got.max_wait_ratio == pytest.approx(own.metrics.max_wait_s / line.metrics.max_wait_s)
    assert got.p99_wait_ratio == pytest.approx(own.metrics.p99_wait_s / line.metrics.p99_wait_s)


def test_nothing_is_recommended_without_load(idle: Case) -> None:
    made = recommend(idle, weeks=8)

    # Eleven rules with two guards, and the index.
    assert len(made.latest.standings) == 23
    assert made.change_to is None
    assert made.holds is None
    assert made.says.startswith("Change nothing: ")


def test_what_is_in_use_is_no_candidate_and_is_not_replaced_by_worse(busy: Case) -> None:
    best = LearnedPolicy()
    made = recommend(busy, present=best, candidates=[best, FIRST_COME, WORST], weeks=1.3)

    assert [each.name for each in made.latest.standings] == ["fcfs/-", "longest-first"]
    assert made.present == "index"
    assert made.change_to is None


def test_recommendations_become_json(busy: Case) -> None:
    made = recommend(busy, candidates=[Decider("saf", GUARDS["A"])], weeks=1.3)
    read = json.loads(json.dumps(made.as_dict(), allow_nan=False))

    assert read["latest"]["standings"][0]["name"] == "saf/A"
    assert read["says"] == made.says
    assert read["before"]["jobs"] == made.before.jobs if made.before else read["before"] is None
    assert made == recommend(busy, candidates=[Decider("saf", GUARDS["A"])], weeks=1.3)


def test_the_weeks_before_speak_too() -> None:
    latest = (standing("saf/A", 0.5), standing("lxf/A", 0.7))
    before = Period(1000, 0.8, 20.0, (standing("saf/A", 0.8), standing("lxf/A", 0.6)))

    assert "The best of the 8 weeks before, lxf/A, is still better: 0.70 (0.60 to 0.80)." in said(
        before, *latest, choice=0
    )
    unsafe = (latest[0], replace(latest[1], safe=False))
    assert "lxf/A, is not safe any more" in said(before, *unsafe, choice=0)
    tired = (latest[0], standing("lxf/A", 0.95))
    assert "lxf/A, is not surely better any more" in said(before, *tired, choice=0)
    assert "too few jobs before that" in said(None, *latest, choice=0)
    assert said(before, *latest, choice=None).startswith("Change nothing yet: ")
    dull = replace(before, standings=(standing("saf/A", 1.0), standing("lxf/A", 1.0)))
    assert "none was surely better." in said(dull, *latest, choice=0)


def test_a_candidate_that_was_worse_before_is_not_recommended(busy: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    periods = iter(
        [
            Period(100, 0.8, 20.0, (standing("saf/A", 0.5), standing("lxf/A", 0.7))),
            Period(100, 0.8, 20.0, (standing("saf/A", 0.5, safe=False), standing("lxf/A", 1.0))),
        ]
    )
    monkeypatch.setattr(Period, "of", lambda *_: next(periods))

    assert recommend(busy, candidates=[], weeks=1.3).change_to == "lxf/A"


def test_weeks_are_cut_from_the_end(busy: Case) -> None:
    last, before = latest_weeks(busy, 1.0)

    assert before is not None
    assert last.jobs.submit_ms[0] > busy.jobs.submit_ms[-1] - 7 * DAY_MS >= before.jobs.submit_ms[-1]
    assert last.jobs.submit_ms[-1] == busy.jobs.submit_ms[-1]
    assert latest_weeks(busy, 100.0)[1] is None
    with pytest.raises(InputError, match="only"):
        latest_weeks(busy, 0.001)
    with pytest.raises(UsageError, match="no time"):
        latest_weeks(busy, 0.0)


def test_only_better_policies_take_over_and_the_way_back_is_kept(busy: Case, tmp_path: Path) -> None:
    store = PolicyStore(tmp_path / "policies", first="index")
    WORST.save(tmp_path / "worst.safetensors")
    bad = PolicyStore(tmp_path / "bad", first=str(tmp_path / "worst.safetensors"))

    kept = store.propose(WORST, busy, weeks=1.3, now=NOW)
    assert not kept.took_over
    assert store.current_version() == SHIPPED
    assert not list(store.folder.glob("*.safetensors"))

    taken = bad.propose(policy("own", log_processors=0.4), busy, weeks=1.3, now=NOW)
    assert taken.took_over
    assert taken.reason.startswith("better on the latest jobs")
    assert (taken.version, taken.replaces, taken.made) == ("0001", SHIPPED, "2024-05-01T00:00:00+00:00")
    assert taken.figures["latest"]["high"] < 1
    assert bad.propose(WORST, busy, weeks=1.3).took_over is False

    again = PolicyStore(bad.folder, first=str(tmp_path / "worst.safetensors"))
    assert again.current().name == "own"
    assert again.current().about == {"version": "0001", "replaces": SHIPPED}
    assert again.next_version() == "0003"
    assert [each.took_over for each in again.attempts()] == [True, False]

    assert again.roll_back() == SHIPPED
    assert again.current().name == "longest-first"
    with pytest.raises(UsageError, match="no earlier policy"):
        again.roll_back()
    assert len(again.attempts()) == 2


def test_too_short_a_log_leaves_the_store_alone(busy: Case, tmp_path: Path) -> None:
    store = PolicyStore(tmp_path / "policies", first="index")
    with pytest.raises(InputError, match="only"):
        store.propose(WORST, busy, weeks=0.001)

    assert not store.folder.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"current": "0001", "attempts": [{"version": 1}]}'])
def test_a_damaged_store_is_told_apart(text: str, tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text(text)

    with pytest.raises(InputError, match="damaged"):
        PolicyStore(tmp_path).current_version()
