from __future__ import annotations

from pathlib import Path

import pytest

from presage.testing.traces import make_job, make_trace
from tests.cli.conftest import Presage


@pytest.fixture
def log(tmp_path: Path) -> Path:
    jobs = [
        make_job(i * 1800, 300 * (i % 5), 4000, 1 + i % 4, user="ada", partition="main", limit_s=7200.0)
        for i in range(150)
    ]
    make_trace(*jobs, cpus=16).save(tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_json_has_every_hour_of_every_scope(presage: Presage, log: Path) -> None:
    result = presage("load-forecast", log, "--by", "partition", "--horizon", "6h", "--step", "2h", "--json")
    assert result.exit_code == 0
    document = result.document
    assert [scope["name"] for scope in document["scopes"]] == ["cluster", "main"]
    assert [hour["ahead_h"] for hour in document["scopes"][0]["hours"]] == [2, 4, 6]
    assert set(document["scopes"][0]["hours"][0]["utilisation"]) == {"p10", "p50", "p90"}


def test_text_is_a_table(presage: Presage, log: Path) -> None:
    result = presage("load-forecast", log, "--at", "2d", "--step", "12h")
    assert result.exit_code == 0
    assert "16 processors" in result.out
    assert "wait, large" in result.out


def test_a_fan_chart_is_drawn(presage: Presage, log: Path, tmp_path: Path) -> None:
    assert presage("load-forecast", log, "--plot", "fan.svg").exit_code == 0
    assert (tmp_path / "fan.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["--horizon", "90min"], 2),
        (["--horizon", "2d"], 2),
        (["--step", "never"], 2),
        (["--by", "colour"], 2),
        (["--by", "pool"], 2),
        (["--model", "oracle"], 2),
        (["--at", "1960-01-01"], 2),
        (["--plot", "fan.doc"], 2),
    ],
)
def test_wrong_calls_are_told_in_one_line(
    presage: Presage, log: Path, arguments: list[str], exit_code: int
) -> None:
    result = presage("load-forecast", log, *arguments)
    assert result.exit_code == exit_code
    assert result.err.count("\n") <= 2
