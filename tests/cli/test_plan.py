from __future__ import annotations

import json
import re
import subprocess
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presage.planner import read_plan
from presage.testing.traces import make_job, make_trace
from presage.traces.writers import choose_writer
from tests.cli.conftest import Presage

LAB = """
name = "lab"
scheduler = "{scheduler}"
time_zone = "Europe/Berlin"
charge = {{ core_hour = 0.01, gpu_hour = 0.5 }}

[node_types.cpu]
cores = 40
memory_bytes = "178 GiB"

[node_types.gpu]
cores = 40
memory_bytes = "363 GiB"
gpus = 2
gpu = "v100-32"

[partitions.batch]
node_types = ["cpu"]
limits = {{ max_walltime_s = "24h" }}

[partitions.accelerated]
node_types = ["gpu"]
limits = {{ max_walltime_s = "24h" }}

[partitions.test]
node_types = ["gpu"]
development = true
limits = {{ max_walltime_s = "1h", user_submitted_jobs = 2 }}
"""
JOB = (
    "--system", "lab.toml", "--memory", "6GiB", "--hours", "lab/cpu=20", "--hours", "lab/gpu=4", "--gpus", "0,1",
    "--wait", "lab/batch=0,lab/accelerated=5h,lab/test=1h",
)  # fmt: skip


@pytest.fixture
def lab(presage: Presage, tmp_path: Path) -> Path:
    """The lab's document in the folder where commands run."""
    file = tmp_path / "lab.toml"
    file.write_text(LAB.format(scheduler="slurm"))
    return file


def test_all_strategies_and_the_front_are_told_to_machines(presage: Presage, lab: Path) -> None:
    done = presage("plan", *JOB, "--json")
    assert done.exit_code == 0, done.err
    document = done.document
    assert [each["strategy"] for each in document["strategies"]] == [
        "best-configuration", "by-availability", "short-hops",
    ]  # fmt: skip
    best, soonest, hops = (each["plan"] for each in document["strategies"])
    assert best["completion"]["p50"] == 9 * 3600
    assert soonest["completion"]["p50"] == pytest.approx(8 * 3600 + 180)
    assert [leg["takes_over"] for leg in soonest["legs"]] == [None, 1]
    assert len(hops["legs"]) == 5
    assert document["chosen"]["strategy"] == "short-hops"
    options = document["options"]
    assert [option["partition"] for option in options] == ["batch", "accelerated", "test"]
    assert options[0]["cost"]["p50"] == pytest.approx(8.0)
    assert [options[index]["partition"] for index in document["front"]] == ["test", "accelerated"]


def test_text_shows_options_strategies_and_legs(presage: Presage, lab: Path) -> None:
    done = presage("plan", *JOB, "--strategy", "by-availability", "--deadline", "12h", "--budget", "100 USD")
    assert done.exit_code == 0
    assert "Options, 2 of 3 possible" in done.out
    assert "no: done after 20 h (with a chance of 90%) > the deadline in 12 h" in done.out
    assert re.search(r"by-availability +1 +9 h +2.8 USD", done.out)
    assert "best-configuration: shortest run: 4 h, which starts after a wait of 5 h" in done.out
    assert "Legs of by-availability" in done.out


def test_a_plan_is_written_in_three_forms(presage: Presage, lab: Path, tmp_path: Path) -> None:
    done = presage(
        "plan",
        *JOB,
        "--strategy",
        "by-availability",
        "--run",
        "python 'my train.py'",
        "-w",
        "p.json",
        "-w",
        "j.sbatch",
    )
    assert done.exit_code == 0, done.err
    assert "Submit with: sbatch j-1.sbatch; sbatch j-2.sbatch" in done.err
    plan = read_plan(tmp_path / "p.json")
    assert plan.command == ("python", "my train.py")
    for name in ("j-1.sbatch", "j-2.sbatch"):
        text = (tmp_path / name).read_text()
        assert "python 'my train.py' &" in text
        assert subprocess.run(["bash", "-n", tmp_path / name]).returncode == 0
    hops = presage("plan", *JOB, "--strategy", "short-hops", "--run", "true", "--write", "h.sbatch", "--json")
    assert hops.document["written"] == ["h.sbatch"]
    assert str(tmp_path / "h.sbatch") in (tmp_path / "h.sbatch").read_text()  # it submits its successors
    lab.write_text(LAB.format(scheduler="kubernetes"))
    jobs = presage("plan", *JOB, "--strategy", "short-hops", "--run", "true", "--image", "net:1", "-w", "j.yaml")
    assert jobs.exit_code == 0, jobs.err
    documents = list(yaml.safe_load_all((tmp_path / "j.yaml").read_text()))
    assert [each["spec"]["suspend"] for each in documents] == [False, True, True, True, True]


