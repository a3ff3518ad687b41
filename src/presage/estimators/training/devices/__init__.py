"""How fast devices are: measured ones, and those of which only the maker's figures are known."""

from __future__ import annotations

from presage.estimators.training.devices.fitting import Sample, fit_device
from presage.estimators.training.devices.kept import calibrated_device, keep_device, shipped_core
from presage.estimators.training.devices.model import DeviceModel, Rate, parse_device
from presage.estimators.training.devices.rooflines import gpu_device, node_device, on_cores

__all__ = [
    "DeviceModel",
    "Rate",
    "Sample",
    "calibrated_device",
    "fit_device",
    "gpu_device",
    "keep_device",
    "node_device",
    "on_cores",
    "parse_device",
    "shipped_core",
]
