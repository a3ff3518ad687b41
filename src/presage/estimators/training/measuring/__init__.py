"""Real steps, taken in a process of their own: of a user's network, and of many to calibrate a device."""

from __future__ import annotations

from presage.estimators.training.measuring.steps import StepTimes, measure_each, measure_steps

__all__ = ["StepTimes", "measure_each", "measure_steps"]