def test_a_training_is_named_once_and_crossed(presage: Presage, lab: Path) -> None:
    done = presage(
        "plan", "train.py:net", "--input", "3x8x8", "--input", "int:10:4", "--batch", "32,64", "--precision",
        "fp32,amp-bf16", *JOB, "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.err
    assert len(done.document["options"]) == 12
    assert {option["variant"] for option in done.document["options"]} == {
        "batch 32, fp32", "batch 64, fp32", "batch 32, amp-bf16", "batch 64, amp-bf16",
    }  # fmt: skip
    chosen = done.document["chosen"]
    assert chosen["name"] == "train"
    assert chosen["command"] == ["python", "train.py"]
    assert chosen["workload"]["inputs"] == [[3, 8, 8], [4]]
    assert chosen["workload"]["input_kinds"] == ["float", "int:10"]


@pytest.mark.slow
def test_a_network_is_estimated_for_each_place(presage: Presage, lab: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        "from torch import nn\n\ndef net():\n    return nn.Sequential(nn.Linear(64, 256), nn.Linear(256, 8))\n"
    )
    done = presage(
        "plan", "train.py:net", "--input", "64", "--batch", "16,32", "--epochs", "1", "--samples", "1000",
        "--system", "lab.toml", "--gpus", "0,1", "--only", "lab/batch", "--only", "lab/accelerated",
        "--wait", "lab=1h", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.err
    assert [option["fits"] for option in done.document["options"]] == [True] * 4
    for option in done.document["options"]:
        assert option["memory"]["p50"] > 0
        assert option["walltime"]["estimator"] == "training-walltime"
        on_gpu = option["partition"] == "accelerated"
        assert (option["memory"]["basis"] == "modelled, unverified") == on_gpu
    shown = presage(
        "plan", "train.py:net", "--input", "64", "--epochs", "1", "--samples", "1000", "--system", "lab.toml",
        "--only", "lab/accelerated", "--gpus", "1", "--wait", "lab=1h",
    )  # fmt: skip
    assert "* modelled, unverified" in shown.out


def test_spreads_and_assumptions_can_be_stated(presage: Presage, lab: Path) -> None:
    # A night that is now: one that is far off changes no plan.
    begins_h = datetime.now(ZoneInfo("Europe/Berlin")).hour
    ends_h = (begins_h + 12) % 24
    done = presage(
        "plan", "--system", "lab.toml", "--walltime", "2h..3h..6h", "--only", "lab/test", "--wait",
        "lab=1h..2h..4h", "--save", "0", "--restart", "0", "--night", f"{begins_h}-{ends_h}",
        "--confidence", "0.8", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.err
    assumed = done.document["assumptions"]
    assert assumed["overheads"]["save_s"] == 0
    assert assumed["night"] == {"begins_h": begins_h, "ends_h": ends_h, "wait_s": 60.0}
    assert done.document["options"][0]["walltime"]["p90"] == 6 * 3600
    assert f"idle from {begins_h}:00 to {ends_h}:00" in done.document["chosen"]["notes"][-1]


def test_waits_come_from_a_log(presage: Presage, lab: Path, tmp_path: Path) -> None:
    jobs = [make_job(60 * number, 600, 300, partition="batch") for number in range(60)]
    choose_writer("log.parquet", None).write(make_trace(*jobs), tmp_path / "log.parquet")
    done = presage(
        "plan",
        "--system",
        "lab.toml",
        "--walltime",
        "1h",
        "--only",
        "lab/batch",
        "--history",
        "log.parquet",
        "--json",
    )
    assert done.exit_code == 0, done.err
    (option,) = done.document["options"]
    assert option["wait"] is not None
    assert option["wait"]["basis"] != "stated"


def test_where_nothing_fits_the_reasons_are_shown_and_nothing_is_written(presage: Presage, lab: Path) -> None:
    call = ("plan", "--system", "lab.toml", "--memory", "1TiB", "--walltime", "1h", "--gpus", "0,1")
    done = presage(*call)
    assert done.exit_code == 0
    assert "no: memory 1 TiB > 29.8 GiB of the GPU v100-32" in done.out
    assert "none: " in done.out
    refused = presage(*call, "--write", "p.json", "--json")
    assert refused.exit_code == 3
    assert refused.document["error"]["code"] == "no_plan"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "Nobody says what to plan"),
        (("--walltime", "1h"), "No system is named"),
        (("--walltime", "1h", "--system", "lba"), "no system named 'lba'"),
        (("--walltime", "1h", "--system", "absent.toml"), "absent.toml"),
        (("--walltime", "1h", "--system", "lab.toml", "--system", "lab.toml"), "named twice"),
        (("--walltime", "soon", "--system", "lab.toml"), "'soon'"),
        (("--walltime", "3h..2h..1h", "--system", "lab.toml"), "is no amount"),
        (("--walltime", "3h..4h", "--system", "lab.toml"), "is no amount"),
        (("--walltime", "1h", "--system", "lab.toml", "--deadline", "2020-01-01"), "is past"),
        (("--walltime", "1h", "--system", "lab.toml", "--budget", "much"), "is no amount"),
        (("--walltime", "1h", "--system", "lab.toml", "--night", "8-8"), "cannot be"),
        (("--walltime", "1h", "--system", "lab.toml", "--night", "20-30"), "cannot be"),
        (("--walltime", "1h", "--system", "lab.toml", "--confidence", "2"), "cannot be"),
        (("--walltime", "1h", "--system", "lab.toml", "--spot-interruptions", "nan"), "cannot be"),
        (("--walltime", "1h", "--system", "lab.toml", "--strategy", "short-hop"), "short-hops"),
        (("--walltime", "1h", "--system", "lab.toml", "--only", "moon"), "no place to plan for"),
        (("--walltime", "1h", "--system", "lab.toml", "--gpus", "-1"), "is no list of numbers"),
        (("--walltime", "1h", "--system", "lab.toml", "--nodes", "0"), "is no list of numbers"),
        (("--walltime", "1h", "--system", "lab.toml", "--run", "'"), "is no command"),
        (("--walltime", "1h", "--system", "lab.toml", "--write", "x.pdf"), "does not say what to write"),
        (("--walltime", "1h", "--system", "lab.toml", "--write", "no/where.json"), "no folder"),
        (("--walltime", "1h", "--system", "lab.toml", "--only", "*/batch", "-w", "x.sbatch"), "what to run"),
        (
            ("--walltime", "1h", "--system", "lab.toml", "--only", "*/batch", "-w", "x.yaml"),
            "where slurm starts jobs",
        ),
        (("--walltime", "1h", "--system", "lab.toml", "--deadline", "soon"), "--deadline 'soon'"),
        (("--walltime", "1h", "--system", "lab.toml", "--save", "soon"), "--save 'soon'"),
        (("--walltime", "1h", "--system", "lab.toml", "--strategy", "option"), "is not known"),
        (("--walltime", "1h", "--system", "lab.toml", "--wait", "lab/bach=1h"), "Did you mean 'lab/batch'?"),
        (("--hours", "lab/cpus=1", "--system", "lab.toml"), "which none of the systems has"),
        (("--walltime", "1h", "--system", "lab.toml", "--run", "cd x && python y"), "more than one command"),
        (("--hours", "lab/cpu", "--system", "lab.toml"), "is no pair"),
        (("train.py:f", "--system", "lab.toml"), "how long the training goes on"),
        (("train.py:f", "--onnx", "x", "--walltime", "1h", "--system", "lab.toml"), "were given together"),
        (("train.py:f", "--input", "3xx3", "--walltime", "1h", "--system", "lab.toml"), "is no shape"),
        (("train.py:f", "--batch", "0", "--walltime", "1h", "--system", "lab.toml"), "is no list of numbers"),
        (("train.py:f", "--precision", "fp8", "--walltime", "1h", "--system", "lab.toml"), "is not known"),
        (("train.py:f", "--epochs", "-1", "--walltime", "1h", "--system", "lab.toml"), "cannot be"),
    ],
)
def test_wrong_calls_are_explained(presage: Presage, lab: Path, arguments: tuple[str, ...], problem: str) -> None:
    done = presage("plan", *arguments, "--json")
    assert done.exit_code in {2, 3}
    assert problem in done.err
    assert "error" in done.document


