"""How the network is built and trained, and how jobs are laid out."""

from __future__ import annotations

from dataclasses import dataclass

from presage.traces.workloads import parameter


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the network is built and trained."""

    epochs: int = parameter(60, "rounds through all jobs, at most", minimum=1, maximum=10_000)
    patience: int = parameter(
        5, "rounds without a better score on later jobs before it ends", minimum=1, maximum=1000
    )
    width: int = parameter(48, "numbers that stand for a job", minimum=4, maximum=1024)
    hidden: int = parameter(160, "numbers that a field is drawn from", minimum=8, maximum=4096)
    dropout: float = parameter(0.3, "share of these that is hidden in training", minimum=0, maximum=0.9)
    rate: float = parameter(1e-3, "highest learning rate", above=0, maximum=1)
    decay: float = parameter(1e-2, "weight decay", minimum=0, maximum=10)
    batch: int = parameter(
        256, "jobs in a batch, at most, or users' weeks of a private model", minimum=1, maximum=1_000_000
    )
    ranges: int = parameter(128, "ranges that gaps and run times are cut into, at most", minimum=4, maximum=1000)
    calibration: int = parameter(
        6, "rounds in which drawn jobs are compared with the log's", minimum=0, maximum=100
    )
    drafts: int = parameter(
        5, "times that each six hours of a user are drawn, to keep what is nearest to plan and habits", minimum=1,
        maximum=100,
    )  # fmt: skip
    spread: float = parameter(
        0.1, "how much a user's number of jobs varies, as a power of e", minimum=0, maximum=2
    )
    borrowed: float = parameter(
        0.0, "share of users' weeks that are laid out like another of their weeks", minimum=0, maximum=1
    )
