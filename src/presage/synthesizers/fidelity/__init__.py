"""How true synthetic traces are: columns, dependence, time, queues, use, and what they give away."""

from __future__ import annotations

from presage.synthesizers.fidelity._figures import Figures, Unmeasured
from presage.synthesizers.fidelity.report import Likeness, Report, report

__all__ = ["Figures", "Likeness", "Report", "Unmeasured", "report"]
