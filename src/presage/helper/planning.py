"""`presage.plan`: where a training could run, when it would be done, what it would cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.choices import choice_of
from presage.clusters.systems import System
from presage.errors import InputError, UsageError
from presage.estimators.repository import Repository
from presage.estimators.spread import Spread
from presage.helper.estimating import Estimation
from presage.helper.tables import Shown, Table
from presage.planner.constraints import Budget, Constraints
from presage.planner.crossing import Counts
from presage.planner.estimates import AskedEstimates, Stated, StatedEstimates
from presage.planner.options import Variant
from presage.planner.plan import STRATEGIES, Plan
from presage.planner.planning import Plans, make_plans
from presage.units import parse_seconds, spell_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from presage.helper.jobs import Job
    from presage.planner.options import Option


@dataclass(frozen=True, repr=False)
class Planning(Shown):
    """All options, the three strategies, and the front of time and cost."""

    plans: Plans
    command: tuple[str, ...] = ()

    def choose(self, strategy: str | None = None) -> Plan:
        """Return the plan of a strategy, or the one that ends first. Raises InputError with the reasons."""
        wanted = None if strategy is None else choice_of(STRATEGIES, strategy, "strategy")
        found = [each.plan for each in self.plans.proposals if each.plan and wanted in (None, each.strategy)]
        if not found:
            reasons = dict.fromkeys(reason.words for each in self.plans.proposals for reason in each.reasons)
            raise InputError(f"There is no such plan: {'; '.join(reasons) or 'nothing fits'}")
        return replace(min(found, key=lambda each: each.completion.p50), command=self.command)

    def submit(self, strategy: str | None = None) -> Job:
        """Hand the plan of a strategy over, by default of the one that ends first."""
        from presage.helper.jobs import submit

        return submit(self.choose(strategy))

    def tables(self) -> tuple[Table, ...]:
        """Return the strategies side by side, and all options."""
        strategies = tuple(
            (
                each.strategy.value, *(_row(each.plan) if each.plan else ("", "", "", "")),
                each.plan.trade_off if each.plan else "; ".join(reason.words for reason in each.reasons),
            )
            for each in self.plans.proposals
        )  # fmt: skip
        columns = ("strategy", "done after", "wait", "cost", "jobs", "trade-off")
        options = tuple(_option_row(option) for option in self.plans.options)
        names = ("option", "fits", "wait", "runs", "done after", "cost")
        return Table("Strategies", columns, strategies), Table("Options", names, options)

    def plot(self) -> Any:
        """Return a figure of cost by completion time. Raises MissingDependencyError without matplotlib."""
        from presage.helper.plots import front_figure

        return front_figure(self.plans.options, self.plans.front)


def plan(
    training: Estimation,
    systems: str | Path | System | Sequence[str | Path | System],
    *,
    waits: Mapping[str, str | float] | None = None,
    hours: Mapping[str, float] | None = None,
    gpus: Sequence[int] = (),
    nodes: Sequence[int] = (),
    cores: int | None = None,
    deadline: str | float | None = None,
    budget: float | None = None,
    only: Sequence[str] = (),
    command: Sequence[str] = (),
    name: str | None = None,
) -> Planning:
    """Plan an estimated training across systems: names of the catalogue, TOML files, or systems themselves.

    `waits` are those that you know, by `system/partition`; `hours` how long it runs, by node type or partition,
    where you know better. `deadline` is a duration from now. `command` is what jobs execute. Raises UsageError.
    """
    if not isinstance(training, Estimation):
        raise UsageError(
            f"{training!r} is no estimation", expected="what presage.estimate returns",
            remedy="Estimate it first: presage.estimate(…).plan(…)",
        )  # fmt: skip
    workloads = training.workloads()
    named = [systems] if isinstance(systems, str | Path | System) else systems
    variants = [Variant(workload, f"batch {workload.options.batch}") for workload in workloads]
    stated = Stated(
        walltimes_s={place: Spread.exactly(each * 3600.0) for place, each in (hours or {}).items()},
        waits_s={place: Spread.exactly(parse_seconds(each)) for place, each in (waits or {}).items()},
    )
    constraints = Constraints(
        deadline_s=None if deadline is None else parse_seconds(deadline),
        budget=None if budget is None else Budget(budget),
        only=tuple(only),
    )
    there = [_system(each) for each in named]
    stated.check_places(there)
    plans = make_plans(
        variants,
        there,
        StatedEstimates(stated, AskedEstimates(profiling=training.profiling, repository=Repository())),
        name=name or workloads[0].name or "training",
        counts=Counts(tuple(nodes), tuple(gpus), cores),
        constraints=constraints,
    )
    return Planning(plans, tuple(command))


def _system(named: str | Path | System) -> System:
    from presage.clusters.catalogue import Catalogue
    from presage.clusters.documents import read_system

    if isinstance(named, System):
        return named
    path = Path(named)
    if path.suffix != ".toml":
        return Catalogue().get(str(named))
    try:
        return read_system(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from None


def _row(plan: Plan) -> tuple[str, str, str, str]:
    cost = f"{plan.cost.p50:.4g} {plan.currency}"
    return spell_seconds(plan.completion.p50), spell_seconds(plan.wait.p50), cost, str(len(plan.legs))


def _option_row(option: Option) -> tuple[str, ...]:
    if not option.fits:
        return (option.label, "no: " + "; ".join(reason.words for reason in option.reasons), "", "", "", "")
    times = [option.wait_s, option.run, option.completion]
    cost = f"{option.cost.p50:.4g} {option.currency}" if option.cost else ""
    return (option.label, "yes", *(spell_seconds(each.p50) if each else "" for each in times), cost)
