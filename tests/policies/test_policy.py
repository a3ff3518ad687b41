from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presage.errors import UnknownNameError, UsageError
from presage.policies import PeriodicBackfill, Policy


@pytest.mark.parametrize(
    "text",
    [
        "sjf",
        "sjf+easy",
        "fcfs+periodic",
        "fcfs+periodic:interval_s=60,depth=200",
        "lxf+periodic:window_s=86401,release_s=0.25",
    ],
)
def test_a_policy_is_written_as_it_is_read(text: str) -> None:
    assert str(Policy.parse(text)) == text
    assert Policy.parse(str(Policy.parse(text))) == Policy.parse(text)


def test_settings_that_equal_the_default_are_not_written() -> None:
    assert str(Policy.parse("fcfs+periodic:interval_s=30,depth=500")) == "fcfs+periodic"


def test_a_backfilling_may_bring_its_settings() -> None:
    changed = replace(Policy("sjf", "easy"), backfilling="periodic: interval_s = 60")
    assert changed == Policy("sjf", "periodic", PeriodicBackfill(interval_s=60))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fcfs+periodic:", "no setting ''"),
        ("fcfs+periodic:interval=60", "no setting 'interval=60'.*interval_s, depth, window_s"),
        ("fcfs+periodic:depth", "no setting 'depth'"),
        ("fcfs+periodic:depth=2.5", "depth cannot be '2.5'.*whole number"),
        ("fcfs+periodic:interval_s=soon", "interval_s cannot be 'soon'"),
        ("fcfs+periodic:interval_s=0", "interval_s=0.*from 0.001"),
        ("fcfs+periodic:window_s=-1", "window_s=-1"),
        ("fcfs+periodic:window_s=nan", "window_s=nan"),
        ("fcfs+periodic:depth=0", "depth=0.*from 1"),
        ("fcfs+easy:depth=2", "'easy' has no settings"),
        ("fcfs+", "ends in"),
    ],
)
def test_wrong_settings_are_named(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Policy.parse(text)


def test_settings_without_the_backfilling_are_refused() -> None:
    with pytest.raises(UsageError, match="'easy' has no settings"):
        Policy("fcfs", "easy", PeriodicBackfill(depth=3))


def test_an_unknown_backfilling_suggests() -> None:
    with pytest.raises(UnknownNameError, match="periodic"):
        Policy.parse("fcfs+periodical:depth=3")


@given(st.text(max_size=40))
def test_no_text_is_a_traceback(text: str) -> None:
    with contextlib.suppress(UsageError, UnknownNameError):
        Policy.parse(f"fcfs+periodic:{text}")
