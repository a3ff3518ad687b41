"""The plane: asks clusters about their jobs, all at once, and does with each managed job what the rules say.

Nothing outside happens within a transaction. Before a job is submitted, its key is in the database; after a crash
in between, the plane finds the job by its key instead of submitting it again. Any number of planes share a
database; each may be killed at any time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from presage.errors import ClusterRefusedError, ConnectorError, PresageError, UsageError
from presage.orchestrator.actions import ENDS, Action, next_sub_job
from presage.orchestrator.endings import ending_of
from presage.orchestrator.facts import facts_of
from presage.orchestrator.jobs import Ending, ManagedJob, Phase, SubJob
from presage.orchestrator.monitoring import read_progress
from presage.orchestrator.rules import Rules, load_rules
from presage.orchestrator.store import Store, utc_now
from presage.orchestrator.submissions import make_run_folder, output_of, submission_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from threading import Event as Flag

    from presage.connectors._base import Connector
    from presage.orchestrator.rules import Decision
    from presage.orchestrator.store import Claim

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """How often what is done, in seconds."""

    lease_s: float = 180.0
    """How long a claim lasts; longer than any call of a cluster takes."""
    least_pause_s: float = 2.0
    """Between two questions to a cluster where something happens; doubled where nothing does."""
    most_pause_s: float = 60.0
    visit_s: float = 30.0
    """Between two looks at a running job's progress."""
    retry_s: float = 10.0
    """Until a cluster that did not answer is asked again."""
    settle_s: float = 120.0
    """Until a submission without an answer that the cluster does not know is taken not to have been made."""
    misses: int = 3
    """How often in a row a cluster must not know a job before it is lost."""


