from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import pytest

from presage.errors import UnknownNameError, UsageError
from presage.traces import workloads
from presage.traces.workloads import WORKLOADS, describe_parameters, make_model, parameter
from presage.traces.workloads._parameters import parameters_of, parse_settings
from presage.traces.workloads.lublin import LublinModel


@dataclass(frozen=True)
class Sample:
    count: int = parameter(3, "a count", minimum=1, maximum=10)
    share: float = parameter(0.5, "a share", above=0, maximum=1)
    on: bool = parameter(False, "a switch")
    kind: str = parameter("red", "a choice", choices=("red", "green"))
    limit: float | None = parameter(None, "may be absent", minimum=0)
    hidden: int = 7


def test_parameters_are_read_off_the_fields() -> None:
    known = parameters_of(Sample)
    assert list(known) == ["count", "share", "on", "kind", "limit"]
    assert (known["count"].type, known["count"].default, known["count"].help) == (int, 3, "a count")
    assert (known["limit"].type, known["limit"].optional) == (float, True)
    assert known["share"].expected() == "a number above 0 and at most 1"
    assert known["kind"].expected() == "one of red, green"
    assert known["limit"].expected() == "a number at least 0, or none"


def test_texts_become_values() -> None:
    texts = {"count": " 1e1 ", "share": "1", "on": "Yes", "kind": "green", "limit": "none"}
    assert parse_settings(Sample, texts) == {"count": 10, "share": 1.0, "on": True, "kind": "green", "limit": None}
    assert parse_settings(Sample, {"count": "1_0", "limit": 2}) == {"count": 10, "limit": 2.0}


@pytest.mark.parametrize(
    "settings",
    [
        {"count": "0"}, {"count": "2.5"}, {"count": "x"}, {"count": ""}, {"count": True}, {"count": None},
        {"share": 0}, {"share": "inf"}, {"share": "nan"}, {"on": "maybe"}, {"on": "2"}, {"limit": -1},
        {"kind": 3}, {"count": "9" * 400},
    ],
)  # fmt: skip
def test_values_that_cannot_be_used_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(
        UsageError, match=rf"The parameter {next(iter(settings))} cannot be .*Expected (a|one|true)"
    ):
        parse_settings(Sample, settings)  # type: ignore[arg-type]


def test_names_that_are_nearly_right_are_suggested() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'green'"):
        parse_settings(Sample, {"kind": "greem"})
    with pytest.raises(UnknownNameError, match="Did you mean 'processors'"):
        make_model("lublin", {"processor": 4})
    with pytest.raises(UnknownNameError, match="Did you mean 'gpu-cluster'"):
        make_model("gpucluster")
    with pytest.raises(UnknownNameError, match="Did you mean 'lublin'"):
        describe_parameters("lubin")


def test_a_model_made_in_python_is_checked_too() -> None:
    with pytest.raises(UsageError, match="processors cannot be 0"):
        LublinModel(processors=0)
    with pytest.raises(UsageError, match="processors cannot be '4'"):
        LublinModel(processors="4")  # type: ignore[arg-type]


def test_what_the_room_shows() -> None:
    assert list(WORKLOADS) == ["lublin", "gpu-cluster"]
    assert sorted(workloads.__all__) == sorted(name for name in workloads.__all__ if hasattr(workloads, name))
    for name in WORKLOADS:
        assert WORKLOADS.get(name).name == name
        assert list(describe_parameters(name))[:3] == ["load", "start_ms", "time_zone"]


@pytest.mark.slow
def test_a_million_jobs_take_seconds() -> None:
    # Measured: under a second each on two cores; the margin is for busy machines.
    for name in WORKLOADS:
        start = perf_counter()
        assert len(make_model(name).generate(1_000_000, seed=1)) == 1_000_000
        assert perf_counter() - start < 10
