from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.errors import InputError, PresageError, UnreadableSourceError
from presage.estimators import Spread, TrainingWorkload
from presage.planner import (
    Assumptions,
    Constraints,
    Overheads,
    Plan,
    Stated,
    Strategy,
    Variant,
    parse_plan,
    read_plan,
)
from tests.planner.making import HOUR, exact, plans_for

KEYS = st.sampled_from(["legs", "version", "strategy", "workload", "x"])
documents = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=8,
)


def plan_with(strategy: Strategy = Strategy.AVAILABILITY, **more: Any) -> Plan:
    """Return a plan of two legs in two places."""
    stated = Stated(
        None, {**exact(batch=20, test=4), "lab/accelerated": Spread(3 * HOUR, 4 * HOUR, 6 * HOUR)},
        exact(batch=0, accelerated=5, test=1),
    )  # fmt: skip
    plan = plans_for(stated, **more).plan(strategy)
    assert plan is not None
    return plan


@pytest.mark.parametrize("strategy", [Strategy.BEST, Strategy.AVAILABILITY, Strategy.HOPS])
def test_a_plan_travels_as_json(strategy: Strategy, tmp_path: Path) -> None:
    plan = plan_with(strategy)
    file = tmp_path / "plan.json"
    file.write_text(plan.as_json())
    assert read_plan(file) == plan


def test_a_training_travels_too() -> None:
    variant = Variant(TrainingWorkload("train.py:net", ((3, 8, 8), (4,)), ("float", "int:10")), "batch 32")
    plan = plan_with(variants=(variant,))
    again = parse_plan(json.loads(plan.as_json()))
    assert again == plan
    assert isinstance(again.workload, TrainingWorkload)


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("version",), 2, "version 2"),
        (("legs",), [], "no legs"),
        (("legs", 0, "number"), 3, "not numbered"),
        (("legs", 1, "after"), 2, "does not come before"),
        (("legs", 1, "takes_over"), 7, "does not come before"),
        (("legs", 0, "walltime_s"), 0, "a time that cannot be"),
        (("legs", 0, "start_s"), float("nan"), "a time that cannot be"),
        (("legs", 0, "share", "nodes"), 0, "no nodes"),
        (("legs", 0, "scheduler"), "cron", "legs.0.scheduler"),
        (("strategy",), "guess", "strategy"),
        (("cost", "p10"), 9e9, "cost"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(place: tuple[Any, ...], value: Any, problem: str) -> None:
    document = plan_with().as_dict()
    inner: Any = json.loads(json.dumps(document))
    whole = inner
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    with pytest.raises(InputError, match=problem):
        parse_plan(whole)


@given(documents)
def test_no_document_causes_anything_but_an_error_of_ours(document: Any) -> None:
    with pytest.raises(PresageError):
        parse_plan(document)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b"3"])
def test_no_file_does_either(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    with pytest.raises(InputError):
        read_plan(file)
    with pytest.raises(UnreadableSourceError):
        read_plan(tmp_path / "absent.json")


def test_legs_are_needed_with_a_chance() -> None:
    plan = plan_with(
        Strategy.BEST,
        constraints=Constraints(only=("lab/test", "lab/nothing")),
        assumptions=Assumptions(overheads=Overheads(0, 0, 0)),
    )
    assert [round(leg.work_share, 3) for leg in plan.legs] == [0.25] * 4
    assert [leg.chance for leg in plan.legs] == [1, 1, 1, 1]
    wide = plans_for(
        Stated(None, {"*": Spread(2 * HOUR, 4 * HOUR, 8 * HOUR)}, {"*": Spread.exactly(0)}),
        constraints=Constraints(only=("lab/test",)),
        assumptions=Assumptions(overheads=Overheads(0, 0, 0)),
    ).plan(Strategy.HOPS)
    assert wide is not None
    assert len(wide.legs) == 8
    assert wide.legs[4].chance == pytest.approx(0.5)
    assert wide.legs[2].chance == pytest.approx(0.9)
