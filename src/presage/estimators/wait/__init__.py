"""How long a job will wait: what somebody said, the model, jobs like it, the scheduler's own word."""

from __future__ import annotations

from presage.estimators.wait.opinions import wait_opinions

__all__ = ["wait_opinions"]
