from __future__ import annotations

from importlib.util import find_spec

# Learning by reinforcement is an extra of its own.
LEARNED_SO = ["test_passes.py", "test_ppo_policy.py", "test_reinforcement.py"]
collect_ignore = [] if find_spec("sb3_contrib") else LEARNED_SO
if not find_spec("torch"):
    collect_ignore.append("test_relearning.py")
