from __future__ import annotations

import pytest

from presage.clusters.charges import Share
from presage.clusters.systems import NodeType
from presage.estimators import EstimateRequest, Quantity, ScriptWorkload, Target
from presage.traces import Trace

NODE = NodeType("node", 64, 1 << 38)


def question(
    cores: int = 4, limit_s: float | None = 3600, partition: str = "main", user: str = "ann", gpus: int = 0
) -> EstimateRequest:
    """The wait of a job of that size in a partition of the system `here`."""
    target = Target("here", partition, NODE, Share(1, cores, gpus), walltime_s=limit_s)
    return EstimateRequest(Quantity.WAIT, ScriptWorkload("x.sh", user=user, name="x"), target)


@pytest.fixture(scope="session")
def busy() -> Trace:
    """A small machine under heavy load, simulated: 1,500 jobs of 12 users on 64 processors."""
    pytest.importorskip("numba")
    import polars as pl

    from presage.simulator import simulate
    from presage.traces.workloads import make_model

    model = make_model("lublin", {"users": 12, "estimate": "modal", "processors": 64, "load": 0.9})
    jobs = model.generate(jobs=1500, seed=3)
    jobs = jobs.with_jobs(jobs.jobs.with_columns(cpus_req=pl.coalesce("cpus_req", "cpus_alloc")))
    done = simulate(jobs, "fcfs+easy").trace
    return done.with_jobs(done.jobs.with_columns(partition=pl.lit("main")))
