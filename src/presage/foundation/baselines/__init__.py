"""Forecasts that a learned model must beat: simple rules, the method of the literature, boosting, simulation.

All of them answer the same questions as the model and keep the promises of `Baseline`. Two are not among
`BASELINES`, because they need more than a log: `boosting_zero_shot` needs logs of other clusters, and what a live
Slurm expects itself (`slurm`) needs the cluster, or its queue as `squeue` shows it.
"""

from __future__ import annotations

from presage.foundation.baselines._base import Baseline, ForecastsFailures
from presage.foundation.baselines.splits import known_rows, split_rows
from presage.registry import Registry, Spec

__all__ = ["BASELINES", "Baseline", "ForecastsFailures", "known_rows", "split_rows"]

_HERE = "presage.foundation.baselines"

BASELINES: Registry[type[Baseline]] = Registry(
    "baseline",
    "presage.baselines",
    [
        Spec("requested", f"{_HERE}.requested:Requested", "run times: the limit that was asked for"),
        Spec("last-two", f"{_HERE}.last_two:LastTwo", "run times: the mean of the user's last two"),
        Spec("similar", f"{_HERE}.similar:Similar", "what the last jobs of the same kind did"),
        Spec("state-knn", f"{_HERE}.state_knn:StateKnn", "waits: those of jobs that met a similar state"),
        Spec("qbets", f"{_HERE}.qbets:Qbets", "waits: binomial bounds on quantiles, by class of job"),
        Spec("boosting", f"{_HERE}.boosting:Boosting", "gradient boosting on the model's numbers", "boost"),
        Spec(
            "boosting-refit",
            f"{_HERE}.boosting_refit:BoostingRefit",
            "gradient boosting, learned anew from the cluster itself as its log goes on",
            "boost",
        ),
        Spec("simulation", f"{_HERE}.simulation:Simulation", "waits: the queue simulated from the present on"),
        Spec("user-ema", f"{_HERE}.user_ema:UserEma", "failures: how many of the user's last jobs failed"),
    ],
)
