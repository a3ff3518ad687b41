from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from presage.errors import UnknownNameError
from presage.testing import make_job, make_trace
from presage.traces import CleaningStep, Manifest, Trace, read_trace
from presage.traces.cleaning import RULE_SETS, RULES, clean
from presage.traces.schema import TABLES


@pytest.fixture
def messy() -> Trace:
    return make_trace(
        make_job(0, 1, 10, 4, cpus_req=8.0, limit_s=5.0, user="ann", name="x"),
        make_job(1, 0, 0, 1, user="bob", limit_s=10.0),
        make_job(2, 0, 7, 0, user="ann"),
        make_job(3, 0, 7, 99, user="cat"),
        make_job(4, 0, 7, 2, user="ann", limit_s=0.0),
        {"submit_ms": 5_000, "cpus_req": 2.0, "outcome": "pending"},
        {"run_s": 3.0, "cpus_req": 1.0},
        cpus=16,
    )


def test_archive_does_what_published_comparisons_do(messy: Trace) -> None:
    cleaned = clean(messy, ["archive"])
    assert cleaned.jobs.select("job_id", "cpus_alloc", "run_s", "limit_s").rows() == [
        ("1", 8.0, 10.0, 10.0),
        ("5", 2.0, 7.0, 7.0),
        ("7", 1.0, 3.0, 3.0),
    ]
    assert cleaned.manifest.cleaning == (
        CleaningStep("drop-unrun", dropped=2, changed=0),
        CleaningStep("drop-sizeless", dropped=1, changed=0),
        CleaningStep("drop-oversized", dropped=1, changed=0),
        CleaningStep("size-from-larger", dropped=0, changed=2),
        CleaningStep("limit-from-run", dropped=0, changed=2),
        CleaningStep("limit-covers-run", dropped=0, changed=1),
        CleaningStep("sort-by-submit", dropped=0, changed=0),
    )
    assert cleaned.manifest.counts["jobs"] == 3


def test_learning_cuts_overruns_instead_of_raising_requests(messy: Trace) -> None:
    first = clean(messy, ["learning"]).jobs.row(0, named=True)
    assert (first["run_s"], first["limit_s"], first["end_ms"]) == (5.0, 5.0, 6_000)


def test_learning_lets_no_run_time_into_a_request(messy: Trace) -> None:
    before = dict(messy.jobs.select("job_id", "limit_s").iter_rows())
    cleaned = clean(messy, ["learning"]).jobs
    assert dict(cleaned.select("job_id", "limit_s").iter_rows()) == {job: before[job] for job in cleaned["job_id"]}
    # A request of zero is none: it cuts nothing.
    assert cleaned.filter(job_id="5")["run_s"].to_list() == [7.0]


def test_nothing_is_too_large_for_a_machine_of_unknown_size(messy: Trace) -> None:
    unknown = make_trace(make_job(0, 0, 1, 10**6))
    assert len(clean(unknown, ["drop-oversized"])) == 1
    assert len(clean(messy, ["drop-oversized"])) == 6


def test_anonymise_keeps_who_is_the_same_and_nothing_else(messy: Trace) -> None:
    users = clean(messy, ["anonymise"]).jobs["user"].to_list()
    assert users == ["u1", "u2", "u1", "u3", "u1", None, None]


def secretive() -> Trace:
    """A trace with a name in every place that can hold one."""
    jobs = make_trace(
        make_job(0, 0, 5, job_id="team/alice-run", array_id="team/bob-run", het_id="alice-het", user="alice"),
        make_job(1, 0, 5, job_id="team/bob-run", user="bob", group="alice", account="alice", name="alice-1"),
        make_job(2, 0, 5, job_id="third", user="alice", executable="/home/alice/a.out", x_workdir="/home/alice"),
    ).jobs.with_columns(
        node_list=pl.Series([["alice-ws", "n-2"], None, ["n-2"]]),
        status=pl.Series(["CANCELLED by 1001", "COMPLETED", "cancelled by alice"]),
    )
    return Trace.create(
        jobs,
        Manifest(header=("; Acknowledge: the owner",), acknowledgement="the owner"),
        attempts=pl.DataFrame(
            {"job_id": ["third"], "node_list": [["n-2"]], "status": ["CANCELLED by alice"], "x_a": ["alice"]}
        ),
        edges=pl.DataFrame(
            {"job_id": ["team/bob-run", "third"], "depends_on": ["team/alice-run", "alice-before"]}
        ),
        nodes=pl.DataFrame(
            {
                "node_id": ["n-2", "alice-ws"],
                "rack": ["alice-rack", None],
                "features": [["arch=arm"], ["arch=arm", "hostname=alice-ws"]],
            }
        ),
        snapshots=pl.DataFrame({"time_ms": [1], "node_id": ["alice-ws"]}),
        rejects=pl.DataFrame(
            {"file": ["log"], "line": [7], "reason": ["user: 'alice's' is missing"], "text": ["alice, 3"]}
        ),
    )


