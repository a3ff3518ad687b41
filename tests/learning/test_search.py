from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import presage.learning.search
from presage.errors import InputError, UsageError
from presage.learning.learned_policy import LearnedPolicy
from presage.learning.search import KINDS, Found, Goal, Search, kind_of, origin_of, search_from_many, search_scorer
from presage.policies.queue_scorer import GUARDS, OF_THE_JOB, QueueScorer

from .making import make_case

SHORT = Search(generations=4, population=6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_finds_the_same(kind: str) -> None:
    case = make_case(jobs=150)
    search = Search(kind, generations=2, population=4)
    first, second = (search_scorer([case], search) for _ in range(2))
    np.testing.assert_array_equal(first.scorer.weights, second.scorer.weights)
    assert first.history == second.history


def test_a_search_goes_on_where_its_journal_ends(tmp_path: Path) -> None:
    case, journal = make_case(jobs=200), tmp_path / "journal.jsonl"
    whole = search_scorer([case], SHORT)
    search_scorer([case], Search(generations=2, population=6), journal=journal)
    asked: list[int] = []
    resumed = search_scorer([case], SHORT, journal=journal, progress=lambda done, _of, _cost: asked.append(done))
    np.testing.assert_allclose(resumed.scorer.weights, whole.scorer.weights)
    assert len(journal.read_text().splitlines()) == 1 + 4


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (Search(generations=1, population=4, seed=9), "its seed is 0, not 9"),
        (Search(generations=1, population=4, fairness=3.0), "its fairness is 0.0, not 3.0"),
        (Search(generations=1, population=4, tail=1.0), "its tail is 2.0, not 1.0"),
        (Search(generations=1, population=4, p99_limit=3.0), "p99_limit"),
        (Search(generations=1, population=4, keep=0.0), "keep"),
        (Search(generations=1, population=4, guard=GUARDS["E"]), "guard.*backlog 1.0.*, not .*backlog 0.3"),
        (Search("mlp", generations=1, population=4), "its kind is linear, not mlp"),
    ],
)
def test_a_journal_with_other_settings_is_refused_by_name(tmp_path: Path, other: Search, differs: str) -> None:
    case, journal = make_case(jobs=80), tmp_path / "journal.jsonl"
    search_scorer([case], Search(generations=1, population=4), journal=journal)
    before = journal.read_text()
    with pytest.raises(InputError, match=f"another search: {differs}|another search:.*{differs}"):
        search_scorer([case], other, journal=journal)
    assert journal.read_text() == before


def test_a_journal_of_other_cases_or_another_start_is_refused(tmp_path: Path) -> None:
    case, journal = make_case(jobs=80), tmp_path / "journal.jsonl"
    search = Search(generations=1, population=4)
    search_scorer([case], search, journal=journal)
    for cases, differs in (
        ([make_case(jobs=80, seed=1)], "other jobs and users and forecasts"),
        ([case.at_load(0.5)], "other jobs$"),
        ([replace(case, processors=65)], "other processors$"),
        ([replace(case, forecasts=case.told("actual"))], "other forecasts$"),
        ([case, case.at_load(0.5)], "of 1 cases, not 2$"),
    ):
        with pytest.raises(InputError) as refused:
            search_scorer(cases, search, journal=journal)
        assert re.search(differs, refused.value.problem)
    with pytest.raises(InputError, match="began elsewhere"):
        search_scorer([case], search, start=LearnedPolicy.load("default").scorer, journal=journal)


def test_a_journal_that_does_not_say_all_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text('{"kind": "linear", "units": 6, "population": 4, "spread": 0.4, "seed": 0}\n')
    with pytest.raises(InputError, match="another version of Presage"):
        search_scorer([make_case(jobs=80)], Search(generations=1, population=4), journal=journal)


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_begins_where_it_is_told(kind: str) -> None:
    rng = np.random.default_rng(0)
    search = Search(kind, units=4, generations=1, population=4)
    start = search.scorer(rng.normal(0, 1, search.parameters))
    assert kind_of(start) == kind
    for wider in (search, Search("attention", units=6)):
        again = wider.scorer(origin_of(wider, start))
        units = len(start.out)
        np.testing.assert_allclose(again.weights, start.weights)
        np.testing.assert_allclose(again.hidden[:units], start.hidden)
        np.testing.assert_allclose(again.out, np.pad(start.out, (0, len(again.out) - units)))
        if kind == "attention":
            np.testing.assert_allclose(again.attention, start.attention)

    case = make_case(jobs=80)
    nowhere = Search(kind, units=4, generations=1, population=4, spread=1e-9)
    found = search_scorer([case], nowhere, start=start)
    np.testing.assert_allclose(found.scorer.weights, start.weights, atol=1e-6)
    assert found.cost == pytest.approx(Goal.of(case, nowhere.guard).cost(start, nowhere))


