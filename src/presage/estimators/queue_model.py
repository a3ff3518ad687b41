"""The model of scheduler behaviour, told the past of a cluster and asked about a job that might be submitted.

Telling it takes seconds and is done once for a trace; an answer takes about a millisecond. So many places for one
job can be compared.
"""

from __future__ import annotations

import math
import threading
import weakref
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import PresageError
from presage.estimators._base import UnsupportedError

if TYPE_CHECKING:
    from presage.clusters.charges import Share
    from presage.estimators.workloads import ScriptWorkload, Target, TrainingWorkload
    from presage.foundation.forecasting import JobForecast
    from presage.foundation.live import LiveForecaster
    from presage.foundation.model import Model
    from presage.traces import Trace

TOLD_JOBS = 5_000
"""The last jobs that are told; of earlier ones only those that have not ended."""
CALIBRATING_JOBS = 400
"""The last of them, by which intervals are recalibrated."""
_SEPARATOR = "\x1f"
_KEPT = ("queue", "qos", "gpu_type_req", "group", "account")


@dataclass(frozen=True)
class NewJob:
    """A job that might be submitted now."""

    user: str
    share: Share
    limit_s: float | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    name: str = ""
    gpu_type: str = ""


class QueueModel:
    """What the model has seen of one cluster. Safe to ask from several threads."""

    def __init__(self, trace: Trace, model: Model) -> None:
        from presage.foundation.live import LiveForecaster
        from presage.foundation.view.jobs import history_of

        history = history_of(trace)
        self.jobs = trace.jobs
        self.notes = history.notes
        self.ended = int((history.end_s < float("inf")).sum())
        self.has_waits = history.has_waits
        self.version = model.version
        self._live = LiveForecaster(model, processors=history.size, gpus=history.gpus)
        self._lock = threading.Lock()
        self._has_partitions = trace.jobs["partition"].null_count() < len(trace)
        self._habits: dict[tuple[str, str], dict[str, str]] = {}
        _tell(self._live, trace, history)

    def forecast(self, job: NewJob) -> JobForecast:
        """Return what is expected of a job, submitted at the last instant that the trace knows of."""
        from presage.foundation.live import JobRequest

        known = self._like(job)
        # A job that names several may be told as one in the first; a log without partitions knows only that.
        partition = job.partition.partition(",")[0] if self._has_partitions else ""
        queue = (known["queue"], partition, job.qos or known["qos"], job.gpu_type or known["gpu_type_req"])
        memory = job.share.memory_bytes
        request = JobRequest(
            job_id="(asked)", user=job.user, cpus=float(job.share.nodes * job.share.cores),
            limit_s=job.limit_s, queue=_SEPARATOR.join(queue),
            group=_SEPARATOR.join((known["group"], job.account or known["account"])),
            program=_SEPARATOR, name=job.name, gpus=float(job.share.nodes * job.share.gpus),
            memory_bytes=None if memory is None else float(job.share.nodes * memory),
        )  # fmt: skip
        with self._lock:
            return self._live.forecast(request)

    def _earlier(self, user: str, partition: str) -> dict[str, str]:
        """Return what the user's last job there said and a new one may leave out; anybody's, if there is none."""
        there = (pl.col("partition") == partition).fill_null(value=False)
        own = (pl.col("user") == user).fill_null(value=False)
        for chosen in (there & own, own, there, pl.lit(value=True)):
            found = self.jobs.filter(chosen).tail(1)
            if len(found):
                row: dict[str, Any] = found.select(_KEPT).row(0, named=True)
                return {name: value or "" for name, value in row.items()}
        return dict.fromkeys(_KEPT, "")

    def _like(self, job: NewJob) -> dict[str, str]:
        key = (job.user, job.partition)
        known = self._habits.setdefault(key, self._habits.get(key) or self._earlier(*key))
        return known if job.share.gpus else {**known, "gpu_type_req": ""}


_TOLD: dict[int, tuple[weakref.ref[Trace], QueueModel]] = {}
_TELLING = threading.Lock()


