"""One look at one job: what happened is taken in, and what the rules say is done."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from presage.connectors._base import SignalsJobs
from presage.errors import ClusterBusyError, ClusterRefusedError, ConnectorError, OutputError, UsageError
from presage.orchestrator.actions import ENDS, Action, next_sub_job, place_there, successors, why_not
from presage.orchestrator.claims import Change
from presage.orchestrator.elastic import with_size
from presage.orchestrator.endings import ending_of
from presage.orchestrator.facts import facts_of
from presage.orchestrator.figures import FIGURES
from presage.orchestrator.holding import hold, let_go
from presage.orchestrator.jobs import Ending, Phase, SubJob
from presage.orchestrator.monitoring import read_progress
from presage.orchestrator.submissions import make_run_folder, output_of, submission_of
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from presage.connectors._base import Connector
    from presage.orchestrator.claims import Claim
    from presage.orchestrator.plane import Plane
    from presage.orchestrator.rules import Decision

log = logging.getLogger(__name__)

_NOT_BY_MOVING = (Ending.COMPLETED, Ending.OUT_OF_MEMORY, Ending.REFUSED)
"""Endings that a job has whether it was to be moved or not."""
_LEAVES_NOTHING = (Ending.COMPLETED, Ending.OUT_OF_MEMORY, Ending.FAILED)
"""Endings after which nobody goes on as if nothing had been: the rules decide what comes of it."""


class UnknownClusterError(ConnectorError):
    """This plane has no connector of that name; another may."""


class Visit:
    """A visit under a claim. What it did is written by whoever called, but for what must be known before."""

    def __init__(self, plane: Plane, claim: Claim) -> None:
        self.plane = plane
        self.claim = claim
        self.job = replace(claim.job, reason="")
        self.now = plane.now()
        self._kept = self.job
        self._decision: Decision | None = None
        self._events: list[tuple[str, dict[str, Any]]] = []

    def attend(self) -> Change:
        """Take in what happened, do what is to be done, and return what has become of the job.

        Raises OutputError if the database takes nothing.
        """
        try:
            self._take_in()
            until = self.now + timedelta(seconds=self._act())
        except UnknownClusterError as error:
            self.plane.leave(self.job.job_id)
            self._tell_trouble("cluster-unknown", error.problem)
            until = self.claim.due_at
        except ConnectorError as error:
            log.info("Job %s: %s", self.job.job_id, error)
            is_busy = isinstance(error, ClusterBusyError)
            self._tell_trouble("cluster-full" if is_busy else "cluster-silent", error.problem)
            until = self.now + timedelta(seconds=self.plane.pace.retry_s)
        except OutputError:
            raise  # the database is away, which is no fault of this job: the plane begins anew when it is back
        except Exception as error:
            log.exception("Job %s cannot be attended to", self.job.job_id)
            self.job, self._decision = self._kept, None
            self._tell_trouble("not-attended-to", f"the plane failed: {type(error).__name__}")
            until = self.now + timedelta(seconds=self.plane.pace.most_pause_s)
        return self._change(release_until=until)

    def _act(self) -> float:
        """Do what is to be done; returns in how many seconds to look again."""
        if self.job.phase is Phase.STOPPING:
            return self._stop()
        self._let_go()
        self._cancel_again()
        if any(each.is_submitting for each in self.job.sub_jobs):
            return self._finish_submitting()
        if any(each.moves_to is not None for each in self._live()):
            return self._press()
        return self._decide()

    def _tell_trouble(self, kind: str, words: str) -> None:
        """Say what keeps the job; once, however long it lasts."""
        if words != self.claim.job.reason:
            self._events.append((kind, {"words": words}))
        self.job = replace(self.job, reason=words)

    def _take_in(self) -> None:
        progress, told = read_progress(self.job, self.plane.messages(self.job))
        self.job = replace(self.job, progress=progress)
        self._events += told
        for sub_job in self.job.sub_jobs:
            if sub_job.ending is None and sub_job.cluster_job_id is not None:
                self._take_in_sub_job(sub_job, sub_job.cluster_job_id)

    def _take_in_sub_job(self, sub_job: SubJob, there: str) -> None:
        status = sub_job.status
        if status is not None and status.is_final:
            self._end(sub_job, *ending_of(status, output_of(self.job, sub_job)))
        elif sub_job.misses >= self.plane.pace.misses:
            with self._asking(sub_job.place.cluster) as connector:
                found = connector.find(sub_job.key)
                if found is None:  # and should it be there after all, it must not run beside its successor
                    connector.cancel([there])
            if found is None:
                self._end(sub_job, Ending.LOST, "the cluster does not know it any more")
            elif found != there:
                self.job = self.job.with_sub_job(replace(sub_job, cluster_job_id=found))

    def _end(self, sub_job: SubJob, ending: Ending, words: str) -> None:
        done = self.job.progress.done if self.job.progress is not None and self.job.progress.is_known else None
        if sub_job.moves_to is not None and ending not in _NOT_BY_MOVING:
            ending, words = Ending.MOVED, f"it was ended to go on at {sub_job.moves_to.title} ({words})"
        self.job = self.job.with_sub_job(replace(sub_job, ending=ending, reason=words, done_after=done))
        for heir in self._live():
            if not heir.is_running:  # what it finds done is what this one leaves
                self.job = self.job.with_sub_job(replace(heir, done_before=done))
        self._events.append(("ended", {"sub_job": sub_job.number, "ending": ending.value, "words": words}))

    def _decide(self) -> float:
        facts = facts_of(self.job, self.now, lambda place: self.plane.wait_s(self.job, place))
        facts["can_hold"] = facts["can_hold"] and self.plane.shares_files(self.job.order)
        decision = self._possible(self.plane.rules.decide(facts))
        if decision is None or decision.action is Action.WAIT:
            return self._next_visit_s(facts)
        if decision.action in ENDS:
            return self._finish(decision)
        if decision.action is Action.CANCEL_SUCCESSOR:
            return self._take_back(successors(self.job), decision)
        if decision.action is Action.CANCEL_RELIEF:
            return self._take_back([each for each in self._live() if each.takes_over is not None], decision)
        if decision.action in (Action.MOVE, Action.HAND_OVER):
            return self._move(decision)
        sub_job = next_sub_job(self.job, decision)
        return self._submit(sub_job, with_size(decision, self.job, sub_job))

    def _possible(self, decision: Decision | None) -> Decision | None:
        """Return what can be done of a decision: an operator's rules may ask for what cannot be."""
        problem = "" if decision is None else why_not(self.job, decision.action, decision.facts)
        if decision is None or not problem:
            return decision
        log.info("Job %s: %s by the rule %s: %s", self.job.job_id, decision.action, decision.rule, problem)
        if self._live():
            return None
        return replace(decision, action=Action.FAIL, reason=f"{decision.reason}; but {problem}")

    def _finish(self, decision: Decision) -> float:
        self._cancel(self._live())
        self._take(decision)
        self._become(ENDS[decision.action], decision.reason)
        return 0.0

    def _take(self, decision: Decision) -> None:
        self._decision = decision
        told = {"rule": decision.rule, "action": decision.action.value, "reason": decision.reason}
        self._events.append(("decided", told))

    def _become(self, phase: Phase, reason: str) -> None:
        for each in self.job.sub_jobs:
            if each.takes_over is not None:
                with suppress(OSError):  # a file that nobody looks for any more
                    let_go(self.job, each.number)
        self.job = replace(self.job, phase=phase, reason=reason)
        self._events.append(("finished", {"phase": phase.value, "reason": reason}))

    def _stop(self) -> float:
        """End a job that its owner wants ended: first all that is known to be on a cluster, then what may be."""
        self._cancel(self._live())
        for sub_job in self.job.sub_jobs:
            if sub_job.is_submitting and self._adopt(sub_job) is None and self._is_settled(sub_job):
                self._end(sub_job, Ending.CANCELLED, "it never reached the cluster")
        self._cancel([each for each in self._live() if not each.is_cancelled_by_us])
        if self._live():
            return self.plane.pace.retry_s  # and sooner if the cluster says that it has ended
        endings = [each.ending for each in self.job.sub_jobs]
        if Ending.COMPLETED in endings:
            self._become(Phase.COMPLETED, "it was done before it could be stopped")
        else:
            self._become(Phase.CANCELLED, "stopped by its owner")
        return 0.0

    def _finish_submitting(self) -> float:
        """Find out about submissions that somebody began, and make those that were not made."""
        is_open = False
        for sub_job in [each for each in self.job.sub_jobs if each.is_submitting]:
            # One that the cluster had no room for was not made, and need not be looked for.
            if sub_job.tried_at is not None and self._adopt(sub_job) is not None:
                continue
            if not self._is_settled(sub_job):
                is_open = True
            elif self._is_late(sub_job):
                late = replace(sub_job, is_cancelled_by_us=True)
                self._end(late, Ending.CANCELLED, "it never reached the cluster and comes too late now")
            else:
                return self._submit(sub_job)
        return self.plane.pace.retry_s if is_open else 0.0

    def _adopt(self, sub_job: SubJob) -> str | None:
        """Take a job of the cluster with this key for ours; returns its id, None if there is none."""
        with self._asking(sub_job.place.cluster) as connector:
            found = connector.find(sub_job.key)
        if found is not None:
            self.job = self.job.with_sub_job(replace(sub_job, cluster_job_id=found))
            self._events.append(("found-again", {"sub_job": sub_job.number, "cluster_job_id": found}))
        return found

    def _is_settled(self, sub_job: SubJob) -> bool:
        """Whether a submission that was begun would be known by now if it had been made."""
        since = sub_job.tried_at
        return since is None or self.now - since >= timedelta(seconds=self.plane.pace.settle_s)

    def _is_late(self, sub_job: SubJob) -> bool:
        """Whether the job that it should be beside has ended or needs it no more: the rules decide anew."""
        if sub_job.takes_over is not None and self.job.sub_job(sub_job.takes_over).ending is not None:
            return True
        if any(each.takes_over == sub_job.number and each.is_running for each in self._live()):
            return True
        before = [each for each in self.job.sub_jobs if each.cluster_job_id == sub_job.follows]
        return sub_job.follows is not None and any(each.ending is not None for each in before)

    def _submit(self, sub_job: SubJob, decision: Decision | None = None) -> float:
        """Hand a job over; returns when to look again. Raises ConnectorError if nobody knows."""
        began = self.plane.now()
        self.plane.check_room(sub_job.place.cluster)
        with self._asking(sub_job.place.cluster) as connector:
            before, events = self.job, list(self._events)
            if decision is not None:
                self._take(decision)
                if decision.action is Action.JOIN and sub_job.takes_over is None:
                    (waiting,) = self._live()
                    self.job = self.job.with_sub_job(replace(waiting, takes_over=sub_job.number))
            sub_job = replace(sub_job, tries=sub_job.tries + 1, tried_at=began)
            self.job = self.job.with_sub_job(sub_job)
            if not self._keep():  # its key is known from now on, whatever happens
                self.job, self._events, self._decision = before, events, None
                return 0.0
            if self.plane.now() - began > timedelta(seconds=self.plane.pace.lease_s / 2):
                return self.plane.pace.retry_s  # held up for so long that others may have begun to submit it
            make_run_folder(self.job)
            obstacle = self._obstacle(sub_job)
            if obstacle:
                self._end(replace(sub_job, is_cancelled_by_us=True), Ending.CANCELLED, obstacle)
                return 0.0
            try:
                found = connector.submit(submission_of(self.job, sub_job))
            except (ClusterRefusedError, UsageError) as error:
                FIGURES.add("refusals", sub_job.place.cluster)
                self._end(sub_job, Ending.REFUSED, error.problem)
                return 0.0
            except ClusterBusyError:  # which says that it was not made: there is nothing to settle
                self.job = self.job.with_sub_job(replace(sub_job, tried_at=None))
                raise
            FIGURES.add("submissions", sub_job.place.cluster)
        self.plane.had_room(sub_job.place.cluster)
        self.job = self.job.with_sub_job(replace(sub_job, cluster_job_id=found))
        self._events.append(("submitted", {"sub_job": sub_job.number, "cluster_job_id": found}))
        return self.plane.pace.idle_s

    def _obstacle(self, sub_job: SubJob) -> str:
        """Return why a job must not be submitted beside the one that is there; empty if it may.

        Of two, the one that takes over is kept from working before either could meet the other.
        """
        pairs = [each for each in (*self._live(), sub_job) if each.takes_over is not None]
        holder = next((each for each in pairs if sub_job.number in (each.number, each.takes_over)), None)
        if holder is None or self.job.sub_job(holder.takes_over).ending is not None:
            if self.job.order.run_folder is not None:
                with suppress(OSError):  # another run in the same folder may have left a file that would hold it
                    let_go(self.job, sub_job.number)
            return ""
        try:
            hold(self.job, holder.number)
        except OSError as error:
            return f"the one that takes over cannot be told to hold: {error.strerror or error}"
        if holder.number == sub_job.number or self._waits(holder):
            return ""
        return "the one that it should have worked for has started"

    def _waits(self, sub_job: SubJob) -> bool:
        there = sub_job.cluster_job_id or ""
        with self._asking(sub_job.place.cluster) as connector:
            status = connector.statuses([there]).get(there)
        return status is not None and status.state is Outcome.PENDING

    def _let_go(self) -> None:
        """Let those work that were held back until another had ended, unless it left them nothing to do."""
        for each in self._live():
            other = None if each.takes_over is None else self.job.sub_job(each.takes_over)
            if other is None or other.ending is None or each.is_submitting:
                continue
            is_somebodys_will = other.ending is Ending.CANCELLED and not other.is_cancelled_by_us
            if other.ending not in _LEAVES_NOTHING and not is_somebodys_will:
                let_go(self.job, each.number)
                done = self.job.progress.done if self.job.progress is not None else None
                self.job = self.job.with_sub_job(replace(each, takes_over=None, done_before=done))
                self._events.append(("works-now", {"sub_job": each.number, "place": each.place.title}))

    def _move(self, decision: Decision) -> float:
        """End a job so that its work goes on elsewhere; that this is why it ends is written down before."""
        live = self._live()
        relief = next((each for each in live if each.takes_over is not None), None)
        if relief is None:
            going, there = live[0], place_there(self.job, live[0].place, decision)
        else:
            going, there = self.job.sub_job(relief.takes_over), relief.place
        before, events = self.job, list(self._events)
        self._take(decision)
        going = replace(going, moves_to=there)
        self.job = self.job.with_sub_job(going)
        if not self._keep():
            self.job, self._events, self._decision = before, events, None
            return 0.0
        self._tell_to_end(going)
        return self.plane.pace.retry_s

    def _tell_to_end(self, sub_job: SubJob) -> None:
        """Have a job save and end; only when it was told does the time begin that it has for this."""
        with self._asking(sub_job.place.cluster) as connector:
            ids = [sub_job.cluster_job_id or ""]
            if sub_job.is_running and self.job.order.is_resumable and isinstance(connector, SignalsJobs):
                connector.signal(ids, "USR1")
            else:
                connector.cancel(ids)
        self.job = self.job.with_sub_job(replace(sub_job, moves_since=self.now))

    def _press(self) -> float:
        """Cancel what was told to save and end, and has not in the time that it has for this."""
        patience = timedelta(seconds=self.job.order.signal_before_s)
        for each in self._live():
            if each.moves_to is None or each.cluster_job_id is None:
                continue
            if each.moves_since is None:  # who wrote that it moves could not tell it
                self._tell_to_end(each)
            elif not each.is_running or self.now - each.moves_since > patience:
                with self._asking(each.place.cluster) as connector:
                    connector.cancel([each.cluster_job_id])
        return self.plane.pace.retry_s

    def _take_back(self, sub_jobs: list[SubJob], decision: Decision) -> float:
        """Cancel jobs while others go on; that it is we who do is written down before: it is nobody's will."""
        before, events = self.job, list(self._events)
        self._take(decision)
        for each in sub_jobs:
            self.job = self.job.with_sub_job(replace(each, is_cancelled_by_us=True))
        if not self._keep():
            self.job, self._events, self._decision = before, events, None
            return 0.0
        self._cancel(sub_jobs)
        return self.plane.pace.retry_s

    def _cancel_again(self) -> None:
        """Cancel what should have been and is there all the same: who wrote it down may not have come to do it."""
        with suppress(ConnectorError):  # the other jobs go on
            self._cancel([each for each in self._live() if each.is_cancelled_by_us])

    def _cancel(self, sub_jobs: list[SubJob]) -> None:
        by_cluster: dict[str, list[SubJob]] = {}
        for each in sub_jobs:
            if each.cluster_job_id is not None:
                by_cluster.setdefault(each.place.cluster, []).append(each)
        for cluster, group in by_cluster.items():
            with self._asking(cluster) as connector:
                connector.cancel([each.cluster_job_id for each in group if each.cluster_job_id])
            for each in group:
                self.job = self.job.with_sub_job(replace(each, is_cancelled_by_us=True))

    def _live(self) -> list[SubJob]:
        return [each for each in self.job.sub_jobs if each.ending is None]

    def _next_visit_s(self, facts: dict[str, Any]) -> float:
        """Return when to look again: in time for the successor, as often as there is progress, or hardly ever."""
        if facts.get("waiting") and facts["other_places"]:
            return self.plane.pace.assess_s
        if not facts.get("running") or not facts["resumable"]:
            return self.plane.pace.idle_s
        submit_in_s = facts.get("submit_in_s")
        if submit_in_s is not None and submit_in_s > 0:
            return min(self.plane.pace.visit_s, float(submit_in_s))
        return self.plane.pace.visit_s

    @contextmanager
    def _asking(self, cluster: str) -> Iterator[Connector]:
        """Give a connector, and remember if it does not answer."""
        connector = self.plane.connector(cluster)
        try:
            yield connector
        except ConnectorError as error:
            self.plane.heard(cluster, error)
            raise

    def _keep(self) -> bool:
        """Write down what is about to be done; False if that is not ours to do any more."""
        change = replace(self._change(), unless_stopped=True)
        (kept,) = self.plane.store.keep([change], self.plane.soon_s)
        if kept:
            self._events, self._decision, self._kept = [], None, self.job
        return kept

    def _change(self, release_until: datetime | None = None) -> Change:
        return Change(self.claim, self.job, self._decision, tuple(self._events), release_until)