def test_anonymise_hides_names_in_every_table_and_keeps_what_belongs_together() -> None:
    cleaned = clean(secretive(), ["anonymise"])
    for name in TABLES:
        assert "alice" not in cleaned.table(name).write_json()
        assert "1001" not in cleaned.table(name).write_json()
        assert not any(column.startswith("x_") for column in cleaned.table(name).columns)
    assert cleaned.jobs.select("job_id", "array_id", "het_id", "node_list", "status").rows() == [
        ("1", "2", "4", ["n2", "n1"], "CANCELLED"),
        ("2", None, None, None, "COMPLETED"),
        ("3", None, None, ["n1"], "cancelled"),
    ]
    assert cleaned.attempts.select("job_id", "node_list").rows() == [("3", ["n1"])]
    assert cleaned.edges.select("job_id", "depends_on").rows() == [("2", "1"), ("3", "5")]
    assert cleaned.nodes.select("node_id", "rack", "features").rows() == [
        ("n1", "r1", ["arch=arm"]),
        ("n2", None, ["arch=arm"]),
    ]
    assert cleaned.snapshots["node_id"].to_list() == ["n2"]
    assert cleaned.rejects.rows() == [("log", 7, "user: '…' is missing", "")]
    assert cleaned.manifest.acknowledgement == "the owner"
    assert cleaned.manifest.header == ("; Acknowledge: the owner",)
    assert cleaned.manifest.cleaning[-1] == CleaningStep("anonymise", dropped=0, changed=3)


def test_anonymising_again_changes_nothing(tmp_path: Path) -> None:
    once = clean(secretive(), ["anonymise"])
    twice = clean(once, ["anonymise"])
    for name in TABLES:
        assert_frame_equal(once.table(name), twice.table(name))
    assert twice.manifest.cleaning[-1].changed == 0
    once.save(tmp_path / "t.parquet")
    assert_frame_equal(read_trace(tmp_path / "t.parquet").rejects, once.rejects)


def test_anonymise_does_not_number_what_other_rules_dropped() -> None:
    trace = make_trace(make_job(0, 0, 0, user="ann", job_id="a"), make_job(1, 0, 5, user="bob", job_id="b"))
    edges = pl.DataFrame({"job_id": ["a", "b"], "depends_on": ["b", "a"]})
    cleaned = clean(Trace.create(trace.jobs, trace.manifest, edges=edges), ["drop-unrun", "anonymise"])
    assert cleaned.jobs.select("job_id", "user").rows() == [("1", "u1")]
    assert cleaned.edges.select("job_id", "depends_on").rows() == [("1", "2")]


def test_rows_of_side_tables_go_with_their_jobs() -> None:
    trace = make_trace(make_job(0, 0, 0), make_job(0, 0, 5))
    edges = pl.DataFrame({"job_id": ["1", "2"], "depends_on": ["2", "1"]})
    attempts = pl.DataFrame({"job_id": ["1", "2"]})
    with_sides = Trace.create(trace.jobs, trace.manifest, edges=edges, attempts=attempts)
    cleaned = clean(with_sides, ["drop-unrun"])
    assert cleaned.edges["job_id"].to_list() == ["2"]
    assert cleaned.attempts["job_id"].to_list() == ["2"]


@pytest.mark.parametrize("rule", [*RULES, *RULE_SETS])
def test_every_rule_is_idempotent_and_never_invents_jobs(rule: str, messy: Trace) -> None:
    once = clean(messy, [rule])
    twice = clean(once, [rule])
    assert_frame_equal(once.jobs, twice.jobs)
    assert set(once.jobs["job_id"]) <= set(messy.jobs["job_id"])
    assert all(
        step.dropped == step.changed == 0 for step in twice.manifest.cleaning[len(once.manifest.cleaning) :]
    )


def test_a_misspelt_rule_is_answered_with_the_closest(messy: Trace) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'archive'"):
        clean(messy, ["archiv"])


@pytest.mark.shared_data
def test_archive_counts_of_real_logs(shared_data: object) -> None:
    # Jobs with run > 0 and a size, counted on the files themselves with awk.
    expected = {"KTH-SP2-1996-2.1-cln": 28_467, "HPC2N-2002-2.2-cln": 202_871, "SDSC-BLUE-2000-4.2-cln": 232_536}
    for name, jobs in expected.items():
        assert len(clean(read_trace(f"{shared_data}/{name}.swf.gz"), ["archive"])) == jobs
