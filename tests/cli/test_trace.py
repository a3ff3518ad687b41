from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from .conftest import Presage

KEYS = {"jobs", "rejected", "span_s", "users", "processors", "load", "mean_wait_s", "mean_run_s"}


@pytest.fixture
def log(fixtures: Path) -> Path:
    return fixtures / "swf.swf"


def test_stats_gives_the_promised_keys(presage: Presage, log: Path) -> None:
    result = presage("trace", "stats", log, "--json")
    assert result.exit_code == 0
    assert result.document.keys() >= KEYS
    assert result.document["jobs"] == 5
    assert result.document["processors"] == 64
    assert result.document["users"] == 3
    assert result.document["mean_wait_s"] == pytest.approx((10 + 0 + 500 + 20) / 4)


def test_stats_reads_for_people_too(presage: Presage, log: Path) -> None:
    result = presage("trace", "stats", log)
    assert result.exit_code == 0
    assert "swf.swf" in result.out


def test_convert_then_stats_agree(presage: Presage, log: Path) -> None:
    converted = presage("trace", "convert", log, "out.parquet", "--json")
    assert converted.exit_code == 0
    assert (converted.document["output"], converted.document["jobs"]) == ("out.parquet", 5)
    assert converted.document["manifest"]["machine"]["cpus"] == 64
    assert (
        presage("trace", "stats", "out.parquet", "--json").document
        == presage("trace", "stats", log, "--json").document
    )
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["out.edges.parquet", "out.parquet"]


def test_rejected_rows_are_kept_printed_and_fatal_when_strict(presage: Presage, log: Path) -> None:
    Path("bad.swf").write_text(log.read_text() + "one two three\n")
    result = presage("trace", "convert", "bad.swf", "out.parquet", "--json")
    assert (result.exit_code, result.document["rejected"]) == (0, 1)
    assert "1 rows could not be read" in result.err
    assert pl.read_parquet("out.rejects.parquet").select("line", "reason").rows() == [
        (14, "3 columns where 18 were expected")
    ]
    assert "line 14" in presage("trace", "stats", "bad.swf").err
    strict = presage("trace", "convert", "bad.swf", "strict.parquet", "--strict", "--json")
    assert strict.exit_code == 3
    assert strict.document["error"]["code"] == "rejected_rows"
    assert not Path("strict.parquet").exists()


def test_several_formats_are_written_by_the_ending(presage: Presage, log: Path) -> None:
    for name in ("a.swf", "a.swf.gz", "a.jsonl", "a.csv.zst"):
        assert presage("trace", "convert", log, name).exit_code == 0
        assert presage("trace", "stats", name, "--json").document["jobs"] == 5


def test_clean_reports_every_rule(presage: Presage, log: Path) -> None:
    result = presage("trace", "clean", log, "clean.parquet", "--json")
    assert result.document["jobs"] == 3
    assert {"rule": "drop-unrun", "dropped": 2, "changed": 0} in result.document["steps"]
    assert presage("trace", "stats", "clean.parquet", "--json").document["jobs"] == 3


def test_validate_exits_with_six_when_it_finds_errors(presage: Presage, log: Path) -> None:
    assert presage("trace", "validate", log, "--json").document["valid"] is True
    assert presage("trace", "validate", log, "--strict").exit_code == 6
    Path("bad.csv").write_text("job_id,submit_ms,start_ms\n1,5000,1000\n")
    result = presage("trace", "validate", "bad.csv", "--json")
    assert result.exit_code == 6
    assert result.document["findings"][0]["check"] == "start-before-submit"


def test_head_and_events_show_the_first_rows(presage: Presage, log: Path) -> None:
    rows = presage("trace", "head", log, "-n", "2", "--json").document
    assert [row["job_id"] for row in rows] == ["1", "2"]
    assert "2020-09-13 12:26:40" in presage("trace", "head", log).out
    events = presage("trace", "events", log, "--json").document
    assert events["counts"]["submit"] == 5
    assert events["first"][0]["event"] == "submit"


