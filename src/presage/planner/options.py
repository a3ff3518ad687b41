"""One way to do a job: a variant of it in one place, with what it takes, or why it cannot be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from presage.clusters.charges import HOUR_S, cost_of
from presage.clusters.systems import Scheduler
from presage.estimators._base import Basis, Estimate, Quantity, UnsupportedError
from presage.estimators.feasibility import Need, Reason, reasons_against
from presage.estimators.spread import Spread
from presage.estimators.workloads import Sharding, TrainingWorkload
from presage.planner.cascades import (
    MOST_JOBS,
    USUAL_OVERHEADS,
    Night,
    Overheads,
    Piece,
    Queueing,
    jobs_needed,
    longest_run,
    schedule,
    split,
)
from presage.planner.combining import combine, transform
from presage.units import spell_seconds
from presage.wording import counted

if TYPE_CHECKING:
    from datetime import datetime

    from presage.planner.estimates import Estimates, Workload
    from presage.planner.places import Placement

_GIB = float(1 << 30)
_MINUTE_S = 60.0
_ROUNDING = 1e-6
_Z90 = 1.2815515655446004


@dataclass(frozen=True)
class Assumptions:
    """What is taken for granted; all of it is said with the plans."""

    overheads: Overheads = USUAL_OVERHEADS
    confidence: float = 0.9
    """The quantile of memory that must fit, and of the run that jobs are asked for."""
    margin: float = 0.1
    """Share of the wall time that is asked for on top."""
    cascades: bool = True
    """Whether a run may be cut into jobs at all."""
    data_bytes: float = 0.0
    """What must be there before it can begin."""
    spot_interruptions_per_h: float = 0.05
    """How often nodes at spot prices are taken away."""
    checkpoint_every_s: float = 1800.0
    """What is lost when that happens is half of it, on average."""
    night: Night | None = None
    now: datetime | None = None


USUAL = Assumptions()


@dataclass(frozen=True)
class Variant:
    """One form of the job: a batch size, a precision."""

    workload: Workload
    label: str = ""

    def on(self, placement: Placement) -> Workload:
        """Return the workload as it would be there: a training is spread over all devices."""
        if not isinstance(self.workload, TrainingWorkload):
            return self.workload
        devices = placement.devices
        options = replace(self.workload.options, workers=devices)
        if devices > 1 and options.sharding is Sharding.NONE:
            options = replace(options, sharding=Sharding.DDP)
        return replace(self.workload, options=options)


@dataclass(frozen=True)
class Option:
    """One way; amounts are None where they are not known or do not matter any more."""

    variant: Variant
    placement: Placement
    assumptions: Assumptions
    memory: Estimate | None = None
    walltime: Estimate | None = None
    wait: Estimate | None = None
    reasons: tuple[Reason, ...] = ()
    """Why it cannot be; empty if it can."""
    notes: tuple[str, ...] = ()
    run: Spread | None = None
    """Wall time with what interruptions cost, where nodes may be taken away."""
    completion: Spread | None = None
    """From now to the end: data, wait, run and all that lies between jobs."""
    cost: Spread | None = None
    jobs: int = 1
    """That are planned for; fewer may do."""
    request_s: float | None = None
    """What each job asks for; the last of several may ask for less."""
    timeout_risk: float = 0.0
    oom_risk: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether it can be."""
        return not self.reasons

    @property
    def workload(self) -> Workload:
        """The job as it would be there."""
        return self.variant.on(self.placement)

    @property
    def currency(self) -> str:
        """In which it is paid."""
        return self.placement.charge.currency

    @property
    def label(self) -> str:
        """The variant and the place in a few words."""
        spot = ", spot" if self.placement.spot else ""
        return ", ".join(
            filter(None, (self.variant.label, f"{self.placement.name} ({self.placement.size}{spot})"))
        )

    @property
    def overheads(self) -> Overheads:
        """What leaving off and going on cost there; nothing where nobody ever leaves off."""
        costs = self.assumptions.overheads if self.assumptions.cascades else Overheads(0.0, 0.0, 0.0)
        return replace(costs, startup_s=self.placement.system.staging.startup_s)

    @property
    def limit_s(self) -> float | None:
        """How long one job may run there."""
        return self.placement.partition.limits.max_walltime_s

    @property
    def queueing(self) -> Queueing:
        """How its jobs get through the queue there."""
        submitted = self.placement.partition.limits.user_submitted_jobs
        return Queueing(self.transfer_s, overlaps=submitted is None or submitted > 1)

    @property
    def transfer_s(self) -> float:
        """How long the data take to get there."""
        bandwidth = self.placement.system.staging.bandwidth_bytes_s
        return self.assumptions.data_bytes / bandwidth if bandwidth else 0.0

    @property
    def transfer_cost(self) -> float:
        """What it costs to get the data there."""
        return self.assumptions.data_bytes / _GIB * self.placement.system.staging.price_per_gib

    @property
    def wait_s(self) -> Spread:
        """Its wait; none where it is not known."""
        return self.wait.spread if self.wait is not None else Spread.exactly(0.0)

    def pieces(self, run_s: float, *, restarted: bool = False) -> tuple[Piece, ...]:
        """Return the jobs of a run of that length there; of the longest that could be done, if it is longer."""
        possible_s = min(run_s, longest_run(self.limit_s, self.overheads, restarted=restarted))
        return split(possible_s, self.limit_s, self.overheads, restarted=restarted)

    def cost_of(self, elapsed_s: float) -> float:
        """Return what one job costs there that runs so long."""
        place = self.placement
        return cost_of(place.charge, place.share, place.node_type, elapsed_s, spot=place.spot)

    def as_dict(self) -> dict[str, Any]:
        """Return the option as it is told to machines."""
        place, share = self.placement, self.placement.share
        return {
            "variant": self.variant.label, "system": place.system.name, "partition": place.partition.name,
            "node_type": place.node_type.name, "nodes": share.nodes, "cores": share.cores, "gpus": share.gpus,
            "memory_bytes": share.memory_bytes, "spot": place.spot, "fits": self.fits,
            "reasons": [reason.as_dict() for reason in self.reasons], "notes": list(self.notes),
            "memory": _told(self.memory), "walltime": _told(self.walltime), "wait": _told(self.wait),
            "completion_s": self.completion.as_dict() if self.completion else None,
            "cost": self.cost.as_dict() if self.cost else None, "currency": self.currency, "jobs": self.jobs,
            "request_s": self.request_s, "timeout_risk": self.timeout_risk, "oom_risk": self.oom_risk,
        }  # fmt: skip


