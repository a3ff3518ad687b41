from __future__ import annotations

import sys
from pathlib import Path

import pytest

from presage.traces.workloads import make_model
from presage.traces.writers import choose_writer

from .conftest import Presage


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A busy machine of 64 processors and 300 jobs of 5 users."""
    path = tmp_path_factory.mktemp("whatif") / "log.swf"
    model = make_model("lublin", {"processors": 64, "load": 0.9, "users": 5, "estimate": "modal"})
    choose_writer(str(path)).write(model.generate(300, seed=1), path)
    return path


def test_the_document_has_the_promised_keys(presage: Presage, log: Path) -> None:
    changes = ("--set", "nodes=+10%", "--set", "policy=sjf+easy", "--load", "1.2")
    result = presage("whatif", log, *changes, "--clean", "archive", "--json")
    assert result.exit_code == 0, result.err
    assert result.document["baseline"]["processors"] == 64
    assert result.document["baseline"].keys() >= {"mean_wait_s", "mean_bounded_slowdown", "utilization", "policy"}
    (variant,) = result.document["variants"]
    assert variant["name"] == "nodes=+10%, policy=sjf+easy, load=1.2"
    assert variant["changes"] == {"nodes": "+10%", "policy": "sjf+easy", "load": "1.2"}
    assert (variant["metrics"]["processors"], variant["metrics"]["policy"]) == (70, "sjf+easy")
    assert variant["differences"]["mean_wait_s"].keys() >= {"difference", "ratio", "low", "high"}
    assert variant["differences"].keys() >= {"starved_share", "user_slowdown_gini", "worst_user_slowdown"}


def test_the_baseline_is_what_simulate_gives(presage: Presage, log: Path) -> None:
    common = ("--policy", "saf+easy", "--clean", "archive", "--limit", "100", "--processors", "80", "--json")
    simulated = presage("simulate", log, *common).document
    baseline = presage("whatif", log, *common, "--set", "limits=exact").document["baseline"]
    assert baseline["jobs"] == 100
    assert baseline == {key: simulated[key] for key in baseline}


def test_variants_stand_side_by_side(presage: Presage, log: Path) -> None:
    variants = (
        "--variant",
        "short: policy=sjf+easy",
        "--variant",
        "as it is:",
        "--variant",
        "load=0.5, nodes=+1%",
    )
    result = presage("whatif", log, *variants, "--set", "load=0.01", "--clean", "archive")
    assert result.exit_code == 0, result.err
    header = next(line for line in result.out.splitlines() if "baseline" in line)
    assert [header.index(name) for name in ("baseline", "load=0.01", "short", "as it is", "load=0.5, nodes=+1%")]
    wait = next(line for line in result.out.splitlines() if line.strip().startswith("mean wait"))
    # With a hundredth of the load nobody waits, whatever the draw; what does not change is marked.
    assert "(-100.0 % [-100.0, -100.0])  " in wait
    assert " = " in wait
    assert "95 % interval" in result.out


def test_variants_with_other_jobs_show_their_own_baseline(presage: Presage, log: Path) -> None:
    variants = ("--variant", "all: load=1.1", "--variant", "small: processors=8, oversized=drop")
    result = presage("whatif", log, *variants, "--clean", "archive")
    assert result.exit_code == 0, result.err
    assert "→" in result.out


def test_a_difference_that_may_be_chance_is_marked(presage: Presage, log: Path) -> None:
    result = presage("whatif", log, "--set", "limits=exact", "--clean", "archive", "--json")
    differences = result.document["variants"][0]["differences"]
    unclear = [
        name for name, each in differences.items() if each["low"] is not None and each["low"] < 0 < each["high"]
    ]
    assert unclear
    text = presage("whatif", log, "--set", "limits=exact", "--clean", "archive").out
    line = next(
        line
        for line in text.splitlines()
        if line.strip().startswith(unclear[0].replace("_", " ").removesuffix(" s"))
    )
    assert line.rstrip().endswith("~")


def test_schedules_are_kept_and_processes_give_the_same(presage: Presage, log: Path, tmp_path: Path) -> None:
    call = ("whatif", log, "--variant", "more / nodes: nodes=+10%", "--clean", "archive", "--json")
    alone = presage(*call)
    result = presage(*call, "--workers", "2", "--out", "kept/here")
    assert result.document == alone.document
    assert sorted(path.name for path in (tmp_path / "kept/here").iterdir()) == [
        "baseline.parquet",
        "more-nodes.parquet",
    ]
    stats = presage("trace", "stats", "kept/here/more-nodes.parquet", "--json").document
    assert stats["mean_wait_s"] == pytest.approx(alone.document["variants"][0]["metrics"]["mean_wait_s"])


def test_failures_are_compared_on_nodes(presage: Presage, log: Path) -> None:
    changes = ("--set", "failures=200h@8", "--variant", "saved: failures=200h@8, checkpoints=30min/10s")
    call = ("whatif", log, *changes, "--clean", "archive")
    document = presage(*call, "--json").document
    lost, saved = (variant["differences"]["lost_cpu_s"]["variant"] for variant in document["variants"])
    assert lost > saved > 0
    assert document["baseline"]["nodes"] == 8
    text = presage(*call).out
    assert "on 64 processors of 8 nodes" in text
    assert "interruptions" in text


def test_ends_can_be_left_out(presage: Presage, log: Path) -> None:
    call = (
        "whatif",
        log,
        "--set",
        "load=1.1",
        "--clean",
        "archive",
        "--warm-up",
        "10%",
        "--cool-down",
        "20",
        "--json",
    )
    assert presage(*call).document["variants"][0]["compared_jobs"] == 300 - 30 - 20


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster of 64 processors as sacct shows it, at 9:15."""
    path = tmp_path_factory.mktemp("live") / "jobs.txt"
    path.write_text(
        "JobID|User|Submit|Start|End|Elapsed|State|ReqCPUS|AllocCPUS|Timelimit\n"
        "1|ada|2024-03-04T08:00:00|2024-03-04T08:00:00|2024-03-04T08:30:00|00:30:00|COMPLETED|4|4|01:00:00\n"
        "2|ada|2024-03-04T08:00:00|2024-03-04T08:00:00|2024-03-04T08:45:00|00:45:00|COMPLETED|4|4|01:00:00\n"
        "3|ada|2024-03-04T08:30:00|2024-03-04T08:30:00|Unknown|00:45:00|RUNNING|48|48|02:00:00\n"
        "4|bob|2024-03-04T08:40:00|Unknown|Unknown|00:00:00|PENDING|64|0|01:00:00\n"
        "5|eve|2024-03-04T08:50:00|Unknown|Unknown|00:00:00|PENDING|16|0|00:15:00\n"
    )
    return path


