"""The plane: asks clusters about their jobs, all at once, and does with each managed job what the rules say.

Nothing outside happens within a transaction. Before a job is submitted, its key is in the database; after a crash
in between, the plane finds the job by its key instead of submitting it again. Any number of planes share a
database; each may be killed at any time. Their clocks must agree to within a minute or so.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from presage.client.callbacks import TOKEN_VARIABLE
from presage.connectors._base import KeepsMessages, SharesFiles
from presage.errors import (
    ClusterBusyError,
    ClusterRefusedError,
    ClusterUnreachableError,
    ConnectorError,
    PresageError,
)
from presage.orchestrator.figures import FIGURES
from presage.orchestrator.listening import Listening
from presage.orchestrator.rules import Rules, load_rules
from presage.orchestrator.store import Store, utc_now
from presage.orchestrator.visits import UnknownClusterError, Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from threading import Event as Flag

    from presage.connectors._base import Connector
    from presage.orchestrator.claims import Change, Claim
    from presage.orchestrator.jobs import ManagedJob, Order, Place

log = logging.getLogger(__name__)

_CLAIMS = 50
_MOST_LEFT = 5000
_MOST_UNWRITTEN_S = 1.0
_PAUSE_PER_POLL = 10


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
    assess_s: float = 120.0
    """Between two looks at a waiting job that might do better elsewhere."""
    idle_s: float = 600.0
    """Between two looks at a job of which nothing is expected; what its cluster says wakes it at once."""
    retry_s: float = 10.0
    """Until a cluster that did not answer is asked again."""
    settle_s: float = 120.0
    """Until a submission without an answer that the cluster does not know is taken not to have been made."""
    misses: int = 3
    """How often in a row a cluster must not know a job before it is lost."""


class Plane:
    """One worker. `connectors` by the names that places use; `waits` foretells those of new jobs at places."""

    def __init__(
        self,
        store: Store,
        connectors: Mapping[str, Connector],
        *,
        name: str = "plane",
        rules: Rules | None = None,
        pace: Pace | None = None,
        waits: Callable[[ManagedJob, Place], float | None] = lambda *_: None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.store = store
        self.connectors = connectors
        self.name = name
        self.rules = rules or load_rules()
        self.pace = pace or Pace()
        self.now = now
        self._waits = waits
        self._silent: dict[str, _Pause] = {}
        self._full: dict[str, _Pause] = {}
        self._left: dict[str, datetime] = {}
        self._poll_s: dict[str, float] = {}
        self._listening = Listening(store)

    def run(self, stop: Flag, pause_s: float = 1.0) -> None:
        """Work until told to stop. What this plane held when it died the last time is taken up again."""
        is_fresh = True
        while not stop.is_set():
            try:
                if is_fresh:
                    self.store.release_claims_of(self.name)
                is_fresh, busy = False, self.step(stop)
            except Exception as error:  # nothing may end the plane: the next step may well succeed
                is_known = isinstance(error, PresageError)
                log.warning("The plane could not work: %s", error, exc_info=None if is_known else error)
                is_fresh, busy = True, 0
            if not busy:
                stop.wait(pause_s)
        try:
            self.store.release_claims_of(self.name)
        except PresageError as error:
            log.warning("The plane could not give back its jobs, which others take up later: %s", error)

    def step(self, stop: Flag | None = None) -> int:
        """Ask the clusters that are due, then attend to the jobs that are; returns how many these were."""
        for cluster in self.connectors:
            self._poll(cluster)
        now = self.now()
        self._left = {job_id: until for job_id, until in self._left.items() if until > now}
        claims = self.store.claim_jobs(self.name, self.pace.lease_s, _CLAIMS, tuple(self._left)[:_MOST_LEFT])
        changes: list[Change] = []
        began = self.now()
        for claim in claims:
            if stop is not None and stop.is_set():
                break
            held = self._held(claim)
            if held is None:
                continue
            changes.append(Visit(self, held).attend())
            # What only this process knows, like the id of a new job, is written down soon; not each by itself.
            if self.now() - began >= timedelta(seconds=_MOST_UNWRITTEN_S):
                self._keep(changes)
                began = self.now()
        self._keep(changes)
        return len(claims)

    def connector(self, cluster: str) -> Connector:
        """Return a cluster. Raises ConnectorError if it is not known here or did not answer a moment ago."""
        found = self.connectors.get(cluster)
        if found is None:
            raise UnknownClusterError(f"No plane that looked at it knows the cluster {cluster!r}")
        silence = self._silent.get(cluster)
        if silence is not None and self.now() < silence.until:
            raise ClusterUnreachableError(silence.words)
        return found

    def heard(self, cluster: str, error: ConnectorError | None) -> float:
        """Remember that a cluster answered, or did not; returns for how long it is left alone then."""
        if error is None:
            self._silent.pop(cluster, None)
            return 0.0
        if isinstance(error, ClusterBusyError):
            self._full[cluster] = self._longer(self._full.get(cluster), error)
        if isinstance(error, ClusterRefusedError | ClusterBusyError):
            return self.pace.retry_s
        pause = self._silent[cluster] = self._longer(self._silent.get(cluster), error)
        return (pause.until - self.now()).total_seconds()

    def _longer(self, before: _Pause | None, error: ConnectorError) -> _Pause:
        """Return for how long a cluster is left alone now: twice as long as before, if that is over."""
        now = self.now()
        if before is not None and now < before.until:
            return before
        pause_s = max(self.pace.retry_s, 2 * before.pause_s if before else 0.0)
        pause_s = min(pause_s, max(self.pace.retry_s, self.pace.most_pause_s))
        return _Pause(now + timedelta(seconds=pause_s), pause_s, error.problem)

    def check_room(self, cluster: str) -> None:
        """Raise ClusterBusyError if the cluster had no room for a job a moment ago: one tries on behalf of all."""
        full = self._full.get(cluster)
        if full is not None and self.now() < full.until:
            raise ClusterBusyError(full.words)

    def had_room(self, cluster: str) -> None:
        """Remember that a cluster took a job."""
        self._full.pop(cluster, None)

    def shares_files(self, order: Order) -> bool:
        """Return whether jobs at all places of an order see the files of this machine."""
        return all(isinstance(self.connectors.get(each.cluster), SharesFiles) for each in order.places)

    def leave(self, job_id: str) -> None:
        """Leave a job to other planes for a while."""
        self._left[job_id] = self.now() + timedelta(seconds=self.pace.most_pause_s)

    @property
    def soon_s(self) -> float:
        """When to ask a cluster again where something happens: asking must not take all the time there is."""
        return max(self.pace.least_pause_s, _PAUSE_PER_POLL * max(self._poll_s.values(), default=0.0))

    def wait_s(self, job: ManagedJob, place: Place) -> float | None:
        """Return how long a new job would wait at a place; None if nobody can say."""
        try:
            wait_s = self._waits(job, place)
            return None if wait_s is None or not math.isfinite(wait_s) else max(0.0, float(wait_s))
        except Exception as error:  # noqa: BLE001  (a forecast is never worth a job)
            log.warning("Job %s: its wait cannot be foretold: %r", job.job_id, error)
            return None

    def messages(self, job: ManagedJob) -> list[tuple[int, dict[str, Any]]]:
        """Return what a job told over the network since it was read last, numbered, in order."""
        clusters = {sub_job.place.cluster for sub_job in job.sub_jobs if sub_job.ending is None}
        told = any(isinstance(self.connectors.get(each), KeepsMessages) for each in clusters)
        # Any other cannot have told anything.
        return self.store.messages(job) if told or TOKEN_VARIABLE in job.order.environment else []

    def _held(self, claim: Claim) -> Claim | None:
        """Return a claim that lasts for a visit, None if it is gone because visits before it took their time."""
        enough = timedelta(seconds=self.pace.lease_s / 2)
        return claim if claim.until - self.now() > enough else self.store.renew(claim, self.pace.lease_s)

    def _keep(self, changes: list[Change]) -> None:
        if changes:
            self.store.keep(changes, self.soon_s)
            changes.clear()

    def _poll(self, cluster: str) -> None:
        token = self.store.claim_cluster(cluster, self.name, self.pace.lease_s)
        if token is None:
            return
        began_s = time.monotonic()
        asked = self.store.live_on(cluster)
        try:
            statuses = self.connectors[cluster].statuses(asked) if asked else {}
        except ConnectorError as error:
            log.warning("%s did not answer: %s", cluster, error)
            FIGURES.add("poll_failures", cluster)
            self.heard(cluster, error)
            self.store.postpone_cluster(cluster, token, (self.pace.retry_s, self.pace.most_pause_s))
            return
        except Exception:
            log.exception("%s cannot be asked", cluster)
            FIGURES.add("poll_failures", cluster)
            self.store.postpone_cluster(cluster, token, (self.pace.retry_s, self.pace.most_pause_s))
            return
        if asked:
            self.heard(cluster, None)
            self._listening.listen(cluster, self.connectors[cluster], statuses)
        pauses_s = (self.soon_s, max(self.soon_s, self.pace.most_pause_s))
        self.store.record_statuses(
            cluster, token, asked, statuses, pauses_s=pauses_s, misses=max(1, self.pace.misses)
        )
        self._poll_s[cluster] = time.monotonic() - began_s
        if asked:
            FIGURES.add("polls", cluster)
            FIGURES.add("poll_seconds", cluster, self._poll_s[cluster])


@dataclass(frozen=True)
class _Pause:
    until: datetime
    pause_s: float
    words: str
