from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Presage

KEYS = {
    "jobs", "mean_bounded_slowdown", "mean_wait_s", "mean_response_s", "utilization", "makespan_s", "jobs_per_s",
}  # fmt: skip


@pytest.fixture
def log(fixtures: Path) -> Path:
    return fixtures / "swf.swf"


def test_simulate_gives_the_promised_keys(presage: Presage, log: Path) -> None:
    call = (
        "simulate",
        log,
        "--policy",
        "sjf",
        "--backfill",
        "easy",
        "--clean",
        "archive",
        "--limit",
        "2",
        "--json",
    )
    result = presage(*call)
    assert result.exit_code == 0
    assert result.document.keys() >= KEYS
    assert (result.document["jobs"], result.document["policy"]) == (2, "sjf+easy")


def test_the_size_of_the_machine_can_be_changed(presage: Presage, log: Path) -> None:
    small = presage("simulate", log, "--clean", "archive", "--processors", "4", "--json").document
    # The job of 64 processors no longer fits and is dropped by the rules.
    assert (small["jobs"], small["processors"]) == (2, 4)


def test_the_schedule_can_be_kept(presage: Presage, log: Path) -> None:
    assert presage("simulate", log, "--clean", "archive", "--out", "schedule.parquet").exit_code == 0
    stats = presage("trace", "stats", "schedule.parquet", "--json").document
    assert stats["mean_wait_s"] == 0


def test_the_schedule_can_be_drawn(presage: Presage, log: Path) -> None:
    assert presage("simulate", log, "--clean", "archive", "--gantt", "gantt.png").exit_code == 0
    assert Path("gantt.png").read_bytes().startswith(b"\x89PNG")


def test_jobs_can_be_placed_on_nodes(presage: Presage) -> None:
    made = ("--jobs", "100", "--seed", "1", "--set", "nodes=10", "--load", "0.9")
    assert presage("trace", "generate", "gpu-cluster", "gpus.parquet", *made).exit_code == 0
    named = presage("simulate", "gpus.parquet", "--policy", "fcfs+skip@best-fit", "--json").document
    options = ("--policy", "fcfs", "--backfill", "skip", "--placement", "best-fit")
    assert (named["policy"], named["nodes"], named["jobs"]) == ("fcfs+skip@best-fit", 10, 100)
    again = presage("simulate", "gpus.parquet", *options, "--json").document
    assert {**again, "jobs_per_s": 0} == {**named, "jobs_per_s": 0}
    assert "fcfs+none" not in presage("simulate", "gpus.parquet", "--placement", "first-fit").out


def test_policies_are_listed_with_their_formulas(presage: Presage) -> None:
    document = presage("policies", "list", "--json").document
    formulas = {order["name"]: order["formula"] for order in document["orders"]}
    assert formulas["saf"] == "r·p"
    assert {entry["name"] for entry in document["backfillings"]} == {"none", "easy", "easy-sjbf", "conservative"}
    assert "wfp3" in presage("policies", "list").out


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--policy", "sjff"], 2, "Did you mean 'sjf'?"),
        (["--backfill", "eazy"], 2, "Did you mean 'easy'?"),
        (["--placement", "bestfit"], 2, "Did you mean 'best-fit'?"),
        (["--clean", "archive", "--placement", "best-fit"], 3, "nodes"),
        (["--clean", "archiv"], 2, "Did you mean 'archive'?"),
        ([], 3, "--clean archive"),
        (["--clean", "archive", "--order-by", "user"], 2, "'user'"),
        (["--clean", "archive", "--out", "x.xls"], 2, "names no output format"),
    ],
)
def test_mistakes_are_answered(
    presage: Presage, log: Path, arguments: list[str], exit_code: int, message: str
) -> None:
    result = presage("simulate", log, *arguments)
    assert result.exit_code == exit_code
    assert message in result.err
