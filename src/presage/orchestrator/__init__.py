"""The Intelligence Plane: takes a job over and brings it to its end."""

from __future__ import annotations
