"""The flagship: every user's jobs as a sequence, week by week, laid over each other."""

from __future__ import annotations

from presage.synthesizers.sequence.model import SequenceModel

__all__ = ["SequenceModel"]
