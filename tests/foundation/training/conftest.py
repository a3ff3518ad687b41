from __future__ import annotations

from importlib.util import find_spec

# Training needs torch, which is an extra.
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
