from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presage.client.run import EXIT_TO_BE_CONTINUED
from presage.errors import UsageError
from presage.estimators import Spread, TrainingOptions, TrainingWorkload
from presage.planner import Constraints, Plan, Stated, Strategy, Variant
from presage.planner.manifests import write_job
from presage.planner.scripts import job_name, stretches, write_sbatch
from tests.planner.making import HOUR, plans_for
from tests.planner.test_plan import plan_with

HOSTILE = [
    "'; touch pwned; '", '"; touch pwned; "', "$(touch pwned)", "`touch pwned`", "a\ntouch pwned\n",
    "a\r\n#SBATCH --x", "${IFS}", "-rf", "--", "*", "~", "\\", "\t", "é🚀", "x" * 100_000, "&& touch pwned",
    "| touch pwned", "!!", "{0}",
]  # fmt: skip


def hops() -> Plan:
    stated = Stated(None, {"*": Spread.exactly(2.5 * HOUR)}, {"*": Spread.exactly(0)})
    plan = plans_for(stated, constraints=Constraints(only=("lab/test",))).plan(Strategy.HOPS)
    assert plan is not None
    return plan


def run_script(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script"
    script.write_text(text)
    return subprocess.run(
        ["bash", str(script)], cwd=folder, capture_output=True, text=True, timeout=20,
        env={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "11", **environment},
    )  # fmt: skip


def pretend(folder: Path, **commands: str) -> None:
    """Put commands of Slurm in the script's way that note how they were called."""
    (folder / "bin").mkdir(exist_ok=True)
    for name, body in commands.items():
        file = folder / "bin" / name
        file.write_text(f'#!/bin/bash\necho "{name} $*" >> {folder}/calls\n{body}\n')
        file.chmod(0o755)


def calls(folder: Path) -> list[str]:
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_the_directives_ask_for_what_the_leg_has() -> None:
    plan = plan_with(Strategy.BEST)
    text = write_sbatch(plan, plan.legs[0], ("python", "train.py"))
    directives = re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)
    assert directives == [
        "--job-name=job", "--partition=accelerated", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=20",
        "--time=06:36:00", "--signal=B:USR1@120", "--requeue", "--open-mode=append", "--gpus-per-node=1",
    ]  # fmt: skip
    lines = text.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert lines[len(directives) + 1] == "set -u"  # Slurm reads no directive behind the first command


def test_a_node_type_among_several_is_named_by_its_features() -> None:
    plan = plan_with(Strategy.BEST)
    leg = replace(plan.legs[0], constraint="skylake&40core")
    text = write_sbatch(replace(plan, legs=(leg,)), leg, ("true",))
    assert "#SBATCH --constraint=skylake&40core\n" in text


def test_a_run_that_ends_is_marked_as_done_and_not_run_again(tmp_path: Path) -> None:
    plan = plan_with(Strategy.BEST)
    text = write_sbatch(
        plan, plan.legs[0], ("sh", "-c", 'echo "$PRESAGE_RESUME" >> runs; touch "$PRESAGE_RUN_FOLDER/1"')
    )
    assert run_script(text, tmp_path).returncode == 0
    second = run_script(text, tmp_path)
    assert "nothing left to do" in second.stdout
    assert (tmp_path / "runs").read_text() == "0\n"


def test_a_run_that_fails_keeps_its_status_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    plan = plan_with(Strategy.BEST)
    program = 'echo "$PRESAGE_RESUME" >> runs; touch "$PRESAGE_RUN_FOLDER/1"; exit 7'
    text = write_sbatch(plan, plan.legs[0], ("sh", "-c", program))
    assert [run_script(text, tmp_path).returncode for _ in range(2)] == [7, 7]
    assert (tmp_path / "runs").read_text() == "0\n1\n"