def queue_model(trace: Trace) -> QueueModel:
    """Return the model that comes with Presage, told this trace; the same one for the same trace.

    Raises UnsupportedError where numba is not installed or the trace tells nothing.
    """
    from presage.foundation.requirements import require_numba

    with _TELLING:
        known = _TOLD.get(id(trace))
        if known is not None and known[0]() is trace:
            return known[1]
        try:
            require_numba()
            told = QueueModel(trace, _shipped_model())
        except PresageError as error:
            raise UnsupportedError(error.problem, remedy=error.remedy) from None
        _TOLD[id(trace)] = (weakref.ref(trace, partial(_forget, id(trace))), told)
        return told


def _forget(key: int, _gone: weakref.ref[Trace]) -> None:
    _TOLD.pop(key, None)


def new_job(workload: ScriptWorkload | TrainingWorkload, target: Target, *, user: str = "") -> NewJob:
    """Return the job that a workload would be at a target."""
    limit_s = target.walltime_s or getattr(workload, "walltime_s", None)
    return NewJob(
        user=getattr(workload, "user", "") or user,
        share=target.share,
        limit_s=limit_s if limit_s is not None and math.isfinite(limit_s) else None,
        partition=target.partition,
        account=getattr(workload, "account", ""),
        qos=getattr(workload, "qos", ""),
        name=workload.name,
    )


@lru_cache(maxsize=1)
def _shipped_model() -> Model:
    from presage.foundation.model import Model

    return Model.load()


def _tell(live: LiveForecaster, trace: Trace, history: Any) -> None:
    """Tell submits, starts and ends in the order of time."""
    import numpy as np

    count = len(history)
    told = np.flatnonzero((np.arange(count) >= count - TOLD_JOBS) | ~np.isfinite(history.end_s))
    requests = _requests(trace, set(np.array(history.job_ids, dtype=object)[told]))
    first_calibrating = count - CALIBRATING_JOBS
    events = [
        (float(when), order, int(index))
        for order, column in enumerate((history.facts["submit_s"], history.start_s, history.end_s))
        for index, when in zip(told, column[told], strict=True)
        if np.isfinite(when)
    ]
    origin_s = history.origin_ms / 1000
    for when, order, index in sorted(events):
        job_id = history.job_ids[index]
        if order == 0:
            live.submit(requests[job_id], origin_s + when, forecast=index >= first_calibrating)
        elif order == 1:
            live.start(job_id, origin_s + when)
        else:
            live.end(job_id, origin_s + when, _outcome(int(history.outcome[index])))


def _requests(trace: Trace, wanted: set[str]) -> dict[str, Any]:
    """Return the jobs as the model is told of them: the same words as where it reads a trace by itself."""
    from presage.foundation.live import JobRequest

    rows = trace.jobs.filter(pl.col("job_id").is_in(list(wanted))).select(
        "job_id",
        user=pl.col("user").fill_null(""),
        cpus=pl.coalesce(
            pl.col("cpus_req", "cpus_alloc", "nodes_req", "nodes_alloc", "tasks").cast(pl.Float64), 1.0
        ),
        limit_s=pl.when(pl.col("limit_s") > 0).then("limit_s"),
        queue=_joined("queue", "partition", "qos", "gpu_type_req"),
        group=_joined("group", "account"),
        program=_joined("executable", "kind"),
        name=pl.col("name").fill_null(""),
        gpus=pl.coalesce("gpus_req", "gpus_alloc", 0.0),
        memory_bytes=pl.col("mem_req_bytes").cast(pl.Float64),
    )
    return {row["job_id"]: JobRequest(**row) for row in rows.iter_rows(named=True)}


def _joined(*columns: str) -> pl.Expr:
    return pl.concat_str(pl.col(*columns).fill_null(""), separator=_SEPARATOR)


def _outcome(code: int) -> Any:
    from presage.foundation.view.jobs import OUTCOMES

    return OUTCOMES[code] if 0 <= code < len(OUTCOMES) else None