def test_the_present_tells_when_jobs_start(presage: Presage, live: Path) -> None:
    call = ("whatif", live, "--processors", "64", "--set", "nodes=x2", "--job", "4")
    result = presage(*call, "--json")
    assert result.exit_code == 0, result.err
    document = result.document
    assert (document["running"], document["waiting"], document["history"]) == (1, 2, 2)
    # Half or three quarters of two hours, of which 45 minutes are over.
    (job,) = document["baseline"]["jobs"]
    assert (job["job_id"], job["start_p10_s"], job["start_p90_s"]) == ("4", 900, 2700)
    (variant,) = document["variants"]
    assert variant["jobs"][0]["start_p90_s"] == 0
    assert variant["mean_remaining_wait_change_s"]["p90"] < 0
    text = presage(*call[:-2], "--present").out
    assert "from 2024-03-04 09:15 UTC on: 1 jobs run and 2 wait" in text
    assert "[15.0 min, 45.0 min]" in text
    assert "yet to be submitted" in text


def test_the_present_can_be_any_instant_and_runs_can_be_said(presage: Presage, live: Path) -> None:
    call = ("whatif", live, "--processors", "64", "--run-by", "requested", "--json")
    assert presage(*call, "--now", "2024-03-04T08:41:00").document["waiting"] == 1
    later = presage(*call, "--now", "1h").document
    assert (later["now_ms"], later["samples"]) == (1_709_542_800_000, 1)
    assert later["baseline"]["jobs"][0]["start_p50_s"] == 5400


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--present", "--out", "kept"], 2, "--out means nothing for the present"),
        (["--present", "--load", "2"], 2, "still to come"),
        (["--present", "--set", "failures=500h@8"], 2, "failures cannot be asked from the present on"),
        (["--now", "soon"], 2, "a date like"),
        (["--present", "--clean", "archive"], 3, "do not clean"),
        (["--present", "--processors", "40"], 3, "hold 48 processors and the machine has 40"),
        (["--job", "3"], 2, "no waiting job named '3'"),
        (["--set", "nodes=x2", "--samples", "9"], 2, "--samples means nothing for a replay"),
        (["--set", "nodes=x2", "--plot", "x.gif"], 2, "'.gif'"),
        (["--set", "nodes=x2", "--sla", "soon"], 2, "no length of time"),
    ],
)
def test_mistakes_about_the_present_are_answered(
    presage: Presage, live: Path, arguments: list[str], exit_code: int, message: str
) -> None:
    sized = [] if "--processors" in arguments else ["--processors", "64"]
    result = presage("whatif", live, *sized, *arguments)
    assert result.exit_code == exit_code, result.err
    assert message in result.err


