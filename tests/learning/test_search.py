from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from presage.errors import InputError, UsageError
from presage.learning.search import KINDS, Goal, Search, search_from_many, search_scorer
from presage.policies.queue_scorer import OF_THE_JOB, QueueScorer

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
    with pytest.raises(InputError, match="another search"):
        search_scorer([case], Search(generations=2, population=6, seed=9), journal=journal)


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
