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
    assert "1 row could not be read; see out.rejects.parquet" in result.err
    assert pl.read_parquet("out.rejects.parquet").select("line", "reason").rows() == [
        (14, "3 columns where 18 were expected")
    ]
    told = presage("trace", "stats", "bad.swf").err
    assert "bad.swf, line 14" in told
    assert "`presage trace convert FILE OUT.parquet` keeps such rows in OUT.rejects.parquet" in told
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
    assert presage("config", "show", "--json").document["settings"]["traces"]["time_zone"] is None
    for command in (("trace", "formats"), ("trace", "rules"), ("config", "show")):
        assert presage(*command).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["trace", "stats", "nothing.swf"], 3, "There is no file 'nothing.swf'"),
        (["trace", "stats", "LOG", "--format", "swff"], 2, "Did you mean 'swf'?"),
        (["trace", "stats", "LOG", "--time-zone", "Mars/Olympus"], 2, "'Mars/Olympus' is not a time zone"),
        (["trace", "convert", "LOG"], 2, "Missing argument 'OUT'"),
        (["trace", "clean", "LOG"], 2, "Missing argument 'OUT'"),
        (["trace", "plot", "LOG"], 2, "Missing argument 'OUT'"),
        (["trace", "convert", "LOG", "LOG"], 2, "read and written at once"),
        (["trace", "convert", "LOG", "out.xls"], 2, "names no output format"),
        (["trace", "convert", "LOG", "no/folder/out.parquet"], 2, "There is no folder"),
        (["trace", "convert", "LOG", "-", "--to", "swf", "--json"], 2, "cannot carry both"),
        (["trace", "clean", "LOG", "out.parquet", "--rules", "archiv"], 2, "Did you mean 'archive'?"),
        (["trace", "clean", "LOG", "out.parquet", "--rules", ","], 2, "--rules ',' names nothing"),
        (["trace", "plot", "LOG", "out.png", "--figures", " , "], 2, "--figures ' , ' names nothing"),
        (["trace", "head", "LOG", "--columns", ","], 2, "--columns ',' names nothing"),
        (["trace", "stats", "LOG", "--fields", ","], 2, "--fields ',' names nothing"),
        (["trace", "head", "LOG", "--columns", "usr"], 2, "Did you mean 'user'?"),
        (["trace", "convert", "LOG", "out.parquet.gz"], 2, "compressed inside. Leave out .gz"),
        (["trace", "generate", "lublin", "-", "--to", "swf", "--json"], 2, "cannot carry both"),
        (["trace", "generate", "lublin", "no/folder/out.swf"], 2, "There is no folder"),
        (["trace", "convert", "LOG", "folder.parquet"], 7, "'folder.parquet' is a folder"),
        (["trace", "convert", "LOG", "folder.swf"], 7, "'folder.swf' is a folder"),
        (["trace", "plot", "LOG", "folder.png"], 7, "'folder.png' is a folder"),
        (["trace", "convert", "LOG", "/proc/x.parquet"], 7, "'/proc/x.parquet' cannot be written"),
        (["trace", "clean", "LOG", "/proc/x.csv"], 7, "'/proc/x.csv' cannot be written"),
        (["trace", "generate", "lublin", "/proc/x.swf", "--jobs", "5"], 7, "'/proc/x.swf' cannot be written"),
        (["trace", "stats", "/proc/self/mem"], 3, "mem cannot be read"),
        (["trace", "stats", "empty"], 3, "empty is empty"),
        (["trace", "stats", "cut.gz"], 3, "ends in the middle"),
    ],
)
def test_mistakes_are_answered_in_one_line_with_a_code(
    presage: Presage, log: Path, arguments: list[str], exit_code: int, message: str
) -> None:
    Path("empty").write_bytes(b"")
    for name in ("folder.parquet", "folder.swf", "folder.png"):
        Path(name).mkdir()
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


def test_more_rows_than_there_are_can_be_asked_for(presage: Presage, log: Path) -> None:
    many = "1" + "0" * 20
    assert len(presage("trace", "head", log, "--rows", many, "--json").document) == 5
    assert len(presage("trace", "events", log, "--rows", many, "--json").document["first"]) == 13


@pytest.mark.parametrize(
    "command", ["stats", "stats --json", "head", "convert - --to csv", "convert - --to jsonl"]
)
def test_a_full_disk_behind_standard_output_is_a_clear_error(command: str, log: Path) -> None:
    name, *options = command.split()
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "presage", "trace", name, log, *options],
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 7
    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_process_substitution_is_read(log: Path) -> None:
    command = f"{sys.executable} -m presage trace stats <(cat {log}) --json"
    shell = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert '"jobs": 5' in shell.stdout


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_reader_that_goes_away_early_is_no_error_either(options: str, tmp_path: Path) -> None:
    rows = "".join(f"{n} {n} 1 9 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 5001))
    (tmp_path / "long.swf").write_text(rows)
    command = (
        f"{sys.executable} -m presage trace head {tmp_path / 'long.swf'} -n 5000 {options} 2>&1 >&3 | cat >&2"
    )
    shell = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{{ {command}; }} 3>&1 | head -n 1"], capture_output=True, text=True
    )
    assert shell.returncode == 0
    assert "Traceback" not in shell.stderr