def assess(variant: Variant, placement: Placement, estimates: Estimates, assumptions: Assumptions) -> Option:
    """Return the option with all that can be known of it."""
    option = Option(variant, placement, assumptions)
    option = _with_memory(option, estimates)
    hindered = reasons_against(placement.system, placement.partition, placement.node_type, _need(option))
    if hindered:
        return replace(option, reasons=hindered)
    option = _with_run(option, estimates)
    if not option.fits or option.run is None:
        return option
    return _with_times(_with_wait(option, estimates), option.run)


def _with_memory(option: Option, estimates: Estimates) -> Option:
    place = option.placement
    if place.share.gpus and not place.node_type.gpus:
        return option  # which is reason enough, and no estimator should be asked about GPUs that are not there
    try:
        memory = estimates.memory(option.workload, place.target())
    except UnsupportedError as error:
        return replace(option, notes=(*option.notes, f"Memory is not known: {error.problem}"))
    share = place.share
    if not share.gpus and share.memory_bytes is None:
        share = replace(share, memory_bytes=_memory_to_ask_for(memory.spread, option))
    gpu = place.gpu if share.gpus else None
    available = gpu.memory_bytes if gpu is not None else share.memory_bytes if not share.gpus else None
    risk = memory.spread.chance_above(available) if available is not None else 0.0
    return replace(option, memory=memory, placement=replace(place, share=share), oom_risk=risk)


def _memory_to_ask_for(memory: Spread, option: Option) -> int:
    """Return what a job without GPUs asks for on a node: with the margin, as far as the node has it."""
    careful = memory.quantile(option.assumptions.confidence)
    place = option.placement
    most = min(
        place.node_type.memory_bytes, place.partition.limits.max_memory_bytes or place.node_type.memory_bytes
    )
    return math.ceil(max(careful, min(careful * (1 + option.assumptions.margin), most)))


def _need(option: Option) -> Need:
    careful = option.assumptions.confidence
    memory = option.memory.spread.quantile(careful) if option.memory is not None else None
    return Need(option.placement.share, memory)


def _with_run(option: Option, estimates: Estimates) -> Option:
    place = option.placement
    try:
        walltime = estimates.walltime(option.workload, place.target())
    except UnsupportedError as error:
        reason = Reason("unknown-walltime", f"its time there is not known: {error.problem}")
        return replace(option, reasons=(reason,))
    run = _with_interruptions(walltime.spread, option) if place.spot else walltime.spread
    careful_s = run.quantile(option.assumptions.confidence)
    jobs = jobs_needed(careful_s, option.limit_s, option.overheads)
    asked_s = _request(careful_s + option.overheads.startup_s, option)
    need = Need(place.share, None, careful_s + option.overheads.startup_s if jobs != 1 else asked_s, jobs)
    against = reasons_against(place.system, place.partition, place.node_type, need)
    if not option.assumptions.cascades:
        against = tuple(replace(reason, cascade_cures=False) for reason in against)
    option = replace(option, walltime=walltime, run=run)
    kept = tuple(_without_end(reason) for reason in against if not reason.cascade_cures)
    if kept or jobs is None:
        return replace(option, reasons=kept or (_no_time_to_save(careful_s, option),))
    notes = (*option.notes, *(reason.words for reason in against))
    capacity = _capacity(careful_s, jobs, asked_s, option)
    return replace(
        option, notes=notes, jobs=jobs, request_s=asked_s, timeout_risk=run.chance_above(capacity),
    )  # fmt: skip


