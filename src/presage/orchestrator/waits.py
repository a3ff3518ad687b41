"""How long new jobs would wait at the places of the plane, by the estimators of waits, from what clusters tell.

A cluster is asked in the background, and rarely: an answer is kept for minutes and given to every job of the same
shape. A plane never waits long for one.
"""

from __future__ import annotations

import logging
import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from presage.connectors._base import EstimatesStarts, ReadsHistory
from presage.errors import PresageError
from presage.orchestrator.store import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from presage.connectors._base import Connector
    from presage.estimators._base import EstimateRequest
    from presage.orchestrator.jobs import ManagedJob, Place
    from presage.traces import Trace

log = logging.getLogger(__name__)

FRESH_S = 120.0
"""How long an answer is good for."""
HISTORY_FRESH_S = 900.0
HISTORY_DAYS = 7.0
PATIENCE_S = 5.0
"""How long a plane waits for the first answer about a place."""
_SHARE_WAITED = 0.5
"""Of the time in between, what many new shapes in a row may take: a plane has other jobs to look after."""
_MOST_KEPT = 1000

_PAUSE_S = 3.0
"""Between two questions on average, however many shapes there are."""
_WALLTIME_STEP = 1.5
"""Walltimes within this factor are asked about together."""

Shape = tuple[Any, ...]


@dataclass
class _Answer:
    future: Future[float | None]
    asked_s: float
    last: float | None = None
    """What was said before, which holds until there is something newer."""


class Waits:
    """Foretells waits. `own_history` gives the jobs that the plane had on a cluster that says nothing itself."""

    def __init__(
        self,
        connectors: Mapping[str, Connector],
        own_history: Callable[[str], Trace | None] = lambda _: None,
        *,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connectors = connectors
        self._own_history = own_history
        self._fresh_s = fresh_s
        self._clock = clock
        self._answers: dict[Shape, _Answer] = {}
        self._histories: dict[str, tuple[float, Trace | None]] = {}
        self._waited_s, self._waited_at_s = 0.0, clock()
        # One at a time: clusters are not to be pressed, and the model is told of a history once.
        self._asking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="waits")

    def __call__(self, job: ManagedJob, place: Place) -> float | None:
        """Return how long a new job would wait at a place; None if nobody can say, or not yet."""
        if place.cluster not in self._connectors:
            return None
        shape = _shape(job, place)
        known = self._answers.get(shape)
        if known is None:
            if len(self._answers) >= _MOST_KEPT:
                self._answers.pop(next(iter(self._answers)))
            known = self._answers[shape] = _Answer(self._ask(job, place), self._clock())
            # Only to choose among places is it worth waiting for.
            return self._first_result(known.future) if len(job.order.places) > 1 else _result(known.future, 0.0)
        if known.future.done():
            known.last = _result(known.future, 0.0)
            if self._clock() - known.asked_s > max(self._fresh_s, _PAUSE_S * len(self._answers)):
                known.future, known.asked_s = self._ask(job, place), self._clock()
        return known.last

    def _first_result(self, future: Future[float | None]) -> float | None:
        """Return an answer that is waited for: the shorter, the more time went into waiting of late."""
        began_s = self._clock()
        self._waited_s = max(0.0, self._waited_s - _SHARE_WAITED * (began_s - self._waited_at_s))
        result = _result(future, max(0.0, PATIENCE_S - self._waited_s))
        self._waited_at_s = self._clock()
        self._waited_s += self._waited_at_s - began_s
        return result

    def close(self) -> None:
        """Ask nobody any more."""
        self._asking.shutdown(wait=False, cancel_futures=True)

    def _ask(self, job: ManagedJob, place: Place) -> Future[float | None]:
        return self._asking.submit(self._estimate, _request(job, place))

    def _estimate(self, request: EstimateRequest) -> float | None:
        from presage.estimators._base import Knowledge
        from presage.estimators.wait.opinions import wait_opinions

        cluster = request.target.system if request.target is not None else ""
        connector = self._connectors[cluster]
        live = connector if isinstance(connector, EstimatesStarts) else None
        first = wait_opinions(request, Knowledge(history=self._history(cluster, connector), live=live)).first
        return None if first is None else first.spread.p50

    def _history(self, cluster: str, connector: Connector) -> Trace | None:
        known = self._histories.get(cluster)
        now_s = self._clock()
        if known is not None and now_s - known[0] < HISTORY_FRESH_S:
            return known[1]
        trace = None
        if isinstance(connector, ReadsHistory):
            try:
                trace = connector.history(utc_now() - timedelta(days=HISTORY_DAYS))
            except PresageError as error:
                log.info("The past of %s is not known: %s", cluster, error)
        if (trace is None or not len(trace)) and not isinstance(connector, EstimatesStarts):
            trace = self._own_history(cluster)  # of a queue of which we see our own jobs alone
        self._histories[cluster] = (now_s, trace)
        return trace


def _result(future: Future[float | None], patience_s: float) -> float | None:
    try:
        return future.result(patience_s)
    except TimeoutError:
        return None
    except Exception as error:  # noqa: BLE001  (an estimator may be somebody else's; a forecast is worth no job)
        log.warning("A wait cannot be foretold: %r", error)
        return None


def _shape(job: ManagedJob, place: Place) -> Shape:
    step = None if place.walltime_s is None else math.ceil(math.log(max(1.0, place.walltime_s), _WALLTIME_STEP))
    return (
        job.owner, job.order.account, job.order.qos, place.spot, place.nodes, place.cores, place.gpus,
        place.memory_bytes, step,
    )  # fmt: skip


def _request(job: ManagedJob, place: Place) -> EstimateRequest:
    from presage.clusters.charges import Share
    from presage.clusters.systems import NodeType
    from presage.estimators._base import EstimateRequest, Quantity
    from presage.estimators.workloads import ScriptWorkload, Target

    order, cores = job.order, place.cores or 1
    workload = ScriptWorkload(
        order.name, user=job.owner, account=order.account or "", qos=order.qos or "", name=order.name
    )
    node = NodeType("node", cores=cores, memory_bytes=place.memory_bytes or 1, gpus=place.gpus or 0)
    share = Share(place.nodes, cores, place.gpus or 0, place.memory_bytes)
    target = Target(place.cluster, place.partition or "", node, share, walltime_s=place.walltime_s)
    return EstimateRequest(Quantity.WAIT, workload, target)