def test_no_output_is_wanted_where_standard_output_is_closed(log: Path) -> None:
    shell = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m presage trace head {log} >&-"], capture_output=True, text=True
    )
    assert (shell.returncode, shell.stderr) == (0, "")


def test_the_size_of_the_machine_can_be_told(presage: Presage) -> None:
    Path("log.csv").write_text(
        "job_id,submit_ms,start_ms,end_ms,run_s,cpus_alloc\n1,0,0,10000,10,4\n2,20000,20000,30000,10,8\n"
    )
    summary = presage("trace", "stats", "log.csv", "--processors", "8", "--json").document
    assert summary["processors"] == 8
    assert summary["load"] == pytest.approx(120 / (8 * 20))
    findings = presage("trace", "validate", "log.csv", "--processors", "4", "--json").document["findings"]
    assert "oversized" in {finding["check"] for finding in findings}
    cleaned = presage("trace", "clean", "log.csv", "out.parquet", "--processors", "4", "--json").document
    assert cleaned["jobs"] == 1
    assert presage("trace", "plot", "log.csv", "a.svg", "--processors", "8", "--figures", "sizes").exit_code == 0
    assert presage("trace", "stats", "log.csv", "--processors", "0").exit_code == 2


def test_times_without_a_date_are_seconds_from_the_zero_of_the_log(presage: Presage) -> None:
    Path("log.swf").write_text("1 1800000 5 100 4 -1 -1 4 600 -1 1 1 1 -1 1 -1 -1 -1\n")
    head = presage("trace", "head", "log.swf").out
    assert "submit_s" in head
    assert "1800000" in head
    assert "1970" not in head
    events = presage("trace", "events", "log.swf").out
    assert "time_s" in events
    assert "1800105" in events


def test_times_beyond_all_dates_are_shown(presage: Presage) -> None:
    Path("far.csv").write_text("job_id,submit_ms\n1,9000000000000000000\n")
    assert "9000000000000000000 ms" in presage("trace", "head", "far.csv").out


def test_the_title_of_a_narrow_table_stands_on_one_line(presage: Presage) -> None:
    name = "a-rather-long-name-of-a-log-[of-a-cluster].csv"
    Path(name).write_text("job_id,submit_ms\n1,0\n")
    assert presage("trace", "head", name).out.splitlines()[0] == name


def test_stats_have_no_empty_header_and_notes_are_told_once(presage: Presage) -> None:
    Path("log.swf").write_text("1 0 5 100 4 -1 -1 4 600 -1 1 1 1 -1 1 -1 -1 -1\n")
    result = presage("trace", "stats", "log.swf")
    assert "─" not in result.out
    assert (result.out + result.err).count("the log does not say when it began") == 1


def test_one_of_something_is_singular(presage: Presage) -> None:
    Path("log.swf").write_text("1 0 5 100 4 -1 -1 4 600 -1 1 1 1 -1 1 -1 -1 -1\n")
    assert "out.parquet: 1 job, 0 rows rejected" in presage("trace", "convert", "log.swf", "out.parquet").out
    assert "a.parquet: 1 job of lublin" in presage("trace", "generate", "lublin", "a.parquet", "--jobs", "1").out


def test_plot_lists_the_figures_that_it_drew(presage: Presage, log: Path) -> None:
    drawn = presage("trace", "plot", log, "a.svg", "--json").document["figures"]
    assert "waits" in drawn
    assert "gpus" not in drawn  # the log has none
    some = presage("trace", "plot", log, "a.svg", "--figures", "waits,users,waits", "--json").document["figures"]
    assert some == ["waits", "users"]


def test_the_model_is_one_optional_argument(presage: Presage) -> None:
    usage = presage("trace", "models", "--help").out
    assert "[MODEL]" in usage
    assert "[[MODEL]]" not in usage


@pytest.mark.parametrize("command", ["stats", "validate", "convert", "clean", "head", "plot", "events"])
def test_every_command_that_reads_has_the_options_of_reading(presage: Presage, command: str) -> None:
    shown = presage("trace", command, "--help").out
    assert all(option in shown for option in ("--format", "--time-zone", "--fields", "--strict", "--json"))


def test_a_wrong_setting_is_answered_with_the_place_that_holds_it(
    presage: Presage, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESAGE_TRACES__TIME_ZONE", "Mars")
    for command in (("config", "show"), ("trace", "stats", log)):
        result = presage(*command)
        assert result.exit_code == 5
        assert "environment variable PRESAGE_TRACES__TIME_ZONE" in result.err
        assert "presage config show" not in result.err


@pytest.mark.parametrize(
    "command", ["stats", "validate", "convert", "clean", "head", "events", "formats", "rules"]
)
def test_help_teaches(presage: Presage, command: str) -> None:
    result = presage("trace", command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.out
