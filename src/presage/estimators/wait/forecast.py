"""The wait that the model of scheduler behaviour expects, from the cluster's past and its present queue."""

from __future__ import annotations

import polars as pl

from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError
from presage.estimators.queue_model import new_job, queue_model
from presage.estimators.spread import Spread
from presage.estimators.wait.places import jobs_of
from presage.wording import counted

FEW_JOBS = 30
"""With fewer finished jobs than this a forecast says that it knows little of the cluster."""


class ForecastWait(Estimator):
    """The foundation model's forecast for a job submitted now, at the last instant that the history knows of.

    The job is described by its user, partition, processors, GPUs, memory, limit and name. The history should hold
    the jobs of all users, those that wait and run among them: of jobs it does not show the model knows nothing.
    """

    name = "forecast-wait"
    quantity = Quantity.WAIT

    def estimate(self, request: EstimateRequest) -> Estimate:
        trace, target = self.knowledge.history, request.target
        if target is None:
            raise UnsupportedError("The machine that asks has no queue")
        if trace is None or not len(trace):
            raise UnsupportedError("No earlier jobs are known")
        if not len(jobs_of(trace, target.partition)):
            raise UnsupportedError(f"The history has no job of the partition {target.partition}")
        told = queue_model(trace)
        expected = told.forecast(new_job(request.workload, target)).wait_s
        if not told.has_waits or expected is None:
            raise UnsupportedError("The history does not tell when jobs started")
        spread = Spread(*(max(each, 0.0) for each in (expected.p10, expected.p50, expected.p90)))
        notes = [f"By the model of scheduler behaviour, told {counted(told.ended, 'job')} of the past"]
        if told.ended < FEW_JOBS:
            notes.append("So few that little is known of this cluster")
        if trace.jobs.select(pl.col("user").drop_nulls().n_unique()).item() == 1:
            notes.append("The history has the jobs of one user alone: the queue of the others is not seen")
        details = {"model": told.version, "jobs": told.ended}
        return Estimate(self.quantity, spread, Basis.MODELLED, self.name, self.version, tuple(notes), details)