def test_lists_of_formats_rules_and_settings(presage: Presage) -> None:
    formats = presage("trace", "formats", "--json").document
    assert {"swf", "parquet"} <= {entry["name"] for entry in formats["read"]}
    assert {entry["name"] for entry in formats["write"]} == {"parquet", "swf", "jsonl", "csv"}
    assert "archive" in presage("trace", "rules", "--json").document["sets"]
    assert presage("config", "show", "--json").document["settings"]["traces"]["time_zone"] == "UTC"
    for command in (("trace", "formats"), ("trace", "rules"), ("config", "show")):
        assert presage(*command).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["trace", "stats", "nothing.swf"], 3, "There is no file 'nothing.swf'"),
        (["trace", "stats", "LOG", "--format", "swff"], 2, "Did you mean 'swf'?"),
        (["trace", "stats", "LOG", "--time-zone", "Mars/Olympus"], 5, "Mars/Olympus"),
        (["trace", "convert", "LOG"], 2, "Missing argument"),
        (["trace", "convert", "LOG", "LOG"], 2, "read and written at once"),
        (["trace", "convert", "LOG", "out.xls"], 2, "names no output format"),
        (["trace", "convert", "LOG", "no/folder/out.parquet"], 2, "There is no folder"),
        (["trace", "convert", "LOG", "-", "--to", "swf", "--json"], 2, "cannot carry both"),
        (["trace", "clean", "LOG", "out.parquet", "--rules", "archiv"], 2, "Did you mean 'archive'?"),
        (["trace", "head", "LOG", "--columns", "usr"], 2, "Did you mean 'user'?"),
        (["trace", "stats", "empty"], 3, "empty is empty"),
        (["trace", "stats", "cut.gz"], 3, "ends in the middle"),
    ],
)
def test_mistakes_are_answered_in_one_line_with_a_code(
    presage: Presage, log: Path, arguments: list[str], exit_code: int, message: str
) -> None:
    Path("empty").write_bytes(b"")
    Path("cut.gz").write_bytes(gzip.compress(log.read_bytes())[:-20])
    named = [str(log) if argument == "LOG" else argument for argument in arguments]
    result = presage(*named)
    assert result.exit_code == exit_code
    assert message in result.err
    assert "Traceback" not in result.err
    with_json = presage(*named, *([] if "--json" in named else ["--json"]))
    assert with_json.exit_code == exit_code
    assert with_json.document["error"]["problem"]


def test_a_wrong_option_still_gives_one_document(presage: Presage, log: Path) -> None:
    result = presage("trace", "stats", log, "--jsn", "--json")
    assert result.exit_code == 2
    assert result.document["error"]["code"] == "usage"
    assert "--json" in result.err


def test_it_works_as_a_filter(log: Path) -> None:
    command = [sys.executable, "-c", "from presage.cli.main import run; run()", "trace"]
    piped = subprocess.run(
        [*command, "convert", "-", "-", "--to", "csv"], input=log.read_bytes(), capture_output=True, check=True
    )
    assert piped.stdout.startswith(b"job_id,")
    assert len(piped.stdout.splitlines()) == 6


def test_a_reader_that_goes_away_is_no_error(log: Path) -> None:
    command = (
        f"{sys.executable} -c 'from presage.cli.main import run; run()' trace convert {log} - --to csv | head -n 1"
    )
    shell = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert shell.returncode == 0
    assert shell.stderr == ""


def test_interrupting_leaves_nothing_behind(presage: Presage, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("presage.traces.readers.read_sources", interrupt)
    result = presage("trace", "convert", log, "out.parquet")
    assert result.exit_code == 130
    assert "Interrupted" in result.err
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    "command", ["stats", "validate", "convert", "clean", "head", "events", "formats", "rules"]
)
def test_help_teaches(presage: Presage, command: str) -> None:
    result = presage("trace", command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.out
