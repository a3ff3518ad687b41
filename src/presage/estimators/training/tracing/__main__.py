"""The process that traces: `python -m presage.estimators.training.tracing`."""

from __future__ import annotations

from presage.estimators.training.tracing.child import serve

serve()
