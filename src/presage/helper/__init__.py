"""For people in notebooks and scripts: estimate a training, plan it, hand it over, watch it.

    import presage

    found = presage.estimate(model, example, batch_sizes=[32, 64], epochs=50, samples=20_000)
    plans = found.plan(["osc-pitzer"], waits={"osc-pitzer/gpuserial": "26h"}, command=["python", "train.py"])
    job = plans.submit("by-availability")
    presage.watch(job)

Everything shows itself as a table in a notebook and in a terminal. It works with a service, if one is configured,
and without one on this machine.
"""

from __future__ import annotations

from presage.helper.estimating import Estimation, estimate
from presage.helper.jobs import Job, submit, watch
from presage.helper.planning import Planning, plan

__all__ = ["Estimation", "Job", "Planning", "estimate", "plan", "submit", "watch"]
