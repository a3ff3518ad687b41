from __future__ import annotations

import json
import sys
from typing import Any

import polars as pl
import pytest

from presage.errors import InputError, UsageError
from presage.synthesizers.fidelity import Likeness, Unmeasured, report
from presage.testing.traces import make_trace
from presage.traces import Machine, Manifest, Trace
from tests.synthesizers.fidelity.conftest import make_log, numbered

LIKENESS = {"marginals", "correlations", "rows", "sequences", "rhythms", "constraints"}


def unmeasured(document: dict[str, Any]) -> set[str]:
    return {name for name, part in document.items() if isinstance(part, dict) and "not_measured" in part}


def test_a_whole_report(log: Trace, later: Trace) -> None:
    told: list[tuple[int, int, str]] = []
    found = report(log, numbered(log), later, progress=lambda *each: told.append(each))
    document = found.as_dict()
    json.dumps(document, allow_nan=False)
    assert not unmeasured(document)
    assert set(document["likeness"]) == set(document["natural"]) == LIKENESS
    assert document["likeness"]["rows"]["auc"] == 0.5
    assert document["likeness"]["marginals"]["people_by_label"] == {"user": 0.0}
    assert document["natural"]["marginals"]["people_by_label"]["user"] > 0.0
    assert document["memorisation"]["synthetic"]["rows"] == 1.0
    assert told[0] == (0, 15, "marginals")
    assert told[-1] == (15, 15, "done")
    assert len(document["seconds"]) == 15


def test_the_same_report_again(log: Trace) -> None:
    def without_seconds() -> dict[str, Any]:
        document = report(log, make_log(300, seed=4), seed=3, load=0.7).as_dict()
        document.pop("seconds")
        return document

    first = without_seconds()
    assert first == without_seconds()
    assert first["natural"] == {"not_measured": "not known: no later jobs of the log were given"}
    assert first["replay"]["load"] == 0.7


def test_a_log_that_tells_little() -> None:
    bare = make_log(300).jobs.select("job_id", "submit_ms", "run_s")
    log, made = (Trace.create(bare, Manifest()) for _ in range(2))
    document = report(log, made).as_dict()
    json.dumps(document, allow_nan=False)
    assert unmeasured(document) == {"natural", "replay"}
    assert "how large its machine" in document["replay"]["not_measured"]
    assert document["likeness"]["rhythms"]["real"]["same_user"] is None
    assert document["memorisation"]["synthetic"]["sequences"] is None


def test_two_hundred_jobs() -> None:
    document = report(make_log(200), numbered(make_log(200, seed=2)), make_log(200, seed=3)).as_dict()
    assert not unmeasured(document)
    assert document["replay"]["window_jobs"] == 66


def test_a_handful_of_jobs_says_what_it_cannot() -> None:
    document = report(make_log(5), make_log(5, seed=1)).as_dict()
    assert unmeasured(document) == {"natural", "usefulness", "replay"}
    assert unmeasured(document["likeness"]) == {"rows", "sequences"}


def test_a_trace_of_gpus(log: Trace) -> None:
    jobs = log.jobs.with_columns(gpus_req=pl.col("cpus_alloc") / 4, cpus_alloc=None)
    trace = Trace.create(jobs, Manifest(machine=Machine(gpus=32)))
    document = report(trace, trace).as_dict()
    assert document["replay"]["resource"] == "GPUs"
    assert "gpus_req" in {each["name"] for each in document["likeness"]["marginals"]["numbers"]}


def test_without_boosting_the_rest_is_measured(log: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    document = report(log, log).as_dict()
    assert unmeasured(document["likeness"]) == {"rows", "sequences"}
    assert "presage[boost]" in document["usefulness"]["not_measured"]
    assert document["likeness"]["marginals"]["mean_ks"] == 0.0


def test_a_trace_without_jobs() -> None:
    with pytest.raises(InputError, match="have a submit time"):
        report(make_trace(), make_trace())


def test_a_load_that_cannot_be(log: Trace) -> None:
    with pytest.raises(UsageError, match="load 0"):
        report(log, log, load=0)


def test_a_likeness_is_made_of_its_sections() -> None:
    nothing = Unmeasured("no reason")
    assert Likeness(*[nothing] * 6).as_dict() == {name: {"not_measured": "no reason"} for name in LIKENESS}
