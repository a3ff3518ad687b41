"""What a fine-tuned model says of itself: the model it began as, and what it learnt from since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sized

    from presage.foundation.training.finetuning import Finetuned
    from presage.foundation.view.tasks import Task


def learning(tuned: Finetuned, learnt_from: Sized, judged_by: Sized) -> dict[str, Any]:
    """Return how one network fared: how many questions it saw, and its errors on those held back."""
    return {
        "learnt_from": len(learnt_from), "judged_by": len(judged_by),
        "log_mae_before": tuned.before, "log_mae_after": tuned.after, "took_over": tuned.took_over,
    }  # fmt: skip


def finetuned(
    about: Mapping[str, Any], *, version: str, log: str, jobs: int, networks: Mapping[Task, dict[str, Any]]
) -> dict[str, Any]:
    """Return what is known of a model after one more fine-tuning on `jobs` jobs of a log.

    `networks` has what `learning` says of each network that was trained; where one did not take over, the old one
    is kept.
    """
    step = {"log": log, "jobs": jobs, **{task.value: each for task, each in networks.items()}}
    return {
        **about, "version": version, "base": base_of(about), "finetuned_on": log,
        "finetunings": [*about.get("finetunings", ()), step],
    }  # fmt: skip


def base_of(about: Mapping[str, Any]) -> str:
    """Return the version of the model that was trained from nothing."""
    return str(about.get("base", about.get("version", "unnamed")))