@pytest.mark.parametrize(
    ("run", "printed"),
    [
        ("echo 'a b' c", "a b c"),
        ("echo 'a; b' \"$NAME\"", "a; b of the job"),
        ("env OTHER=x printenv OTHER NAME", "x\nof the job"),
        ("NAME=mine printenv NAME", "mine"),
    ],
)
def test_a_command_means_what_a_shell_would_make_of_it(
    presage: Presage, lab: Path, tmp_path: Path, run: str, printed: str
) -> None:
    written = presage("plan", "--walltime", "1h", "--system", "lab.toml", "--run", run, "-w", "job.sbatch")
    assert written.exit_code == 0, written.err
    environment = {"PATH": "/usr/bin:/bin", "NAME": "of the job"}
    done = subprocess.run(["bash", "job.sbatch"], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == printed, done.stderr


def test_unknown_waits_are_one_note(presage: Presage, lab: Path) -> None:
    done = presage("plan", "--walltime", "30min", "--memory", "1GiB", "--system", "lab.toml")
    notes = [line for line in done.out.splitlines() if line.startswith("Note")]
    places = "lab/batch, lab/accelerated, lab/test"
    assert notes == [
        f"Note: The waits in {places} are not known and count as none; --wait or --history tells them."
    ]


def test_it_is_registered_and_takes_help(presage: Presage) -> None:
    done = presage("plan", "--help")
    assert done.exit_code == 0
    assert "best-configuration" in done.out


OPTIONS = ["--walltime", "--memory", "--hours", "--wait", "--deadline", "--budget", "--only", "--gpus", "--nodes"]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(OPTIONS), st.text(st.characters(exclude_categories=["Cs"]), max_size=12)))
def test_no_value_causes_a_traceback(presage: Presage, lab: Path, values: dict[str, str]) -> None:
    arguments = [f"{option}={text}" for option, text in values.items()]
    done = presage("plan", "--system", "lab.toml", "--json", *arguments)
    assert done.exit_code in {0, 2, 3}, done.err
    json.loads(done.out)
