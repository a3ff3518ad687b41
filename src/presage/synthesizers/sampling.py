"""From drawn jobs to a trace: how many, the load, the machine, the mix of jobs, what came before, waits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import InputError, UnknownNameError, UsageError
from presage.synthesizers._base import Drawing, check_seed
from presage.synthesizers._files import KNOWN_JOBS
from presage.synthesizers._load import capacity_of, offered_load, resource_of
from presage.synthesizers._machine import Sizing, counted_in, sizing_of
from presage.synthesizers._spreading import can_spread, spread, stretches_of
from presage.synthesizers.columns import GAP, JobTable
from presage.synthesizers.history import History, history_of, identity_of
from presage.traces import Trace
from presage.traces.manifest import Machine, Manifest
from presage.traces.workloads._arrivals import WeeklyRhythm, stretch_to_span
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.synthesizers._base import Synthesizer
    from presage.synthesizers._load import Resource
    from presage.synthesizers.columns import FloatArray, IntArray

SIZE_CLASSES = {"serial": (0.0, 0.0), "narrow": (0.0, 0.05), "wide": (0.05, 0.25), "huge": (0.25, float("inf"))}
"""Classes of jobs by the share of the machine that they take, lower bound included; serial: one processor."""
CLASSES = (*SIZE_CLASSES, "gpu")
MOST_COPIES = 0.01
"""Which share of the jobs may be equal to one of the log, unless it is said otherwise."""
MOST_JOBS = 100_000_000
MOST_SIZE = 1_000_000_000
_SPARE = 1.15
_MOST_ROUNDS = 60
_FEWEST_FOR_MIX = 2000
_NO_SHARE = 1e-9
_TERMS = "as the owner of the log that it was learned from says"
NO_NAMES = "jobs are synthetic: users, groups and accounts are numbers"


@dataclass(frozen=True)
class Request:
    """What trace is wanted."""

    jobs: int | None = None
    days: float | None = None
    """Say one of the two; neither: as many jobs as were learned from."""
    load: float | None = None
    """Work of all jobs / (machine x time from first to last submit); None: as it comes."""
    processors: int | None = None
    """A machine of another size: sizes of jobs grow and shrink with it."""
    nodes: int | None = None
    """The same in nodes; for logs that count nodes alone, and for others instead of `processors`."""
    gpus: int | None = None
    """How many GPUs the machine has; jobs that use them grow and shrink with them."""
    mix: dict[str, float] = field(default_factory=dict)
    """Shares of classes of jobs (see `CLASSES`); those that are not named share the rest as in the log."""
    after: Trace | None = None
    """What came before: the trace begins where it ends, and users go on from what they did there."""
    start_ms: int | None = None
    """When the trace begins; None: when the log began, or where `after` ends."""
    waits: str | None = None
    """The policy under which the jobs are run on the machine to get waits, like `fcfs+easy`; None: no waits."""
    copies: float | None = None
    """Which share of the jobs may be equal to one of the log, in user, request, outcome and run time; only to such
    as many of the log are equal to. None: `MOST_COPIES` where the model knows the log's jobs."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.jobs is not None and self.days is not None:
            raise UsageError("Both a number of jobs and a number of days were given", expected="one of the two")
        _check_range("jobs", self.jobs, 1, MOST_JOBS)
        _check_range("days", self.days, 1e-3, 366_000)
        _check_range("load", self.load, 1e-3, 10.0)
        _check_range("copies", self.copies, 0.0, 1.0)
        for name in ("processors", "nodes", "gpus"):
            _check_range(name, getattr(self, name), 1, MOST_SIZE)
        _check_mix(self.mix)
        check_seed(self.seed)

    @property
    def most_copies(self) -> float:
        """Which share of the jobs may be equal to one of the log where that can be told."""
        return MOST_COPIES if self.copies is None else self.copies


def sample(
    model: Synthesizer, request: Request | None = None, *, progress: Callable[[int], None] | None = None
) -> Trace:
    """Return a synthetic trace; `progress` is told how many jobs were drawn since it was told before.

    Raises UsageError if the model cannot make such a trace, InputError if `after` cannot be gone on from.
    """
    request = request or Request()
    sizing = check_request(model, request)
    rng = np.random.default_rng(request.seed)
    start_ms = _start_ms(model, request)
    history = _history(model, request, start_ms)
    table = _draw_amount(model, request, sizing, start_ms, rng, Drawing(history.table, progress))
    jobs = sizing.resized(model.columns.decode(table))
    submit_ms = start_ms + np.rint(np.cumsum(table.numbers[GAP])).astype(np.int64) * 1000
    if request.load is not None:
        jobs, submit_ms = _about_at_load(submit_ms, jobs, model, sizing.machine, request.load, start_ms, rng)
    if model.known_jobs is not None:
        jobs = model.known_jobs.avoid(model.columns, jobs, request.most_copies, rng)
    if request.load is not None:
        span_ms = _span_ms(submit_ms, jobs, sizing.machine, request.load)
        submit_ms[-1] = max(submit_ms[0] + round(span_ms / 1000) * 1000, submit_ms[-2])
    jobs = jobs.select(
        pl.int_range(1, pl.len() + 1).cast(pl.String).alias("job_id"),
        pl.lit(pl.Series("submit_ms", submit_ms)),
        pl.all(),
    )
    copies = None if model.known_jobs is None else model.known_jobs.count(model.columns, jobs)
    notes = (*history.notes, *_notes_on_copies(model, request, len(jobs), copies))
    trace = Trace.create(jobs, _manifest(model, request, sizing.machine, copies, notes))
    return trace if request.waits is None else with_waits(trace, request.waits)


