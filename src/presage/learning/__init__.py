"""How policies are learned, judged, explained and recommended. Needs the extra `learn`.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.learning.cases import Case, case_of
    from presage.learning.distillation import distil_formula, slurm_weights
    from presage.learning.evaluation import evaluate_policy
    from presage.learning.learned_policy import LearnedPolicy
    from presage.learning.ppo_policy import ScorerSettings, train_scorer
    from presage.learning.recommendation import PolicyStore, recommend
    from presage.learning.reinforcement import PpoSettings, TrainedPpo, train_ppo
    from presage.learning.search import Search, search_scorer
    from presage.learning.self_watch import SelfWatch
    from presage.learning.static_rules import best_static

__all__ = [
    "Case",
    "LearnedPolicy",
    "PolicyStore",
    "PpoSettings",
    "ScorerSettings",
    "Search",
    "SelfWatch",
    "TrainedPpo",
    "best_static",
    "case_of",
    "distil_formula",
    "evaluate_policy",
    "recommend",
    "search_scorer",
    "slurm_weights",
    "train_ppo",
    "train_scorer",
]

_HOMES = {
    "cases": ("Case", "case_of"),
    "distillation": ("distil_formula", "slurm_weights"),
    "evaluation": ("evaluate_policy",),
    "learned_policy": ("LearnedPolicy",),
    "ppo_policy": ("ScorerSettings", "train_scorer"),
    "recommendation": ("PolicyStore", "recommend"),
    "reinforcement": ("PpoSettings", "TrainedPpo", "train_ppo"),
    "search": ("Search", "search_scorer"),
    "self_watch": ("SelfWatch",),
    "static_rules": ("best_static",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"presage.learning.{home}"), name)
    raise AttributeError(f"module 'presage.learning' has no attribute {name!r}")
