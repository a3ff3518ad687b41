"""A plan: the jobs that a strategy comes to, one after the other, and what they add up to. It travels as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from presage.clusters.charges import Share
from presage.clusters.systems import Scheduler
from presage.errors import InputError, UnreadableSourceError
from presage.estimators.spread import Spread
from presage.estimators.workloads import ScriptWorkload, TrainingWorkload

if TYPE_CHECKING:
    from pathlib import Path

PLAN_VERSION = 1
_MOST_BYTES = 16 << 20


class Strategy(StrEnum):
    """How a plan was made."""

    BEST = "best-configuration"
    """The nodes on which it runs shortest, however long they take to come."""
    AVAILABILITY = "by-availability"
    """The soonest end: start on what is free, move when better nodes come."""
    HOPS = "short-hops"
    """Short jobs through development queues."""
    OPTION = "option"
    """One way that somebody picked."""


STRATEGIES = (Strategy.BEST, Strategy.AVAILABILITY, Strategy.HOPS)
"""Those that are always compared."""


@dataclass(frozen=True)
class Leg:
    """One job of a plan. Times are seconds from when the plan was made, if all takes as long as is planned for."""

    number: int
    system: str
    scheduler: Scheduler
    partition: str
    node_type: str
    share: Share
    workload: TrainingWorkload | ScriptWorkload
    """As it is in this leg: the devices it is spread over may differ."""
    walltime_s: float
    """What the job asks for."""
    work_s: float
    """Of the run itself; the rest goes to startup, restart and save."""
    work_share: float
    """Of the whole job, from 0 to 1."""
    submit_s: float
    start_s: float
    end_s: float
    chance: float = 1.0
    """That it is needed at all."""
    restarts: bool = False
    """It goes on from the checkpoint of the leg before."""
    saves: bool = False
    """It leaves a checkpoint to the leg behind."""
    after: int | None = None
    """The leg that must have ended before it starts."""
    takes_over: int | None = None
    """The leg that is told to save and stop when this one starts."""
    spot: bool = False
    constraint: str = ""
    """Features that tell its nodes from others of the partition, as Slurm has them."""

    @property
    def place(self) -> str:
        """`system/partition`."""
        return f"{self.system}/{self.partition}"


@dataclass(frozen=True)
class Plan:
    """What to submit, and what to expect of it."""

    strategy: Strategy
    name: str
    workload: TrainingWorkload | ScriptWorkload
    legs: tuple[Leg, ...]
    wait: Spread
    """Until the first leg starts."""
    run: Spread
    """Wall time that is worked, without waits and overheads."""
    completion: Spread
    """Until the last leg ends."""
    cost: Spread
    currency: str
    timeout_risk: float = 0.0
    """Chance that the legs do not suffice."""
    oom_risk: float = 0.0
    """Chance that a leg runs out of memory."""
    warning_s: float = 120.0
    """How long before its limit a job is told to save."""
    variant: str = ""
    summary: str = ""
    """What it does, in a sentence."""
    trade_off: str = ""
    """What it gains and loses, in words."""
    notes: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """What the jobs execute, where somebody said so."""
    predictions: tuple[dict[str, Any], ...] = ()
    """What was asked about it and answered, to be settled when it has ended; none for a plan that moves."""
    version: int = PLAN_VERSION

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON has it."""
        return asdict(self)

    def as_json(self) -> str:
        """Return the plan as the text of a file."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_PLAN = TypeAdapter(Plan)


def parse_plan(document: Any) -> Plan:
    """Return the plan in a JSON document. Raises InputError saying what is wrong with it."""
    if isinstance(document, dict) and document.get("version", PLAN_VERSION) != PLAN_VERSION:
        raise InputError(
            f"The plan has the version {document['version']!r}",
            expected=f"version {PLAN_VERSION}",
            remedy="Make it anew with `presage plan`",
        )
    try:
        plan = _PLAN.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _unusable(f"{place}: {first['msg']}" if place else first["msg"]) from None
    _check(plan)
    return plan


def read_plan(path: Path) -> Plan:
    """Return the plan in a file. Raises UnreadableSourceError, InputError."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UnreadableSourceError(f"{str(path)!r} is too large for a plan")
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableSourceError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UnreadableSourceError(
            f"{str(path)!r} is not JSON", expected="a plan that `presage plan --write` made"
        ) from None
    return parse_plan(document)


def _check(plan: Plan) -> None:
    """Raise InputError unless the legs make a whole that can be run."""
    if not plan.legs:
        raise _unusable("it has no legs")
    if [leg.number for leg in plan.legs] != list(range(1, len(plan.legs) + 1)):
        raise _unusable("its legs are not numbered 1, 2, 3…")
    for leg in plan.legs:
        times = (leg.walltime_s, leg.work_s, leg.work_share, leg.submit_s, leg.start_s, leg.end_s, leg.chance)
        if not all(math.isfinite(amount) and amount >= 0 for amount in times) or leg.walltime_s <= 0:
            raise _unusable(f"leg {leg.number} has a time that cannot be")
        if any(other is not None and not 1 <= other < leg.number for other in (leg.after, leg.takes_over)):
            raise _unusable(f"leg {leg.number} follows a leg that does not come before it")
        if leg.share.nodes < 1 or leg.share.cores < 1 or leg.share.gpus < 0:
            raise _unusable(f"leg {leg.number} asks for no nodes or no cores")


def _unusable(problem: str) -> InputError:
    return InputError(f"The plan cannot be used: {problem}", remedy="Make it anew with `presage plan`")