def _no_time_to_save(run_s: float, option: Option) -> Reason:
    """Return why a run that is shorter than the limit cannot be done within it, nor in several jobs."""
    limit_s, costs = option.limit_s or 0.0, option.overheads
    run, save, limit = (spell_seconds(each) for each in (run_s, costs.reserve_s, limit_s))
    words = f"{run} and {save} to save > the {limit} limit, which is too short for going on from a checkpoint"
    return Reason("walltime", words, run_s + costs.reserve_s, limit_s)


def _without_end(reason: Reason) -> Reason:
    """Return the reason with the words for a run that no number of jobs can do."""
    if reason.code != "walltime" or "cascaded" in reason.words:
        return reason
    return replace(reason, words=f"{reason.words}, and no {MOST_JOBS} cascaded jobs would do it")


def _request(elapsed_s: float, option: Option) -> float:
    """Return the wall time to ask for: whole minutes, with a margin and the time of the warning, in the limits."""
    needed_s = max(elapsed_s * (1 + option.assumptions.margin), elapsed_s + option.overheads.reserve_s)
    minutes = needed_s / _MINUTE_S
    asked = math.ceil(minutes - _ROUNDING) * _MINUTE_S
    asked = max(asked, _MINUTE_S, option.placement.partition.limits.min_walltime_s or 0.0)
    return asked if option.limit_s is None else min(asked, option.limit_s)


def _capacity(careful_s: float, jobs: int, asked_s: float, option: Option) -> float:
    """Return the longest run that the planned jobs could do."""
    overheads = option.overheads
    if jobs == 1:
        return asked_s - overheads.startup_s - overheads.reserve_s
    *earlier, last = option.pieces(careful_s)
    last_s = _request(last.elapsed_s, option) - overheads.startup_s - overheads.restart_s - overheads.reserve_s
    return sum(piece.work_s for piece in earlier) + last_s


def last_request(piece: Piece, option: Option) -> float:
    """Return the wall time that the last job of a run asks for."""
    return _request(piece.elapsed_s, option)


def _with_interruptions(run: Spread, option: Option) -> Spread:
    """Return the run with what is lost whenever the nodes are taken away, at the stated rate."""
    assumed = option.assumptions
    loss_s = option.overheads.startup_s + option.overheads.restart_s + assumed.checkpoint_every_s / 2

    def slowed(run_s: float, deviations: float) -> float:
        expected = run_s / HOUR_S * assumed.spot_interruptions_per_h
        return run_s + max(0.0, expected + deviations * math.sqrt(expected)) * loss_s

    return Spread(slowed(run.p10, -_Z90), slowed(run.p50, 0.0), slowed(run.p90, _Z90))


def unknown_wait(*places: str) -> str:
    """Return what is said of queues that nobody knows."""
    if len(places) == 1:
        return f"The wait in {places[0]} is not known and counts as none"
    return f"The waits in {', '.join(places)} are not known and count as none"


def _with_wait(option: Option, estimates: Estimates) -> Option:
    place = option.placement
    try:
        wait = estimates.wait(option.workload, place.target(option.request_s))
    except UnsupportedError:
        if place.system.scheduler in (Scheduler.CLOUD, Scheduler.LOCAL):
            none = Estimate(Quantity.WAIT, Spread.exactly(0.0), Basis.STATED, "no-queue", "1")
            return replace(option, wait=none)  # nodes there start when they are asked for
        return replace(option, notes=(*option.notes, unknown_wait(place.name)))
    return replace(option, wait=wait)


def _with_times(option: Option, run: Spread, queueing: Queueing | None = None) -> Option:
    """Return the option with completion and cost."""
    queue = queueing or option.queueing

    def completed(run_s: float, wait_s: float, later_s: float) -> float:
        return schedule(option.pieces(run_s), wait_s, later_s, queue)[-1].end_s

    def paid(run_s: float) -> float:
        return option.transfer_cost + sum(option.cost_of(piece.elapsed_s) for piece in option.pieces(run_s))

    completion = combine(completed, run, option.wait_s, option.wait_s)
    return replace(option, completion=completion, cost=transform(paid, run))


def with_queueing(option: Option, queueing: Queueing) -> Option:
    """Return the option as it would be if its jobs got through the queue in another way."""
    return option if option.run is None else _with_times(option, option.run, queueing)


def describe_jobs(option: Option) -> str:
    """Return in words how many jobs it takes: `1 job`, `3 jobs of up to 1 h`."""
    if option.jobs == 1 or option.limit_s is None:
        return counted(option.jobs, "job")
    return f"{counted(option.jobs, 'job')} of up to {spell_seconds(option.limit_s)}"


def _told(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate.as_dict()