def check_request(model: Synthesizer, request: Request) -> Sizing:
    """Return the wanted machine and what jobs become there. Raises UsageError where the model cannot do that."""
    machine = model.source.machine
    sizing = sizing_of(
        model.columns, machine, processors=request.processors, nodes=request.nodes, gpus=request.gpus
    )
    if request.waits is not None and "processors" not in counted_in(model.columns):
        raise UsageError(
            "The jobs of this model have no processors, so they cannot be run on a machine",
            remedy="Leave --waits out",
        )
    if request.waits is not None and not sizing.machine.cpus:
        raise UsageError(
            "The size of the machine is unknown, so nothing can be run on it", remedy="Say --processors"
        )
    if request.copies is not None and model.known_jobs is None:
        raise UsageError(
            "This model cannot tell whether a job is a copy",
            expected=f"a `sequence` model that was trained without --dp-epsilon, with its {KNOWN_JOBS}",
            remedy="Leave --copies out",
        )
    return sizing


def with_waits(trace: Trace, policy: str) -> Trace:
    """Return the trace as its machine would have run it under `policy`: with waits, starts and ends."""
    from presage.simulator.simulation import simulate

    manifest = trace.manifest
    ran = simulate(trace, policy).trace
    return Trace.create(ran.jobs, replace(manifest, generator={**manifest.generator, "waits": policy}))


def _draw_amount(
    model: Synthesizer,
    request: Request,
    sizing: Sizing,
    start_ms: int,
    rng: np.random.Generator,
    drawing: Drawing,
) -> JobTable:
    """Return the jobs that are wanted, of the mix that is wanted."""
    source = model.source
    pace_s = max((source.last_ms - source.first_ms) / 1000 / max(source.jobs - 1, 1), 1e-3)
    count = request.jobs or source.jobs
    guess = count if request.days is None else int(request.days * 86_400 / pace_s * _SPARE) + 1
    if request.mix:
        guess = max(guess, _FEWEST_FOR_MIX)
    for _ in range(_MOST_ROUNDS):
        if guess > MOST_JOBS:
            break
        table = _mixed(model.draw(guess, start_ms, rng, drawing), model, request, rng)
        amounts, wanted = _amounts(table, model, request, sizing)
        if len(table) and amounts[-1] >= wanted:
            # A job that arrives when the time is up is late; one that makes the number or the load full is not.
            late = request.days is not None and request.load is None
            return _first(table, int(np.searchsorted(amounts, wanted)) + (not late), model, request)
        reached = float(amounts[-1]) / wanted if len(table) else 0.0
        guess = int(guess * min(8.0, _SPARE / max(reached, 0.01))) + 1
    raise UsageError(
        "No such trace can be drawn from this model",
        expected=f"at most {MOST_JOBS:,} jobs, and a mix that the log comes near to",
        remedy="Ask for fewer jobs, or for shares nearer to the log's",
    )


def _amounts(table: JobTable, model: Synthesizer, request: Request, sizing: Sizing) -> tuple[FloatArray, float]:
    """Return what the jobs up to each one make of what is wanted, and how much is wanted.

    That is jobs, or seconds, or where a load is wanted for some days, work.
    """
    if request.days is None:
        return np.arange(1.0, len(table) + 1), float(request.jobs or model.source.jobs)
    span_s = request.days * 86_400
    if request.load is None:
        return np.cumsum(table.numbers[GAP]), span_s
    jobs = sizing.resized(model.columns.decode(table))
    resource, capacity = _capacity(jobs, model, sizing.machine)
    work_s = jobs.select((pl.col(resource) * pl.col("run_s")).fill_null(0.0).cum_sum()).to_series()
    return work_s.to_numpy(), request.load * capacity * span_s


