"""The jobs that a training took, from what the plane and the training itself wrote down."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from presage.client.events import EVENTS_FILE, read_events

if TYPE_CHECKING:
    from pathlib import Path

    from presage.client.events import Event

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Link:
    """One job on the cluster. `done` is in epochs."""

    number: int
    ending: str | None
    words: str
    walltime_s: float | None
    ran_s: float
    done_before: float
    done_after: float


@dataclass(frozen=True)
class Chain:
    """What a training took, and what was lost on the way."""

    phase: str
    reason: str
    links: tuple[Link, ...]
    elapsed_s: float
    """From being handed over to the end of the last job."""
    worked_s: float
    max_rss_bytes: float
    lost: float
    """Epochs that had been saved and were not there when the next job began."""
    repeated: float
    """Epochs that were done twice, because they had not been saved."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "chain": [asdict(each) for each in self.links], "elapsed_s": self.elapsed_s, "worked_s": self.worked_s,
            "max_rss_bytes": self.max_rss_bytes, "lost_epochs": self.lost, "repeated_epochs": self.repeated,
        }  # fmt: skip


def read_chain(job: dict[str, Any], run_folder: Path) -> Chain:
    """Return the chain of a job that has ended, whose training told of itself in this folder."""
    events = [event for event, _ in read_events(run_folder / EVENTS_FILE)]
    links = tuple(_link(each, events) for each in job["sub_jobs"] if each["start_time"] is not None)
    ends = [datetime.fromisoformat(each["end_time"]) for each in job["sub_jobs"] if each["end_time"]]
    began = datetime.fromisoformat(job["created_at"])
    lost, repeated = losses(events)
    used = [float(event.values["max_rss_bytes"]) for event in events if event.kind == "utilization"]
    return Chain(
        job["phase"], job["reason"], links, (max(ends) - began).total_seconds() if ends else 0.0,
        sum(each.ran_s for each in links), max(used, default=0.0), lost, repeated,
    )  # fmt: skip


def losses(events: list[Event]) -> tuple[float, float]:
    """Return how many epochs were lost although they had been saved, and how many were only done twice."""
    lost = repeated = saved = done = 0.0
    for event in events:
        if event.kind == "started":
            began = float(event.values["done"])
            lost += max(0.0, saved - began)
            repeated += max(0.0, done - began)
            done = began
        elif event.kind in ("progress", "checkpoint"):
            done = max(done, float(event.values["done"]))
            saved = done if event.kind == "checkpoint" else saved
    return _settled(lost), _settled(repeated)


def _settled(amount: float) -> float:
    return amount if amount > _ROUNDING else 0.0


def _link(sub_job: dict[str, Any], events: list[Event]) -> Link:
    begin = datetime.fromisoformat(sub_job["start_time"])
    end = datetime.fromisoformat(sub_job["end_time"]) if sub_job["end_time"] else None
    dones = [(event.time, float(event.values["done"])) for event in events if event.values.get("done") is not None]
    told = [done for time, done in dones if begin <= time <= (end or time)]
    # A job that was over before it could say anything leaves all as it found it.
    found = ([0.0] + [done for time, done in dones if time < begin])[-1]
    return Link(
        sub_job["number"], sub_job["ending"], sub_job["reason"], sub_job["walltime_s"],
        (end - begin).total_seconds() if end else 0.0, told[0] if told else found, told[-1] if told else found,
    )  # fmt: skip
