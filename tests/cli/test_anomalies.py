from __future__ import annotations

from pathlib import Path

import pytest

from presage.testing.traces import make_job, make_trace

from .conftest import Presage

KINDS = {
    "node-failures", "failure-cascade", "user-failures", "unusable-partition", "idle-processors",
    "priority-inversion", "stalled-run", "stalled-queue", "run-time", "wasteful-request",
}  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two weeks of four users, of whom ada fails 20 times in a row."""
    path = tmp_path_factory.mktemp("anomalies") / "log.parquet"
    jobs = [
        make_job(
            1800 * number, 60, 3000 + 7 * (number % 50), cpus=4, user=("ada", "bob", "eve", "joe")[number % 4],
            outcome="failed" if number % 4 == 0 and 400 <= number < 480 else "completed",
        )
        for number in range(700)
    ]  # fmt: skip
    make_trace(*jobs, name="log").save(path)
    return path


def test_the_document_has_findings_and_what_was_not_looked_for(presage: Presage, log: Path) -> None:
    result = presage("anomalies", log, "--json")
    assert result.exit_code == 0, result.err
    document = result.document
    (finding,) = document["findings"]
    assert finding.keys() >= {"kind", "subject", "name", "start_ms", "end_ms", "score", "reason", "evidence"}
    assert (finding["kind"], finding["subject"], finding["name"]) == ("user-failures", "user", "ada")
    assert "20 of 20 runs failed" in finding["reason"]
    assert len(finding["evidence"]) == 20
    assert document["counts"] == {"user-failures": 1}
    skipped = {each["kind"]: each["reason"] for each in document["skipped"]}
    assert skipped["node-failures"] == "the trace has no lists of nodes (node_list)"
    assert {*document["ran"], *skipped} == KINDS


def test_the_text_is_a_table(presage: Presage, log: Path) -> None:
    result = presage("anomalies", log)
    assert "log: 1 finding in 700 jobs" in result.out
    assert "user ada: 20 of 20 runs failed between 1970-01-09" in result.out
    assert "Not looked for: node-failures, because the trace has no lists of nodes" in result.err


def test_findings_are_chosen(presage: Presage, log: Path) -> None:
    assert presage("anomalies", log, "--since", "14d", "--json").document["findings"] == []
    assert presage("anomalies", log, "--kind", "run-time", "--json").document["ran"] == ["run-time"]
    assert presage("anomalies", log, "--min-score", "90", "--json").document["findings"] == []
    assert "0 findings in 700 jobs" in presage("anomalies", log, "--since", "14d").out


def test_a_wrong_call_is_told(presage: Presage, log: Path) -> None:
    result = presage("anomalies", log, "--kind", "user-failure", "--json")
    assert result.exit_code == 2
    assert result.document["error"]["remedy"] == "Did you mean 'user-failures'?"
    assert presage("anomalies", log, "--min-score", "nan").exit_code == 2
    assert presage("anomalies", log, "--since", "soon").exit_code == 2
    assert presage("anomalies", log, "--kind", ",").exit_code == 2


def test_help_names_all_kinds(presage: Presage) -> None:
    told = presage("anomalies", "--help").out
    assert all(kind in told for kind in KINDS)


@pytest.mark.shared_data
def test_a_real_log(presage: Presage, shared_data: Path) -> None:
    document = presage("anomalies", shared_data / "xdmod-pozidriv.sacct.txt.gz", "--json").document
    assert document["jobs"] == 11_704
    # 998 of the log's 1,007 failures are one user's, all within a minute on every rack: not the nodes' fault.
    worst = document["findings"][0]
    assert (worst["kind"], worst["numbers"]["failed"]) == ("user-failures", 998)
    assert "node-failures" not in document["counts"]