def _first(table: JobTable, count: int, model: Synthesizer, request: Request) -> JobTable:
    """Return the first `count` jobs; where a mix is wanted, about the first, so that its shares hold exactly."""
    if not count:
        raise UsageError("No job arrives within so short a time", remedy="Ask for more days, or for jobs")
    if not request.mix:
        return table.rows(slice(count))
    classes = class_of_jobs(model.columns.decode(table), model.source.machine)
    shares = _shares(classes, request.mix)
    quotas = dict(zip(shares, _split(count, list(shares.values())), strict=True))
    chosen = np.zeros(len(table), dtype=bool)
    for name, quota in quotas.items():
        chosen[np.flatnonzero(classes == name)[:quota]] = True
    # A class may be one short where shares make no whole numbers.
    chosen[np.flatnonzero(~chosen)[: count - int(chosen.sum())]] = True
    mixed = _thinned(table, np.flatnonzero(chosen))
    if request.days is None or request.load is not None:
        return mixed
    # The first of a rare class may have come after the time was up.
    return mixed.rows(np.cumsum(mixed.numbers[GAP]) < request.days * 86_400)


def _split(count: int, shares: list[float]) -> IntArray:
    """Return whole numbers that make `count` together and are as near to the shares as can be."""
    exact = count * np.array(shares) / sum(shares)
    parts: IntArray = np.floor(exact + 1e-9).astype(np.int64)
    parts[np.argsort(parts - exact, kind="stable")[: count - int(parts.sum())]] += 1
    return parts


def _mixed(table: JobTable, model: Synthesizer, request: Request, rng: np.random.Generator) -> JobTable:
    """Return the jobs less those of classes that have too many."""
    if not request.mix:
        return table
    classes = class_of_jobs(model.columns.decode(table), model.source.machine)
    shares = _shares(classes, request.mix)
    _check_drawn(classes, shares)
    total = min(float((classes == name).sum()) / share for name, share in shares.items())
    kept = [
        rng.choice(np.flatnonzero(classes == name), int(total * share + 1e-9), replace=False)
        for name, share in shares.items()
    ]
    return _thinned(table, np.sort(np.concatenate(kept)))


def _shares(classes: np.ndarray[Any, Any], mix: dict[str, float]) -> dict[str, float]:
    """Return the share that each class shall have, of those that shall have one."""
    counts = {name: int((classes == name).sum()) for name in CLASSES}
    rest = sum(count for name, count in counts.items() if name not in mix)
    left = max(1 - sum(mix.values()), 0.0)
    shares = {name: mix.get(name, left * count / max(rest, 1)) for name, count in counts.items()}
    return {name: share for name, share in shares.items() if share > _NO_SHARE}


def _check_drawn(classes: np.ndarray[Any, Any], shares: dict[str, float]) -> None:
    """Raise UsageError if a class that shall have a share has no jobs, or if there are none to fill the rest."""
    missing = [name for name in shares if not (classes == name).any()]
    if missing:
        raise UsageError(
            f"The model draws no {missing[0]} jobs",
            expected="shares of classes that the log has",
            remedy="Leave it out",
        )
    if sum(shares.values()) < 1 - _NO_SHARE:
        raise UsageError(
            f"The shares of the mix make {sum(shares.values()):g}, and the model draws no other jobs",
            expected="shares that make 1",
            remedy="Raise one of them",
        )


def _thinned(table: JobTable, places: IntArray) -> JobTable:
    """Return some of the jobs at the times when they came."""
    arrivals_s = np.cumsum(table.numbers[GAP])[places]
    thinned = table.rows(places)
    return JobTable(thinned.codes, {**thinned.numbers, GAP: np.diff(arrivals_s, prepend=0.0)})


def class_of_jobs(jobs: pl.DataFrame, machine: Machine) -> np.ndarray[Any, Any]:
    """Return the class of each job: `gpu`, or by its share of the machine's processors, or of its nodes."""
    column = next((name for name in ("cpus_req", "nodes_req") if _known(jobs, name)), None)
    size = np.ones(len(jobs)) if column is None else jobs[column].cast(pl.Float64).fill_null(1.0).to_numpy()
    whole = machine.nodes if column == "nodes_req" else machine.cpus
    share = size / (whole or float(size.max(initial=1.0)))
    classes = np.full(len(jobs), "narrow", dtype=object)
    for name, (low, high) in SIZE_CLASSES.items():
        classes[(share >= low) & (share < high)] = name
    classes[size <= 1] = "serial"
    if "gpus_req" in jobs.columns:
        classes[jobs["gpus_req"].fill_null(0.0).to_numpy() > 0] = "gpu"
    return classes


