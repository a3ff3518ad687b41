"""Workload models: traces drawn from published statistics, without anybody's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.registry import Registry, Spec
from presage.traces.workloads._base import Draws, WorkloadModel
from presage.traces.workloads._parameters import Parameter, Value, parameter, parameters_of, parse_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "WORKLOADS",
    "Draws",
    "Parameter",
    "WorkloadModel",
    "describe_parameters",
    "make_model",
    "parameter",
]

_HERE = "presage.traces.workloads"

WORKLOADS: Registry[type[WorkloadModel]] = Registry(
    "workload model",
    "presage.workloads",
    [
        Spec("lublin", f"{_HERE}.lublin:LublinModel", "parallel batch jobs after Lublin and Feitelson (2003)"),
        Spec(
            "gpu-cluster",
            f"{_HERE}.gpu_cluster:GpuClusterModel",
            "GPU jobs with gangs, types and sharing, after Alibaba's openb (2023) or Microsoft's Philly (2017)",
        ),
    ],
)


def make_model(name: str, settings: Mapping[str, Value] | None = None) -> WorkloadModel:
    """Return the model `name` with these settings, given as values or as their texts.

    Raises UnknownNameError for an unknown model, parameter or choice (with the closest match), UsageError for
    a value that the parameter cannot have.
    """
    model = WORKLOADS.get(name)
    return model(**parse_settings(model, settings or {}))  # type: ignore[arg-type]  # parsed by their types


def describe_parameters(name: str) -> dict[str, Parameter]:
    """Return the parameters of the model `name`, in the order in which help should list them."""
    return parameters_of(WORKLOADS.get(name))