def test_a_search_cannot_begin_at_what_it_cannot_find() -> None:
    start = Search("attention", units=4).scorer(np.ones(Search("attention", units=4).parameters))
    for search in (Search(), Search("mlp"), Search("attention", units=3)):
        with pytest.raises(UsageError, match="cannot begin"):
            search_scorer([make_case(jobs=80)], search, start=start)


def test_ctrl_c_keeps_what_was_found() -> None:
    def interrupt(done: int, _of: int, _cost: float) -> None:
        if done == 2:
            raise KeyboardInterrupt

    found = search_scorer([make_case(jobs=150)], SHORT, progress=interrupt)
    assert found.interrupted
    assert len(found.history) == 2


def test_tails_cost() -> None:
    case = make_case(jobs=400, load=1.1)
    hates_waiting = np.zeros(len(OF_THE_JOB))
    hates_waiting[OF_THE_JOB.index("log_waited")] = 1.0
    goal = Goal.of(case, SHORT.guard)
    cheap = goal.cost(QueueScorer(hates_waiting), Search(tail=0.0))
    assert goal.cost(QueueScorer(hates_waiting), Search(tail=2.0)) > cheap
    assert goal.cost(QueueScorer(), Search(p99_limit=100, max_limit=100)) == 0


def test_settings_that_find_nothing_are_told() -> None:
    with pytest.raises(UsageError, match="kind"):
        Search("deep")
    with pytest.raises(UsageError, match="find nothing"):
        Search(population=2)
    with pytest.raises(UsageError, match="nothing to search on"):
        search_scorer([], SHORT)


def test_of_many_starts_the_best_is_taken() -> None:
    cases, search = [make_case(jobs=120)], Search(generations=1, population=4)
    each = [search_scorer(cases, Search(generations=1, population=4, seed=seed)).cost for seed in range(3)]
    assert search_from_many(cases, search, 3, engine="serial").cost == min(each)


@pytest.mark.parametrize("taken_by", ["caller", "search"])
def test_ctrl_c_keeps_the_best_of_the_starts_that_are_done(monkeypatch: pytest.MonkeyPatch, taken_by: str) -> None:
    searched: list[int] = []

    def one(_cases: object, search: Search, **_: object) -> Found:
        searched.append(search.seed)
        if search.seed == 1 and taken_by == "caller":
            raise KeyboardInterrupt
        return Found(QueueScorer(), cost=float(search.seed), interrupted=search.seed == 1)

    monkeypatch.setattr(presage.learning.search, "search_scorer", one)
    found = search_from_many([], SHORT, 3, engine="serial")
    assert (found.cost, found.interrupted, searched) == (0.0, True, [0, 1])


def test_a_journal_that_was_cut_off_in_a_line_goes_on_before_it(tmp_path: Path) -> None:
    case, journal = make_case(jobs=120), tmp_path / "journal.jsonl"
    search = Search(generations=2, population=4)
    whole = search_scorer([case], search, journal=journal)
    text = journal.read_text()
    for kept in (text[:-9], text[:9], ""):
        journal.write_text(kept)
        again = search_scorer([case], search, journal=journal)
        np.testing.assert_array_equal(again.scorer.weights, whole.scorer.weights)
        assert journal.read_text() == text


@pytest.mark.parametrize("text", ["no json\n", "{}\n[]\n", '{"kind": "linear"}\n{"costs": 3}\n'])
def test_what_is_no_journal_is_told_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    journal = tmp_path / "notes.txt"
    journal.write_text(text)
    with pytest.raises(InputError, match="no journal"):
        search_scorer([make_case(jobs=120)], SHORT, journal=journal)
    assert journal.read_text() == text
