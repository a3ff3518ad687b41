from __future__ import annotations

from importlib.util import find_spec

# Learning by reinforcement is an extra of its own.
collect_ignore = [] if find_spec("sb3_contrib") else ["test_reinforcement.py"]