def test_a_comparison_can_be_drawn(presage: Presage, log: Path) -> None:
    changes = ("--set", "nodes=+10%", "--variant", "short: policy=sjf+easy")
    result = presage("whatif", log, *changes, "--clean", "archive", "--sla", "4h", "--plot", "contest.html")
    assert result.exit_code == 0, result.err
    assert "late share" in result.out
    page = Path("contest.html").read_text()
    assert "log.swf: what if" in page
    assert "late share" in page


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        ([], 2, "--set nodes=+10%"),
        (["--set", "node=+10%"], 2, "Did you mean 'nodes'?"),
        (["--set", "policy=sjff"], 2, "Did you mean 'sjf'?"),
        (["--set", "failures=1%"], 2, "no length of time"),
        (["--set", "failures=500h"], 2, "Name it, like failures=500h/4h@32"),
        (["--set", "failures=500h@8", "--policy", "fcfs+conservative"], 2, "none, easy"),
        (["--set", "partitions=gpu:32;cpu:32"], 3, "name none of the partitions gpu, cpu"),
        (["--load", "fast"], 2, "a factor above 0"),
        (["--load", "2", "--policy", "fcf"], 2, "Did you mean 'fcfs'?"),
        (["--load", "2", "--engine", "locl"], 2, "Did you mean 'local'?"),
        (["--load", "2", "--engine", "ray"], 4, "presage[ray]"),
        (["--load", "2", "--clean", "archiv"], 2, "Did you mean 'archive'?"),
        (["--load", "2", "--warm-up", "some"], 2, "a share like 5%"),
        (["--load", "2", "--cool-down", "100%"], 2, "a share like 5%"),
        (["--load", "2", "--warm-up", "inf"], 2, "a share like 5%"),
        (["--load", "2", "--warm-up", "300"], 2, "leave none of 300 jobs"),
        (["--variant", "a: load=2", "--variant", "a: load=3"], 2, "'a' is taken"),
        (["--variant", "a/b: load=2", "--variant", "a b: load=3", "--out", "kept"], 2, "other names"),
        (["--set", "processors=8"], 3, "oversized=drop"),
        (["--load", "2", "--out", "/dev/null/kept"], 2, "cannot be made"),
    ],
)  # fmt: skip
def test_mistakes_are_answered(
    presage: Presage,
    log: Path,
    arguments: list[str],
    exit_code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = presage("whatif", log, *arguments)
    assert result.exit_code == exit_code, result.err
    assert message in result.err
