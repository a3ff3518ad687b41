"""What happens to a cluster beside its jobs, and what jobs can bear; read from a TOML file or written in Python.

Times are seconds since the first submit of the trace, so that the same conditions fit any log.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, ValidationError

from presage.errors import ConfigError
from presage.simulator.detailed.throughput import Throughput  # noqa: TC001  (pydantic looks at it)

if TYPE_CHECKING:
    from pathlib import Path


class Failures(BaseModel):
    """Nodes fail at random and are repaired; so do whole racks, which take all their nodes with them.

    Times between failures and until repair are exponential. Every node and rack draws from a stream of its own, so
    a change of the policy, or a longer run, meets the same failures.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    node_mtbf_h: PositiveFloat | None = None
    """Mean time between failures of one node; None: single nodes do not fail."""
    node_repair_h: PositiveFloat = 4.0
    rack_mtbf_h: PositiveFloat | None = None
    """Mean time between failures of one rack or switch."""
    rack_repair_h: PositiveFloat = 2.0
    seed: int = 0


class Checkpoints(BaseModel):
    """Jobs save their state, so that an interruption costs what was done since and no more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every_s: PositiveFloat
    """Useful work between two checkpoints."""
    cost_s: NonNegativeFloat = 0.0
    """How long the job stands still for one."""
    restart_s: NonNegativeFloat = 0.0
    """How long it takes to load one after an interruption."""


class Drain(BaseModel):
    """Nodes that take no new jobs for a while; what runs there goes on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: tuple[str, ...]
    from_s: NonNegativeFloat
    to_s: NonNegativeFloat | None = None
    """None: for good."""


class Override(BaseModel):
    """An operator gives a job a priority: it goes before all with less, whatever the order says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job: str
    at_s: NonNegativeFloat
    priority: int


class Conditions(BaseModel):
    """All of it; by default nothing happens and every job runs at the speed of its log."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    failures: Failures = Failures()
    checkpoints: Checkpoints | None = None
    """None: interrupted jobs start from the beginning."""
    drains: tuple[Drain, ...] = ()
    overrides: tuple[Override, ...] = ()
    throughput: Throughput | None = None
    """None: a job runs as fast anywhere."""
    least_members: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Jobs are moldable: a gang may start with this share of its members, and then runs that much slower."""
    dependencies: bool = True
    """Whether jobs wait for those that the trace says they depend on."""
    preemptible: bool | None = None
    """Whether jobs may be interrupted for more urgent ones; None: as the trace says, all where it says nothing."""


def read_conditions(path: Path) -> Conditions:
    """Return the conditions of a TOML file. Raises ConfigError that says where it is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"The conditions in {path} cannot be read: {error}") from error
    return parse_conditions(document, str(path))


def parse_conditions(document: dict[str, Any], name: str) -> Conditions:
    """Return conditions from nested tables; `name` stands in messages."""
    try:
        return Conditions.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"The conditions in {name} are wrong at {where!r}: {first['msg']}",
            expected="the tables failures, checkpoints, drains, overrides and throughput",
        ) from error