def test_before_the_limit_the_program_is_told_and_may_take_its_time(tmp_path: Path) -> None:
    plan = plan_with(Strategy.BEST)
    program = (
        "import signal,sys,time,pathlib\n"
        "def save(*_):\n time.sleep(.3); pathlib.Path('saved').touch(); sys.exit(0)\n"
        "signal.signal(signal.SIGUSR1, save); pathlib.Path('ready').touch()\ntime.sleep(15)"
    )
    script = tmp_path / "script"
    script.write_text(write_sbatch(plan, plan.legs[0], ("python3", "-c", program)))
    job = subprocess.Popen(["bash", str(script)], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 10
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    job.send_signal(signal.SIGUSR1)
    output, _ = job.communicate(timeout=10)
    assert job.returncode == 0
    assert (tmp_path / "saved").exists()
    assert "the next job goes on" in output
    assert not (tmp_path / ".presage" / "job" / ".jobs" / "done").exists()


def test_a_program_that_saves_and_stops_by_itself_is_not_done(tmp_path: Path) -> None:
    plan = plan_with(Strategy.BEST)
    text = write_sbatch(plan, plan.legs[0], ("sh", "-c", f"exit {EXIT_TO_BE_CONTINUED}"))
    done = run_script(text, tmp_path)
    assert done.returncode == EXIT_TO_BE_CONTINUED
    assert "the next job goes on" in done.stdout
    assert not (tmp_path / ".presage" / "job" / ".jobs" / "done").exists()


def test_a_chain_submits_one_successor_even_if_requeued_and_cancels_it_when_done(tmp_path: Path) -> None:
    plan = hops()
    assert len(plan.legs) == 3
    file = tmp_path / "script"
    pretend(tmp_path, sbatch="echo 12; echo leg $PRESAGE_LEG >> runs", scancel="")
    failing = write_sbatch(plan, plan.legs[0], ("false",), chain_as=str(file))
    assert [run_script(failing, tmp_path).returncode for _ in range(2)] == [1, 1]
    assert calls(tmp_path) == [f"sbatch --parsable --dependency=afterany:11 -- {file}"]
    assert (tmp_path / "runs").read_text() == "leg 2\n"
    ending = write_sbatch(plan, plan.legs[0], ("true",), chain_as=str(file))
    assert run_script(ending, tmp_path, PRESAGE_LEG="2").returncode == 0
    last = plan.legs[-1].walltime_s
    assert calls(tmp_path)[1:] == [
        f"sbatch --parsable --dependency=afterany:11 --time=00:{last / 60:02.0f}:00 -- {file}", "scancel -- 12",
    ]  # fmt: skip
    (tmp_path / ".presage" / "job" / ".jobs" / "done").unlink()
    (tmp_path / "calls").unlink()
    assert run_script(failing, tmp_path, PRESAGE_LEG="3").returncode == 1
    assert calls(tmp_path) == []


def test_a_chain_whose_successor_is_refused_says_so_and_runs(tmp_path: Path) -> None:
    plan = hops()
    pretend(tmp_path, sbatch="exit 1", scancel="")
    done = run_script(write_sbatch(plan, plan.legs[0], ("true",), chain_as="/x"), tmp_path)
    assert done.returncode == 0
    assert "the next job was refused" in done.stderr
    assert not any(call.startswith("scancel") for call in calls(tmp_path))


def test_the_better_place_takes_over_and_the_lesser_one_knows(tmp_path: Path) -> None:
    plan = plan_with(Strategy.AVAILABILITY)
    first, second = plan.legs
    assert [len(legs) for legs in stretches(plan)] == [1, 1]
    pretend(tmp_path, scancel="", squeue="exit 0")
    assert run_script(write_sbatch(plan, first, ("false",)), tmp_path).returncode == 1
    taking = write_sbatch(plan, second, ("false",))
    assert run_script(taking, tmp_path, SLURM_JOB_ID="22").returncode == 1
    assert calls(tmp_path)[:1] == ["scancel --signal=USR1 --batch -- 11"]
    late = run_script(write_sbatch(plan, first, ("touch", "ran")), tmp_path, SLURM_JOB_ID="33")
    assert "moved on to other nodes" in late.stdout
    assert not (tmp_path / "ran").exists()
    (tmp_path / "calls").unlink()
    assert run_script(taking, tmp_path, SLURM_JOB_ID="22").returncode == 1  # requeued: does not stop itself
    assert calls(tmp_path) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_reach_the_program_as_they_are(text: str, tmp_path: Path) -> None:
    plan = replace(plan_with(Strategy.BEST), name=text)
    program = (
        "import os,sys,pathlib; pathlib.Path('got').write_bytes(os.fsencode(sys.argv[1]) + b'\\0' + "
        "os.environb[b'PRESAGE_JOB'])"
    )
    script = write_sbatch(plan, plan.legs[0], ("python3", "-c", program, text))
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
    done = run_script(script, tmp_path, LC_ALL="C.UTF-8")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got").read_bytes() == text.encode() + b"\0" + text.encode()
    assert not list(tmp_path.rglob("pwned"))
    assert len([line for line in script.splitlines() if line.startswith("#SBATCH")]) >= 9


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_any_name_makes_directives_that_stay_in_their_lines(text: str) -> None:
    plan = replace(plan_with(Strategy.BEST), name=text)
    script = write_sbatch(plan, plan.legs[0], ("true", text))
    head = script.split("set -u", 1)[0].splitlines()
    assert head[0] == "#!/bin/bash"
    assert all(re.fullmatch(r"#SBATCH --[\w.+@=:&-]+", line) for line in head[1:])
    assert re.fullmatch(r"[\w.+@-]{1,60}", job_name(plan), re.ASCII)


@pytest.mark.parametrize("name", ["a b", "a\n#SBATCH --x", "$(x)", "", "a;b", "'"])
def test_a_partition_that_cannot_be_written_is_refused(name: str) -> None:
    plan = plan_with(Strategy.BEST)
    leg = replace(plan.legs[0], partition=name)
    with pytest.raises(UsageError, match="partition"):
        write_sbatch(replace(plan, legs=(leg,)), leg, ("true",))


def test_without_a_command_or_with_nul_nothing_is_written() -> None:
    plan = plan_with(Strategy.BEST)
    with pytest.raises(UsageError, match="what to run"):
        write_sbatch(plan, plan.legs[0])
    with pytest.raises(UsageError, match="cannot be a word"):
        write_sbatch(plan, plan.legs[0], ("true", "a\0b"))
    with pytest.raises(UsageError, match="an image"):
        write_job(plan, plan.legs[0], image="", command=("true",))
    with pytest.raises(UsageError, match="a command"):
        write_job(plan, plan.legs[0], image="x")
    with pytest.raises(UsageError, match="cannot be a word"):
        write_job(plan, plan.legs[0], image="x", command=("\ud800",))


def test_a_leg_is_a_job_of_kubernetes() -> None:
    variant = Variant(TrainingWorkload("train.py:net", ((3,),), options=TrainingOptions(batch=64)), "batch 64")
    plan = replace(plan_with(Strategy.AVAILABILITY, variants=(variant,)), name="My Net!")
    first, second = (
        yaml.safe_load(write_job(plan, leg, image="lab/net:1", command=("python", "train.py"), claim="disk"))
        for leg in plan.legs
    )
    assert (first["apiVersion"], first["kind"], first["metadata"]["name"]) == ("batch/v1", "Job", "my-net-1")
    assert (first["spec"]["suspend"], second["spec"]["suspend"]) == (False, True)
    assert second["spec"]["activeDeadlineSeconds"] == plan.legs[1].walltime_s
    pod = second["spec"]["template"]["spec"]
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Never", 120)
    assert pod["volumes"] == [{"name": "run", "persistentVolumeClaim": {"claimName": "disk"}}]
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"cpu": "20", "nvidia.com/gpu": "1"}
    given_to_it = {entry["name"]: entry["value"] for entry in container["env"]}
    assert (given_to_it["PRESAGE_RESUME"], given_to_it["PRESAGE_BATCH"]) == ("1", "64")


def test_several_nodes_are_several_pods_and_tasks() -> None:
    plan = plan_with(Strategy.BEST)
    leg = replace(plan.legs[0], share=replace(plan.legs[0].share, nodes=2, memory_bytes=1))
    plan = replace(plan, legs=(leg,))
    spec = yaml.safe_load(write_job(plan, leg, image="x", command=("true",)))["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (2, 2, "Indexed")
    assert spec["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] == "1Mi"
    assert "\nsrun true &\n" in write_sbatch(plan, leg, ("true",))


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30))
def test_any_text_is_itself_in_the_manifest(text: str) -> None:
    plan = replace(plan_with(Strategy.BEST), name=text)
    job = yaml.safe_load(write_job(plan, plan.legs[0], image=text, command=("run", text)))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == text
    assert container["command"] == ["run", text.replace("$", "$$")]  # which Kubernetes turns into $ again
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", job["metadata"]["name"])
