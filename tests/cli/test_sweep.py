from __future__ import annotations

import sys

from tests.cli.conftest import Presage

SLEEP = f"{sys.executable} -c 'import sys, time; time.sleep(float(sys.argv[1]) / 1000)' {{n}}"


def test_a_script_is_run_at_small_scales_and_told_at_a_large_one(presage: Presage) -> None:
    result = presage("sweep", SLEEP, "--at", "n=200..400..800..1600", "--to", "n=20000", "--json")
    assert result.exit_code == 0, result.err
    document = result.document
    assert [run["parameters"]["n"] for run in document["runs"]] == [200, 400, 800, 1600]
    told = document["walltime"]
    assert told["p10"] <= told["p50"] <= told["p90"]
    assert 10 < told["p50"] < 40  # 20 s and some start-up


def test_failed_runs_are_named_and_too_few_are_an_error(presage: Presage) -> None:
    failing = f"{sys.executable} -c 'import sys; sys.exit(int(sys.argv[1]) > 150)' {{n}}"
    result = presage("sweep", failing, "--at", "n=100..200..300", "--to", "n=1000")
    assert result.exit_code == 3
    assert "1 measured runs" in result.err


def test_names_must_agree(presage: Presage) -> None:
    for arguments in (
        ("--at", "n=1..2..3", "--to", "m=5"),
        ("--at", "n=1..2..x", "--to", "n=5"),
        ("--to", "n=5"),
        ("--at", "m=1..2..3", "--to", "m=5"),
    ):
        result = presage("sweep", "true {n}", *arguments)
        assert result.exit_code == 2, arguments
        assert "Traceback" not in result.err
