"""What a job will need: memory, wall time, wait and cost, each as a distribution with its reasons."""

from __future__ import annotations

from presage.estimators._base import (
    Basis,
    Estimate,
    EstimateRequest,
    Estimator,
    Knowledge,
    Quantity,
    UnsupportedError,
)
from presage.estimators.spread import Spread, total
from presage.estimators.workloads import (
    Attention,
    Precision,
    ScriptWorkload,
    Sharding,
    Target,
    TrainingOptions,
    TrainingWorkload,
)
from presage.registry import Registry, Spec

__all__ = [
    "ESTIMATORS",
    "Attention",
    "Basis",
    "Estimate",
    "EstimateRequest",
    "Estimator",
    "Knowledge",
    "Precision",
    "Quantity",
    "ScriptWorkload",
    "Sharding",
    "Spread",
    "Target",
    "TrainingOptions",
    "TrainingWorkload",
    "UnsupportedError",
    "total",
]

_HERE = "presage.estimators"

ESTIMATORS: Registry[type[Estimator]] = Registry(
    "estimator",
    "presage.estimators",
    [
        Spec(
            "training-memory",
            f"{_HERE}.training.memory:TrainingMemory",
            "memory of a training, counted step by step",
        ),
        Spec(
            "training-walltime",
            f"{_HERE}.training.walltime:TrainingWalltime",
            "time of a training, by its operators",
        ),
        Spec("history-memory", f"{_HERE}.history.memory:HistoryMemory", "memory that the same script used before"),
        Spec(
            "history-walltime", f"{_HERE}.history.walltime:HistoryWalltime", "run times of the user's earlier jobs"
        ),
        Spec("stated-wait", f"{_HERE}.wait.stated:StatedWait", "a wait that somebody named"),
        Spec("forecast-wait", f"{_HERE}.wait.forecast:ForecastWait", "wait by the model of scheduler behaviour"),
        Spec("similar-wait", f"{_HERE}.wait.similar:SimilarWait", "waits of jobs like it"),
        Spec("scheduler-wait", f"{_HERE}.wait.scheduler:SchedulerWait", "the scheduler's own estimate"),
        Spec("charge", f"{_HERE}.cost:Charge", "cost by the rule of the partition"),
    ],
)
"""In the order in which they are asked; the first of a quantity that has an answer gives it."""