class Plane:
    """One worker. `connectors` by the names that places use; `wait_s` forecasts the wait of a new job."""

    def __init__(
        self,
        store: Store,
        connectors: Mapping[str, Connector],
        *,
        name: str = "plane",
        rules: Rules | None = None,
        pace: Pace | None = None,
        wait_s: Callable[[ManagedJob], float] = lambda _: 0.0,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.store = store
        self.connectors = connectors
        self.name = name
        self.rules = rules or load_rules()
        self.pace = pace or Pace()
        self.wait_s = wait_s
        self.now = now

    def run(self, stop: Flag, pause_s: float = 1.0) -> None:
        """Work until told to stop. What this plane held when it died the last time is taken up again."""
        self.store.release_claims_of(self.name)
        while not stop.is_set():
            try:
                busy = self.step()
            except PresageError as error:
                log.warning("The plane could not work: %s", error)
                busy = 0
            if not busy:
                stop.wait(pause_s)

    def step(self) -> int:
        """Ask the clusters that are due, then attend to the jobs that are; returns how many these were."""
        for cluster in self.connectors:
            self._poll(cluster)
        claims = self.store.claim_jobs(self.name, self.pace.lease_s)
        for claim in claims:
            _Visit(self, claim).attend()
        return len(claims)

    def _poll(self, cluster: str) -> None:
        token = self.store.claim_cluster(cluster, self.name, self.pace.lease_s)
        if token is None:
            return
        asked = self.store.live_on(cluster)
        before_s = self.store.pause_of(cluster)
        try:
            statuses = self.connectors[cluster].statuses(asked) if asked else {}
        except ConnectorError as error:
            log.warning("%s did not answer: %s", cluster, error)
            self.store.postpone_cluster(
                cluster, token, min(self.pace.most_pause_s, max(self.pace.retry_s, 2 * before_s))
            )
            return

        def pause_s(something_changed: bool) -> float:
            return (
                self.pace.least_pause_s
                if something_changed or not asked
                else min(self.pace.most_pause_s, max(self.pace.least_pause_s, 2 * before_s))
            )

        self.store.record_statuses(cluster, token, asked, statuses, pause_s)


class _Visit:
    """One look at one job, under one claim."""

    def __init__(self, plane: Plane, claim: Claim) -> None:
        self.plane = plane
        self.store = plane.store
        self.claim = claim
        self.job = claim.job
        self.now = plane.now()
        self.events: list[tuple[str, dict[str, object]]] = []

    def attend(self) -> None:
        """Take in what happened, do what is to be done, and give the job back."""
        try:
            self._take_in()
            if self.job.phase is Phase.STOPPING:
                again_s = self._stop()
            elif any(each.is_submitting for each in self.job.sub_jobs):
                again_s = self._finish_submitting()
            else:
                again_s = self._decide()
        except ConnectorError as error:
            log.warning("Job %s: %s", self.job.job_id, error)
            self.events.append(("cluster-silent", {"words": str(error)}))
            again_s = self.plane.pace.retry_s
        self._keep(release_until=self.now + timedelta(seconds=again_s))

    def _take_in(self) -> None:
        progress, told = read_progress(self.job)
        self.job = replace(self.job, progress=progress)
        self.events += told
        for sub_job in self.job.sub_jobs:
            if sub_job.ending is None and sub_job.cluster_job_id is not None:
                self._take_in_sub_job(sub_job)

    def _take_in_sub_job(self, sub_job: SubJob) -> None:
        status = sub_job.status
        if sub_job.misses >= self.plane.pace.misses:
            if self._connector(sub_job).find(sub_job.key) is None:
                self._end(sub_job, Ending.LOST, "the cluster does not know it any more")
        elif status is not None and status.is_final:
            self._end(sub_job, *ending_of(status, output_of(self.job, sub_job)))

    def _end(self, sub_job: SubJob, ending: Ending, words: str) -> None:
        done = self.job.progress.done if self.job.progress is not None else None
        self.job = self.job.with_sub_job(replace(sub_job, ending=ending, reason=words, done_after=done))
        self.events.append(("ended", {"sub_job": sub_job.number, "ending": ending.value, "words": words}))

    def _decide(self) -> float:
        facts = facts_of(self.job, self.now, self.plane.wait_s(self.job))
        decision = self.plane.rules.decide(facts)
        if decision is None or decision.action is Action.WAIT:
            return self._next_visit_s(facts)
        if decision.action in ENDS:
            return self._finish(decision)
        if decision.action is Action.CANCEL_SUCCESSOR:
            self._cancel([each for each in self._live() if each.follows is not None])
            self._keep(decision)
            return 0.0
        sub_job = replace(next_sub_job(self.job, decision), tries=1, tried_at=self.now)
        self.job = self.job.with_sub_job(sub_job)
        if self._keep(decision):  # its key is known from now on, whatever happens
            return self._submit(sub_job)
        return 0.0

    def _finish(self, decision: Decision) -> float:
        self._cancel(self._live())
        self._keep(decision)
        self.job = replace(self.job, phase=ENDS[decision.action], reason=decision.reason)
        self.events.append(("finished", {"phase": self.job.phase.value, "reason": decision.reason}))
        return 0.0

    def _stop(self) -> float:
        """End a job that its owner wants ended: first all that is known to be on a cluster, then what may be."""
        for sub_job in self.job.sub_jobs:
            if sub_job.is_submitting and self._adopt(sub_job) is None and self._is_settled(sub_job):
                self._end(sub_job, Ending.CANCELLED, "it never reached the cluster")
        self._cancel(self._live())
        if self._live():
            return self.plane.pace.least_pause_s
        endings = [each.ending for each in self.job.sub_jobs if not each.is_cancelled_by_us]
        done = bool(endings) and endings[-1] is Ending.COMPLETED
        phase = Phase.COMPLETED if done else Phase.CANCELLED
        self.job = replace(
            self.job,
            phase=phase,
            reason="it was done before it could be stopped" if done else "stopped by its owner",
        )
        self.events.append(("finished", {"phase": phase.value, "reason": self.job.reason}))
        return 0.0

    def _finish_submitting(self) -> float:
        """Find out about submissions that somebody began, and make those that were not made."""
        for sub_job in [each for each in self.job.sub_jobs if each.is_submitting]:
            if self._adopt(sub_job) is None and self._is_settled(sub_job):
                again = replace(sub_job, tries=sub_job.tries + 1, tried_at=self.now)
                self.job = self.job.with_sub_job(again)
                return self._submit(again) if self._keep() else 0.0
        return self.plane.pace.retry_s

    def _adopt(self, sub_job: SubJob) -> str | None:
        """Take a job of the cluster with this key for ours; returns its id, None if there is none."""
        found = self._connector(sub_job).find(sub_job.key)
        if found is not None:
            self.job = self.job.with_sub_job(replace(sub_job, cluster_job_id=found))
            self.events.append(("found-again", {"sub_job": sub_job.number, "cluster_job_id": found}))
        return found

    def _is_settled(self, sub_job: SubJob) -> bool:
        """Whether a submission that was begun would be known by now if it had been made."""
        since = sub_job.tried_at
        return since is None or self.now - since >= timedelta(seconds=self.plane.pace.settle_s)

    def _submit(self, sub_job: SubJob) -> float:
        """Hand a job over; returns when to look again. Raises ConnectorError if nobody knows."""
        make_run_folder(self.job)
        try:
            found = self._connector(sub_job).submit(submission_of(self.job, sub_job))
        except (ClusterRefusedError, UsageError) as error:
            self._end(sub_job, Ending.REFUSED, error.problem)
            return 0.0
        self.job = self.job.with_sub_job(replace(sub_job, cluster_job_id=found))
        self.events.append(("submitted", {"sub_job": sub_job.number, "cluster_job_id": found}))
        return self.plane.pace.visit_s

    def _cancel(self, sub_jobs: list[SubJob]) -> None:
        by_cluster: dict[str, list[SubJob]] = {}
        for each in sub_jobs:
            if each.cluster_job_id is not None:
                by_cluster.setdefault(each.place.cluster, []).append(each)
        for cluster, group in by_cluster.items():
            self.plane.connectors[cluster].cancel([each.cluster_job_id for each in group if each.cluster_job_id])
            for each in group:
                self.job = self.job.with_sub_job(replace(each, is_cancelled_by_us=True))

    def _live(self) -> list[SubJob]:
        return [each for each in self.job.sub_jobs if each.ending is None]

    def _next_visit_s(self, facts: dict[str, object]) -> float:
        """Return when to look again: soon enough for the successor, else as often as progress is looked at."""
        submit_in_s = facts.get("submit_in_s")
        if isinstance(submit_in_s, float) and submit_in_s > 0:
            return min(self.plane.pace.visit_s, submit_in_s)
        return self.plane.pace.visit_s

    def _connector(self, sub_job: SubJob) -> Connector:
        try:
            return self.plane.connectors[sub_job.place.cluster]
        except KeyError:
            raise ClusterRefusedError(f"This plane knows no cluster {sub_job.place.cluster!r}") from None

    def _keep(self, decision: Decision | None = None, *, release_until: datetime | None = None) -> bool:
        kept = self.store.keep(
            self.claim, self.job, decision=decision, events=self.events, release_until=release_until
        )
        self.events = []
        return kept
