"""Trainings that come over the network: with a profile, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.errors import InputError

if TYPE_CHECKING:
    from presage.estimators.training.profile import StepProfile
    from presage.estimators.workloads import TrainingWorkload


def check_profile(workload: TrainingWorkload, profile: StepProfile | None) -> None:
    """Raise InputError if somebody would have to build the network, which is code or a file of this machine."""
    if profile is None or profile.batch != workload.options.batch:
        had = "none" if profile is None else f"one of batch {profile.batch}"
        raise InputError(
            f"A training needs its profile, and has {had}",
            expected=f"a profile of a step with batch {workload.options.batch}",
            remedy="Make it where the code is, with `presage estimate --json`",
        )
