from __future__ import annotations

from pathlib import Path

import pytest

from presage.errors import InputError, UsageError
from presage.foundation.model import Model
from presage.foundation.store import SHIPPED, Attempt, ModelStore
from presage.foundation.training.updating import update
from presage.traces import Trace


def attempt(version: str, replaces: str, *, took_over: bool) -> Attempt:
    return Attempt(version, replaces, "2024-01-01T00:00:00+00:00", took_over, "because", 10)


def test_a_store_begins_with_the_shipped_model_and_finds_its_way_back(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models")
    assert store.current_version() == SHIPPED
    store.record(attempt("0001", SHIPPED, took_over=True), Model.load())
    store.record(attempt("0002", "0001", took_over=False), None)
    store.record(attempt("0003", "0001", took_over=True), Model.load())

    assert ModelStore(store.folder).current_version() == "0003"
    assert store.next_version() == "0004"
    assert store.current().towers
    assert store.roll_back() == "0001"
    assert store.roll_back() == SHIPPED
    with pytest.raises(UsageError, match="no earlier model"):
        store.roll_back()
    assert [each.took_over for each in store.attempts()] == [True, False, True]


def test_a_damaged_store_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text("{")

    with pytest.raises(InputError, match="damaged"):
        ModelStore(tmp_path).current_version()


def test_updates_are_judged_by_the_latest_jobs(busy_trace: Trace, tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models")
    made = update(busy_trace, store, steps=30)

    gains = {task: each["old_log_mae"] - each["new_log_mae"] for task, each in made.figures.items()}
    assert made.took_over == (max(gains.values()) >= 0.005 and min(gains.values()) >= -0.005)
    assert store.current_version() == ("0001" if made.took_over else SHIPPED)
    assert made.figures["wait"]["drift"] is None
    assert update(busy_trace, store, steps=3).version == "0002"
    assert len(store.attempts()) == 2


def test_too_short_a_log_leaves_the_store_alone(busy_trace: Trace, tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models")
    with pytest.raises(InputError, match="can be learnt from"):
        update(busy_trace.with_jobs(busy_trace.jobs.head(300)), store)

    assert not store.folder.exists()
