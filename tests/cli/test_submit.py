from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from presage.cli import submit as module
from presage.cli import watch
from presage.cli._requests import user_name
from presage.clusters.charges import Share
from presage.clusters.systems import Scheduler
from presage.estimators import ScriptWorkload, Spread
from presage.estimators.scripts import read_script, stamp_of
from presage.helper.places import jobs_place
from presage.planner.plan import Leg, Plan, Strategy
from presage.testing import SlurmCluster, make_job, make_trace, missing_for_slurm
from tests.cli.conftest import Presage

MISSING = missing_for_slurm(fast=False, accounting=True)
needs_slurm = pytest.mark.skipif(bool(MISSING), reason=MISSING or "Slurm is here")
RUNS = 5
AWKWARD = ["two words", "it's", '"$HOME"', "$(touch pwned)", "`touch pwned`", "; touch pwned", "*", "", "--", "ü"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    intervals = {"bf_interval": 1, "sched_interval": 1, "sched_min_interval": 0}
    memory = {"SelectTypeParameters": "CR_CPU_Memory"}
    short = "PartitionName=short Nodes=ALL MaxTime=2 State=UP"
    main = "PartitionName=main Nodes=ALL Default=YES MaxTime=2-0 State=UP"
    with SlurmCluster(
        nodes=1,
        cpus=8,
        memory_mb=4000,
        accounting=True,
        parameters=intervals,
        config=memory,
        partitions=[main, short],
    ) as slurm:
        yield slurm


@pytest.fixture
def at_slurm(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    monkeypatch.setattr(watch, "FIRST_PAUSE_S", 0.2)
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, cluster.environment[name])
    return cluster


def write(path: str, text: str) -> Path:
    Path(path).write_text(text)
    return Path(path)


def wait_until_recorded(cluster: SlurmCluster, runs: int) -> None:
    """The accounting shows a job some seconds late, and steps are what has its memory."""
    cluster.wait_for_jobs()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        told = cluster.run(["sacct", "-nP", "-S", "now-1hour", "-o", "JobID,State,MaxRSS"]).splitlines()
        if sum("batch|COMPLETED|" in line and not line.endswith("|") for line in told) >= runs:
            return
        time.sleep(0.3)
    raise AssertionError(told)


@needs_slurm
@pytest.mark.slow
def test_a_script_gets_the_request_that_its_own_past_justifies(presage: Presage, at_slurm: SlurmCluster) -> None:
    script = "#!/bin/sh\n#SBATCH --time=10:00:00 --mem=2G\n#SBATCH --comment='my own' --output=%j.out\n"
    write("job.sh", script + "printf '<%s>\\n' \"$@\"\nsleep 1.5\n")
    arguments = [*AWKWARD, "--"]  # the last -- ends the arguments
    first = presage("submit", "--keep", "--json", "job.sh", *arguments, f"--array=1-{RUNS}")
    assert first.exit_code == 0, first.err
    assert first.document["changed"] is False
    assert first.document["job_id"].isdigit()
    wait_until_recorded(at_slurm, RUNS)

    shown = presage("submit", "--dry-run", "--json", "job.sh", *arguments).document
    assert shown["job_id"] is None
    assert {each["option"]: each["before"] for each in shown["changes"]} == {"time": 36_000.0, "mem": 2.0 * 2**30}
    assert shown["walltime"]["details"]["level"] == "same script and arguments"
    assert shown["walltime"]["details"]["runs"] == RUNS
    assert {"similar-wait", "scheduler-wait"} <= {each["estimator"] for each in shown["wait"]["answers"]}

    done = presage("submit", "--yes", "--json", "job.sh", *arguments, "--nice=7").document
    assert done["changed"] is True
    told = at_slurm.run(["scontrol", "--oneliner", "show", "job", done["job_id"]])
    assert "TimeLimit=00:05:00" in told  # the least that is advised
    assert "MinMemoryNode=64M" in told
    assert "Nice=7" in told
    assert f"my own {done['stamp']}" in told
    at_slurm.wait_for_jobs()
    assert Path(f"{done['job_id']}.out").read_text() == "".join(f"<{each}>\n" for each in AWKWARD)
    assert not Path("pwned").exists()

    # What the script asks for is not part of who it is: its past is found after an edit of its requests, too.
    write("job.sh", script.replace("10:00:00", "0:30:00") + "printf '<%s>\\n' \"$@\"\nsleep 1.5\n")
    edited = presage("submit", "--dry-run", "--json", "job.sh", *arguments).document
    assert edited["walltime"]["details"]["runs"] >= RUNS
    short = presage("submit", "--dry-run", "--json", "job.sh", *arguments, "--partition=short").document
    assert [each["after"] for each in short["changes"] if each["option"] == "time"] == [120.0]  # the partition's


@needs_slurm
@pytest.mark.slow
def test_a_job_is_followed_to_its_end(presage: Presage, at_slurm: SlurmCluster, tmp_path: Path) -> None:
    write("job.sh", "#!/bin/sh\n#SBATCH -t 5 -o /dev/null\nsleep 1\nexit 3\n")
    job = presage("submit", "--keep", "--json", "job.sh").document["job_id"]
    events = write("events.jsonl", '{"time": "2026-03-01T10:00:00Z", "kind": "progress", "done": 3, "total": 9}\n')
    found = presage("watch", job, "--json", "--progress", events).document
    assert found["job"]["state"] == "failed"
    assert found["job"]["exit_code"] == 3
    assert found["job"]["progress"] == {"done": 3, "total": 9}
    assert found["changes"][-1] == found["job"]
    once = presage("watch", job, "--once")
    assert "failed" in once.out
    unknown = presage("watch", "999999", "--json")
    assert unknown.exit_code == 3
    assert "no job '999999'" in unknown.err
    plan = write_plan(Scheduler.SLURM, "main")
    first = presage("submit", "--json", plan, "--", "--output=/dev/null").document
    at_slurm.wait_for_jobs()
    assert Path("planned.txt").exists()
    assert at_slurm.jobs()[int(first["job_id"])].name == "two-hops"
    refused = presage("submit", "--keep", "job.sh", "--", "--partition=nowhere")
    assert refused.exit_code == 8
    assert "invalid partition" in refused.err


@pytest.fixture
def at_home(presage: Presage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Presage:
    """A machine without Slurm, with a queue of its own in an empty folder."""
    monkeypatch.setenv("PRESAGE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(watch, "FIRST_PAUSE_S", 0.2)
    return presage


def history(script: Path, arguments: tuple[str, ...] = (), **columns: Any) -> Path:
    """A log of 19 runs of a script, each of which took 4 hours and 10 GiB."""
    stamp = stamp_of(read_script(script, arguments).workload())
    known = {
        "user": user_name(), "name": script.name, "outcome": "completed", "limit_s": 86_400.0, "cpus": 1,
        "x_comment": str(stamp), "mem_used_bytes": 10 << 30, "partition": "local",
    }  # fmt: skip
    path = Path("log.parquet")
    make_trace(*(make_job(n * 1e5, 60, 14_400, **{**known, **columns}) for n in range(19)), cpus=64).save(path)
    return path


SCRIPT = "#!/bin/sh\n#SBATCH --time=24:00:00 --mem=64G\nprintf '<%s>\\n' \"$@\" > out.txt\n"


def test_advice_needs_no_cluster(at_home: Presage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    script = write("train.sbatch", SCRIPT)
    shown = at_home("submit", "--dry-run", "--history", history(script), script)
    assert shown.exit_code == 0, shown.err
    assert "Would change time 1-00:00:00 → 05:00:00, because p95 of 19 earlier runs" in shown.out
    assert "Would change mem 64 GiB → 12 GiB" in shown.out
    assert "Limits of partitions are not known" in shown.err
    assert "Submitted" not in shown.out


def test_the_local_machine_runs_what_is_submitted(at_home: Presage) -> None:
    script = write("train.sbatch", SCRIPT)
    arguments = ["a b", "$(touch pwned)", "--json"]
    log = history(script, tuple(arguments))
    done = at_home("submit", "--on", "local", "--yes", "--raw", "--json", "--history", log, script, *arguments)
    assert done.exit_code == 0, done.err
    assert done.document["changed"] is True
    ended = at_home("watch", "--on", "local", done.document["job_id"], "--json").document
    assert ended["job"]["state"] == "completed"
    assert Path("out.txt").read_text() == "<a b>\n<$(touch pwned)>\n<--json>\n"
    assert not Path("pwned").exists()


def test_a_managed_script_may_run_in_other_partitions_with_more_or_fewer_workers(at_home: Presage) -> None:
    script = write("train.sbatch", SCRIPT)
    options = ["--also", "long", "--also", "preempt", "--elastic", "1:4:cores"]
    done = at_home("submit", "--on", "local", "--managed", "--keep", "--json", *options, script)
    assert done.exit_code == 0, done.err
    job = jobs_place().job(done.document["job_id"])
    assert [each["partition"] for each in job["order"]["places"]] == [None, "long", "preempt"]
    assert job["order"]["elastic"] == {"least": 1, "most": 4, "unit": "cores", "efficiency": 0.6}


def test_nothing_is_changed_where_nobody_can_be_asked(at_home: Presage) -> None:
    script = write("train.sbatch", SCRIPT.replace(" --mem=64G", ""))
    done = at_home("submit", "--on", "local", "--history", history(script), script)
    assert done.exit_code == 0, done.err
    assert "Would change time" in done.out
    assert "Submitted as it is" in done.err
    at_home("watch", "--on", "local", done.out.split()[-1])


@pytest.mark.parametrize(
    ("typed", "changed", "submitted"), [("y", True, True), ("n", False, True), ("q", False, False)]
)
def test_a_person_is_asked(
    at_home: Presage, monkeypatch: pytest.MonkeyPatch, typed: str, changed: bool, submitted: bool
) -> None:
    script = write("train.sbatch", SCRIPT.replace(" --mem=64G", ""))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    answers = iter(["what?", typed])
    monkeypatch.setattr(module.typer, "prompt", lambda *_, **__: next(answers))
    done = at_home("submit", "--on", "local", "--json", "--history", history(script), script)
    assert done.exit_code == 0, done.err
    assert (done.document["changed"], done.document["job_id"] is not None) == (changed, submitted)
    if submitted:
        at_home("watch", "--on", "local", done.document["job_id"])


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (["train.sbatch", "--dry-run"], "stands behind the script"),
        (["--yes", "--keep", "train.sbatch"], "exclude each other"),
        (["train.sbatch", "--", "--wait"], "--wait cannot be passed on"),
        (["train.sbatch", "--", "stray"], "'stray' is no option of sbatch"),
        (["none.sbatch"], "none.sbatch cannot be read"),
        (["--on", "slum", "train.sbatch"], "Did you mean 'slurm'"),
        (["--also", "long", "train.sbatch"], "about jobs that are --managed"),
        (["--managed", "--elastic", "8:1", "train.sbatch"], "LEAST:MOST, like 1:8"),
        (["--managed", "--elastic", "1:8:hosts", "train.sbatch"], "one of nodes, cores, gpus"),
        (["--managed", "train.sbatch", "--", "--nice=3"], "'--nice=3' would be lost"),
    ],
)
def test_wrong_calls_say_what_is_wrong(at_home: Presage, call: list[str], problem: str) -> None:
    write("train.sbatch", SCRIPT)
    failed = at_home("submit", *call)
    assert failed.exit_code in {2, 3}
    assert problem in failed.err
    assert "Traceback" not in failed.err


def test_bytes_that_are_no_text_arrive_as_they_are(at_home: Presage) -> None:
    script = Path(os.fsdecode(b"tr\xffain.sbatch"))
    script.write_bytes(b"#!/bin/sh\n# \xff\nprintf '<%s>' \"$@\" > out.txt\n")
    done = at_home("submit", "--on", "local", "--json", script, os.fsdecode(b"\xff"))
    assert done.exit_code == 0, done.err
    assert done.document["arguments"] == ["\ufffd"]
    at_home("watch", "--on", "local", done.document["job_id"])
    assert Path("out.txt").read_bytes() == b"<\xff>"


def test_without_slurm_it_says_so(at_home: Presage, monkeypatch: pytest.MonkeyPatch) -> None:
    write("train.sbatch", SCRIPT)
    monkeypatch.setenv("PATH", "")
    failed = at_home("submit", "--json", "train.sbatch")
    assert failed.exit_code == 8
    assert json.loads(failed.out)["error"]["code"] == "command_missing"


def test_a_cluster_that_never_answered_is_not_watched(at_home: Presage, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bin").mkdir()
    program = write("bin/squeue", "#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent.absolute()}:/usr/bin:/bin")
    failed = at_home("watch", "4711", "--json")
    assert failed.exit_code == 8
    assert "login node" in failed.document["error"]["remedy"]


def write_plan(scheduler: Scheduler, partition: str) -> Path:
    """A plan of two legs, of which the first writes a file."""
    workload = ScriptWorkload("x.sh")
    first = Leg(1, "here", scheduler, partition, "n", Share(1, 1), workload, 120, 60, 0.5, 0, 0, 60)
    legs = (first, replace(first, number=2, after=1))
    spreads = [Spread.exactly(60)] * 4
    command = ("sh", "-c", "echo ran > planned.txt")
    plan = Plan(Strategy.HOPS, "two hops", workload, legs, *spreads, currency="USD", command=command)
    return write("plan.json", plan.as_json())


def test_the_first_job_of_a_plan_is_submitted(at_home: Presage) -> None:
    plan = write_plan(Scheduler.LOCAL, "local")
    shown = at_home("submit", "--on", "local", "--dry-run", plan)
    assert "job 1 of 2, on here/local" in shown.out
    done = at_home("submit", "--on", "local", "--json", plan)
    assert done.exit_code == 0, done.err
    assert (done.document["leg"], done.document["legs"]) == (1, 2)
    ended = at_home("watch", "--on", "local", done.document["job_id"], "--json").document
    assert ended["job"]["state"] == "completed"
    assert Path("planned.txt").read_text() == "ran\n"
    elsewhere = at_home("submit", plan)
    assert elsewhere.exit_code == 2
    assert "Say --on local" in elsewhere.err
    assert at_home("submit", "--on", "local", plan, "more").exit_code == 2
    again = at_home("submit", "--on", "local", plan)  # whose job would find nothing left to do
    assert again.exit_code == 2
    assert "is done already" in again.err


def test_options_that_were_changed_are_not_passed_on() -> None:
    given = ["--time=5", "--nice=3", "-p", "main", "--mem-per-cpu=1G", "--requeue"]
    assert module._without(given, {"time", "mem"}) == ("--nice=3", "--partition=main", "--requeue")
    assert module._without(given, set()) == tuple(given)
