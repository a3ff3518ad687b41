from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from presage.errors import PresageError, UsageError
from presage.policies import Policy
from presage.simulator import Jobs
from presage.simulator.pooled import schedule
from presage.testing import SlurmCluster, missing_for_slurm
from presage.testing.slurm import cluster

needs_slurm = pytest.mark.skipif(bool(missing_for_slurm()), reason=missing_for_slurm() or "Slurm is here")
RATE = 20
INTERVAL_S = 10
# Nodes, limit in minutes, run time. The first holds 3 of 4 nodes, the second wants all, the third is short enough
# to pass it, the fourth is not.
JOBS = ((3, 3, 100), (4, 3, 40), (1, 1, 20), (1, 10, 20))


@needs_slurm
@pytest.mark.slow
def test_a_real_slurm_backfills_as_the_simulator_does() -> None:
    with SlurmCluster(nodes=4, rate=RATE, parameters={"bf_interval": INTERVAL_S}) as slurm:
        numbers = [
            slurm.submit([f"--nodes={nodes}", f"--time={limit}", "--exclusive"], f"sleep {run}")
            for nodes, limit, run in JOBS
        ]
        slurm.wait_for_jobs(timeout_s=60)
        found = slurm.jobs()
        known, folder = slurm.processes(), slurm.folder
    assert known
    assert not slurm.processes()
    assert not any(Path(f"/proc/{pid}").exists() for pid in known)
    assert not folder.exists()

    jobs = [found[number] for number in numbers]
    assert [job.state for job in jobs] == ["COMPLETED"] * 4
    assert [job.nodes for job in jobs] == [3, 4, 1, 1]
    assert [job.limit for job in jobs] == ["00:03:00", "00:03:00", "00:01:00", "00:10:00"]
    submit, start, end = (
        np.array([getattr(job, name) for job in jobs], np.int64) for name in ("submit", "start", "end")
    )
    assert start[0] < start[2] < start[1] < start[3]
    assert jobs[2].backfilled

    limit = np.array([minutes for _, minutes, _ in JOBS], np.int64) * 60_000
    nodes = np.array([size for size, _, _ in JOBS], np.int64)
    seen = Jobs(submit * 1000, (end - start) * 1000, limit, limit, limit, nodes)
    simulated = schedule(seen, 4, Policy.parse(f"fcfs+periodic:interval_s={INTERVAL_S}")) / 1000
    # A cycle may come an interval earlier or later, a pass 3 s and a tick; a quarter of a real second is machine.
    assert np.abs(simulated - start).max() <= INTERVAL_S + 3 + 1 + RATE / 4


@needs_slurm
def test_everything_stops_when_the_test_fails() -> None:
    cluster = SlurmCluster(nodes=1, rate=RATE)
    with pytest.raises(ZeroDivisionError):
        fail_in(cluster)
    assert not cluster.processes()
    assert not cluster.folder.exists()
    cluster.stop()


def fail_in(cluster: SlurmCluster) -> None:
    with cluster as slurm:
        job = slurm.submit(["--time=5"], "sleep 1000")
        while slurm.jobs()[job].state != "RUNNING":
            slurm.sleep_until(slurm.now_s() + 1)
        assert len(slurm.processes()) >= 4
        raise ZeroDivisionError


@needs_slurm
def test_a_daemon_that_does_not_start_is_named_with_its_log() -> None:
    cluster = SlurmCluster(nodes=1, config={"SelectType": "select/nonsense"})
    with pytest.raises(PresageError, match=r"(?s)slurm\S+ ended.*nonsense"), cluster:
        pass
    assert not cluster.processes()


@needs_slurm
def test_commands_run_in_the_cluster_and_say_what_went_wrong() -> None:
    partition = "PartitionName=short Nodes=ALL Default=YES MaxTime=5 State=UP"
    with SlurmCluster(nodes=2, cpus=3, partitions=[partition], parameters={"defer": None}) as slurm:
        assert slurm.run(["sinfo", "-h", "-o", "%P %D %c"]).split() == ["short*", "2", "3"]
        assert "defer" in slurm.run(["scontrol", "show", "config"])
        assert "slurmctld version" in slurm.log()
        with pytest.raises(PresageError, match="exited 1"):
            slurm.submit(["--partition=long"], "true")
        with pytest.raises(PresageError, match="did not answer within"):
            slurm.run(["sleep", "5"], timeout_s=0.2)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATH", os.devnull)
    assert missing_for_slurm().startswith("munged, slurmctld")
    assert missing_for_slurm().endswith("install slurm-wlm munge faketime")
    with pytest.raises(PresageError, match="cannot be started: munged"):
        SlurmCluster().__enter__()


def test_a_cluster_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one node"):
        SlurmCluster(nodes=0)


def test_contract_suites_do_not_load_what_drives_slurm() -> None:
    code = "import sys, presage.testing; print('presage.testing.slurm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