def _about_at_load(
    submit_ms: IntArray,
    jobs: pl.DataFrame,
    model: Synthesizer,
    machine: Machine,
    load: float,
    start_ms: int,
    rng: np.random.Generator,
) -> tuple[pl.DataFrame, IntArray]:
    """Return the jobs in the order in which they come, and when, so that they make about `load`.

    When the last one has to come for it, `_span_ms` tells. What a user does on a day stays together; a trace of
    hours is stretched, so that busy hours stay busy.
    """
    _capacity(jobs, model, machine)
    if len(jobs) < 2 or not offered_load(jobs, submit_ms, machine):
        raise UsageError("One job alone has no load", expected="at least two jobs with work")
    span_ms = _span_ms(submit_ms, jobs, machine, load)
    if can_spread(int(submit_ms[-1] - submit_ms[0]), span_ms):
        submit_ms = spread(submit_ms, stretches_of(jobs, submit_ms, model.source.time_zone), span_ms, rng)
        order = np.argsort(submit_ms, kind="stable")
        return jobs[order], submit_ms[order]
    rhythm = WeeklyRhythm(model.source.rhythm(), start_ms, model.source.time_zone or "UTC")
    points = rhythm.points_of((submit_ms - start_ms) / 1000)
    stretch_to_span(points, rhythm, span_ms / 1000)
    return jobs, np.rint(rhythm.times_s(points)).astype(np.int64) * 1000 + start_ms


def _span_ms(submit_ms: IntArray, jobs: pl.DataFrame, machine: Machine, load: float) -> float:
    """Return how long after the first job the last one has to come, so that all make `load`."""
    now = offered_load(jobs, submit_ms, machine) or 0.0
    return float(submit_ms[-1] - submit_ms[0]) * now / load


def _capacity(jobs: pl.DataFrame, model: Synthesizer, machine: Machine) -> tuple[Resource, float]:
    """Return the column that the load counts, and how much of it the machine has. Raises UsageError if unknown."""
    resource = resource_of(jobs, machine)
    if resource is None:
        options = [f"--{name}" for name in counted_in(model.columns)]
        raise UsageError(
            "The size of the machine is unknown, or that of its jobs, so there is no load",
            remedy=f"Say {' or '.join(options)}, or leave --load out" if options else "Leave --load out",
        )
    return resource, capacity_of(machine, resource)


def _known(jobs: pl.DataFrame, column: str) -> bool:
    return column in jobs.columns and jobs[column].null_count() < len(jobs)


def _start_ms(model: Synthesizer, request: Request) -> int:
    if request.start_ms is not None:
        return request.start_ms
    if request.after is None:
        return model.source.first_ms
    last = request.after.jobs["submit_ms"].max()
    if not isinstance(last, int):
        raise InputError("The trace to go on from has no submit times", expected="jobs with submit times")
    return last


def _history(model: Synthesizer, request: Request, start_ms: int) -> History:
    if request.after is None:
        return History(None)
    # Not the generator of the jobs: who is new among those before changes nothing else.
    return history_of(model, request.after, start_ms, np.random.default_rng((request.seed, 1)))


def _notes_on_copies(model: Synthesizer, request: Request, jobs: int, copies: int | None) -> tuple[str, ...]:
    """Return what people should know of jobs that may be equal to one of the log, beside how many are."""
    if copies is None:
        lacks = model.uses_history and model.record.get("privacy") is None
        return (f"without {KNOWN_JOBS} the model draws jobs of the log again",) if lacks else ()
    if copies <= request.most_copies * jobs:
        return ()
    return (f"{counted(copies, 'job')} of the log again: it has them with every run time that they may have",)


def _manifest(
    model: Synthesizer, request: Request, machine: Machine, copies: int | None, notes: tuple[str, ...]
) -> Manifest:
    source = model.source
    asked = {
        name: value
        for name, value in asdict(replace(request, after=None)).items()
        if value not in (None, {}) and name != "seed"
    }
    return Manifest(
        name=f"synthetic {source.name}".strip(),
        machine=machine,
        time_zone=source.time_zone,
        absolute_time=source.absolute_time,
        synthetic=True,
        generator={
            "synthesizer": model.name,
            "model": identity_of(model.columns),
            "seed": request.seed,
            "request": asked,
            "copies": copies,
            "settings": asdict(model.settings),
            "trained_on": source.name,
            "trained_jobs": source.jobs,
            "privacy": model.record.get("privacy"),
        },
        licence=_TERMS,
        notes=(NO_NAMES, *notes),
    )


def _check_range(name: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise UsageError(
            f"There is no trace of {name} {_written(value)}",
            expected=f"{name} from {_written(least)} to {_written(most)}",
        )


def _written(number: float) -> str:
    """Return a number as people write it: 100,000,000 and 0.001."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:g}"


def _check_mix(mix: dict[str, float]) -> None:
    for name, share in mix.items():
        if name not in CLASSES:
            raise UnknownNameError("class of jobs", name, CLASSES)
        if not 0 <= share <= 1:
            raise UsageError(f"There is no share of {share:g}", expected="a share from 0 to 1")
    if sum(mix.values()) > 1 + 1e-9:
        raise UsageError(f"The shares of the mix make {sum(mix.values()):g}", expected="at most 1 together")
