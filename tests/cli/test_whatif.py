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


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        ([], 2, "--set nodes=+10%"),
        (["--set", "node=+10%"], 2, "Did you mean 'nodes'?"),
        (["--set", "policy=sjff"], 2, "Did you mean 'sjf'?"),
        (["--set", "failures=1%"], 2, "cannot be simulated on pooled processors"),
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
