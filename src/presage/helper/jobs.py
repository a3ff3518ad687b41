"""`presage.submit` and `presage.watch`: jobs that are looked after, by a service or by this process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from presage.helper.places import jobs_place
from presage.helper.tables import Shown, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.helper.places import JobsPlace
    from presage.orchestrator.embedded import EmbeddedPlane
    from presage.orchestrator.jobs import Order
    from presage.planner.plan import Plan

_ENDED = ("completed", "failed", "cancelled")
POLL_S = 1.0
_METRICS_SHOWN = 3
_FIGURES = (
    ("cores", 1, "{:.1f} cores"),
    ("max_rss_bytes", 1 << 30, "{:.1f} GiB"),
    ("gpu_percent", 1, "GPU {:.0f} %"),
    ("gpu_memory_bytes", 1 << 30, "{:.1f} GiB of GPU"),
)
"""What is shown of the utilization: its name, the unit, and how it is said."""


@dataclass(frozen=True, repr=False)
class Job(Shown):
    """A job that was handed over."""

    job_id: str
    place: JobsPlace

    def status(self) -> dict[str, Any]:
        """Return how it stands now, as the service tells it."""
        return self.place.job(self.job_id)

    def cancel(self) -> dict[str, Any]:
        """Stop it for good."""
        return self.place.stop(self.job_id)

    def explain(self) -> list[dict[str, Any]]:
        """Return what was decided about it, and why."""
        return self.place.decisions(self.job_id)

    def events(self, after: int = 0) -> list[dict[str, Any]]:
        """Return what happened to it since the event of that number."""
        return self.place.events(self.job_id, after)

    def tables(self) -> tuple[Table, ...]:
        """Return its jobs on clusters."""
        job = self.status()
        rows = tuple(
            (
                str(each["number"]), each["cluster"], each["cluster_job_id"] or "",
                each["ending"] or each["state"], each["reason"],
            )
            for each in job["sub_jobs"]
        )  # fmt: skip
        title = f"{job['name']} ({job['job_id']}) is {job['state']}. {job['reason']} {lately(job)}".rstrip()
        return (Table(title, ("", "cluster", "id there", "state", "why"), rows),)


def submit(plan: Plan, *, folder: str | Path = ".") -> Job:
    """Hand a plan over: to the service that is configured, else to this machine, looked after by this process.

    `folder` is where the program runs and saves itself. A job that this process leaves unfinished is taken up by
    the next `presage up`. Raises UsageError if the plan does not say what to run.
    """
    from presage.orchestrator.orders import order_of_plan

    return hand_over(order_of_plan(plan, working_directory=Path(folder).absolute()))


def hand_over(order: Order, *, look_after: bool = True) -> Job:
    """Hand an order over, as `submit` does; without `look_after` nobody works on it before the next plane does."""
    from presage.orchestrator.jobs import order_document

    place = jobs_place()
    made = place.hand_over(order_document(order))
    if look_after and not place.is_remote:
        _look_after()
    return Job(str(made["job_id"]), place)


def watch(
    job: Job | str, *, tell: Callable[[str], None] | None = None, most_s: float | None = None
) -> dict[str, Any]:
    """Tell what happens to a job until it ends or `most_s` have passed; returns how it stands then.

    A job that was handed over earlier is named by its id. `tell` gets one line for each event; by default they are
    printed.
    """
    if isinstance(job, str):
        job = Job(job, jobs_place())
    say = tell or _print
    after = 0
    deadline = None if most_s is None else time.monotonic() + most_s
    while True:
        status = job.status()
        for event in job.events(after):
            after = event["number"]
            say(_spelled(event))
        if status["phase"] in _ENDED or (deadline is not None and time.monotonic() > deadline):
            return status
        time.sleep(POLL_S)


@lru_cache(maxsize=1)
def _look_after() -> EmbeddedPlane:
    """Start the one plane of this process."""
    from presage.database import Database, state_home
    from presage.orchestrator.embedded import Clusters, start_plane
    from presage.orchestrator.feedback import start_feedback
    from presage.orchestrator.store import Store

    connectors = Clusters(slurm=which("sbatch") is not None).connect(state_home())
    database = Database()
    start_feedback(database)
    return start_plane(Store(database), connectors, name=f"helper-{time.time_ns()}")


def lately(job: dict[str, Any]) -> str:
    """Return what a job told last of how good it is and of what it uses; empty if nothing."""
    metrics = [f"{name} {value:.4g}" for name, value in list((job.get("metrics") or {}).items())[:_METRICS_SHOWN]]
    used = job.get("utilization") or {}
    figures = [words.format(used[name] / unit) for name, unit, words in _FIGURES if name in used]
    return ", ".join([*metrics, *figures])


def _spelled(event: dict[str, Any]) -> str:
    values = ", ".join(f"{name} {value}" for name, value in event["values"].items() if value is not None)
    return f"{event['at'][:19]}  {event['kind']}  {values}"


def _print(line: str) -> None:
    from rich.console import Console

    Console(highlight=False).print(line, markup=False)
