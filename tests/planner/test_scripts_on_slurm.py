"""Chained scripts under a real Slurm: cut off by its limits, and done in the end."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from presage.clusters.charges import NO_CHARGE
from presage.clusters.systems import Limits, NodeType, Partition, Scheduler, System
from presage.estimators import Spread
from presage.planner import Assumptions, Counts, Overheads, Stated, Strategy
from presage.planner.scripts import write_sbatch
from presage.testing import SlurmCluster, missing_for_slurm
from tests.planner.making import GIB, plans_for

REASON = missing_for_slurm()
STEPS, STEP_S = 16, 15
PROGRAM = f"""
trap 'exit 0' USR1
saved="$PRESAGE_RUN_FOLDER/steps"
done=$(cat "$saved" 2>/dev/null || echo 0)
echo "leg $PRESAGE_LEG from $done, resumes $PRESAGE_RESUME" >> "$OUTPUT"
while [ "$done" -lt {STEPS} ]; do
    sleep {STEP_S} & wait $!
    done=$((done + 1))
    echo "$done" > "$saved"
done
echo "done $done" >> "$OUTPUT"
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_a_run_past_the_limit_is_done_by_a_chain_of_jobs_unless_it_is_cancelled(tmp_path: Path) -> None:
    node = NodeType("node", cores=1, memory_bytes=GIB)
    # Slurm may give its warning a minute early, and steps that are under way are lost: twice the time will do.
    queue = Partition("all", ("node",), Limits(max_walltime_s=240.0), development=True)
    lab = System("lab", Scheduler.SLURM, (node,), (queue,), charge=NO_CHARGE)
    plan = plans_for(
        Stated(None, {"*": Spread.exactly(2 * STEPS * STEP_S)}, {"*": Spread.exactly(0)}), lab,
        counts=Counts(cores=1), assumptions=Assumptions(overheads=Overheads(0, 0, warning_s=100)),
    ).plan(Strategy.HOPS)  # fmt: skip
    assert plan is not None
    assert len(plan.legs) == 4
    plan = replace(plan, name="chained run")
    file, output = tmp_path / "chain.sbatch", tmp_path / "output"
    file.write_text(write_sbatch(plan, plan.legs[0], ("bash", "-c", PROGRAM), chain_as=str(file)))
    with SlurmCluster(nodes=1, cpus=1, rate=20, partitions=["PartitionName=all Nodes=ALL Default=YES"]) as slurm:
        exports = f"ALL,OUTPUT={output},PRESAGE_RUN_FOLDER={tmp_path / 'run'}"
        # Successors take none of these options along: in the folder of the first, they leave their output there.
        here = f"--chdir={tmp_path}"
        slurm.run(["sbatch", "--parsable", here, f"--export={exports}", f"--output={tmp_path / 'log'}", str(file)])
        slurm.wait_for_jobs(timeout_s=110)
        log = slurm.log()
        cancelled = tmp_path / "cancelled"
        exports = f"ALL,OUTPUT={cancelled},PRESAGE_RUN_FOLDER={tmp_path / 'other'}"
        options = [here, f"--export={exports}", f"--output={tmp_path / 'other-log'}"]
        number = slurm.run(["sbatch", "--parsable", *options, str(file)]).strip()
        for _ in range(200):
            if cancelled.exists():
                break
            time.sleep(0.05)
        slurm.run(["scancel", number])
        slurm.wait_for_jobs(timeout_s=60)
    lines = output.read_text().splitlines()
    assert lines[0] == "leg 1 from 0, resumes 0", log
    assert lines[1].startswith("leg 2 from ")
    assert lines[1].endswith(", resumes 1")
    assert lines[-1] == f"done {STEPS}"
    assert cancelled.read_text() == "leg 1 from 0, resumes 0\n"  # nobody goes on with what was cancelled
    assert "done" in {path.name for path in (tmp_path / "run" / ".jobs").iterdir()}
