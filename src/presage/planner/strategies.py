"""Three ways to choose among options; what each gains and loses is always said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from presage.estimators.feasibility import Reason
from presage.planner.cascades import schedule
from presage.planner.legs import Stretch, legs_of
from presage.planner.moves import Move, move, stretches_of
from presage.planner.options import Option, describe_jobs, with_queueing
from presage.planner.plan import Plan, Strategy
from presage.planner.predicting import predictions_of
from presage.units import spell_seconds
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from presage.estimators.spread import Spread
    from presage.planner.cascades import Queueing
    from presage.planner.constraints import Constraints

_MOST_REASONS = 5
_SAME = 1e-9


@dataclass(frozen=True)
class Proposal:
    """What a strategy comes to: a plan, or the reasons why there is none."""

    strategy: Strategy
    plan: Plan | None
    reasons: tuple[Reason, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the proposal as it is told to machines."""
        return {
            "strategy": self.strategy.value,
            "plan": self.plan.as_dict() if self.plan else None,
            "reasons": [reason.as_dict() for reason in self.reasons],
        }


def propose(options: Sequence[Option], constraints: Constraints, *, name: str) -> tuple[Proposal, ...]:
    """Return what the three strategies come to, always all of them, each with its trade-off against the first."""
    best = _best_configuration(options, name)
    others = (_by_availability(options, constraints, name), _short_hops(options, constraints, name))
    return tuple(_with_trade_off(each, (best, *others)) for each in (best, *others))


def plan_option(option: Option, strategy: Strategy, *, name: str, queueing: Queueing | None = None) -> Plan:
    """Return the plan that does the job in this one way. The option must fit."""
    if option.run is None or option.completion is None or option.cost is None:
        raise ValueError(f"{option.label} has no times")
    careful_s = option.run.quantile(option.assumptions.confidence)
    pieces = option.pieces(careful_s)
    slots = schedule(pieces, option.wait_s.p50, option.wait_s.p50, queueing or option.queueing)
    legs = legs_of([Stretch(option, pieces, tuple(slots), careful_s)])
    return Plan(
        strategy, name, option.workload, legs, option.wait_s, option.run, option.completion, option.cost,
        option.currency, timeout_risk=option.timeout_risk, oom_risk=option.oom_risk,
        warning_s=option.overheads.reserve_s, variant=option.variant.label, notes=option.notes,
        summary=f"{option.label}: {describe_jobs(option)}", predictions=predictions_of(option),
    )  # fmt: skip


def _best_configuration(options: Sequence[Option], name: str) -> Proposal:
    pool = _pool(options)
    if not pool:
        return _nothing(Strategy.BEST, options)
    chosen = min(pool, key=lambda option: (_median(option.run), _median(option.completion), _median(option.cost)))
    return Proposal(Strategy.BEST, plan_option(chosen, Strategy.BEST, name=name))


def _by_availability(options: Sequence[Option], constraints: Constraints, name: str) -> Proposal:
    pool = _pool(options)
    if not pool:
        return _nothing(Strategy.AVAILABILITY, options)
    stay = min(pool, key=lambda option: (_median(option.completion), option.wait_s.p50, _median(option.cost)))
    moves = [found for found in _moves(pool) if not _breaks(constraints, found)]
    moved = min(moves, key=lambda found: (found.completion.p50, found.cost.p50), default=None)
    if moved is not None and moved.completion.p50 < _median(stay.completion) - _SAME:
        return Proposal(Strategy.AVAILABILITY, _plan_move(moved, name))
    return Proposal(Strategy.AVAILABILITY, plan_option(stay, Strategy.AVAILABILITY, name=name))


def _short_hops(options: Sequence[Option], constraints: Constraints, name: str) -> Proposal:
    development = [option for option in options if option.placement.partition.development]
    if not development:
        reason = Reason("no-development", "none of the systems has a development partition")
        return Proposal(Strategy.HOPS, None, (reason,))
    found = []
    for option in development:
        if option.completion is None:  # which nothing in a queue can change; a deadline may be met at night
            continue
        queueing = _at_night(option)
        hopping = with_queueing(option, queueing)
        if hopping.completion is None or hopping.cost is None:
            continue
        reasons = constraints.reasons_against(hopping.completion, hopping.cost, hopping.currency)
        if not reasons:
            found.append((hopping, queueing))
    if not found:
        return _nothing(Strategy.HOPS, development)
    hopping, queueing = min(found, key=lambda each: (_median(each[0].completion), _median(each[0].cost)))
    plan = plan_option(hopping, Strategy.HOPS, name=name, queueing=queueing)
    night = hopping.assumptions.night
    if queueing.night is not None and night is not None:
        words = f"Assumes that {hopping.placement.name} is idle from {night.begins_h}:00 to {night.ends_h}:00"
        plan = replace(plan, notes=(*plan.notes, words))
    return Proposal(Strategy.HOPS, plan)


def _at_night(option: Option) -> Queueing:
    """Return how hops get through the queue, with the idle nights if somebody assumes them."""
    assumed = option.assumptions
    if assumed.night is None or assumed.now is None:
        return option.queueing
    zone = option.placement.system.time_zone
    now = assumed.now.astimezone(ZoneInfo(zone)) if zone else assumed.now
    return replace(option.queueing, night=assumed.night, now=now)


def _pool(options: Iterable[Option]) -> list[Option]:
    """Return what can be, outside development queues unless there is nothing else: those are for hops."""
    possible = [option for option in options if option.fits and option.completion is not None]
    return [option for option in possible if not option.placement.partition.development] or possible


def _moves(pool: Sequence[Option]) -> list[Move]:
    """Return every move from what starts sooner to what runs shorter, among those that nothing beats in both."""
    useful = _soon_or_short(pool)
    pairs = [
        (first, second)
        for first in useful
        for second in useful
        if _start(first) < _start(second) and _median(second.run) < _median(first.run)
    ]
    return [found for first, second in pairs if (found := move(first, second)) is not None]


def _soon_or_short(pool: Sequence[Option]) -> list[Option]:
    kept: list[Option] = []
    for variant in dict.fromkeys(option.variant for option in pool):
        shortest: float | None = None
        of_variant = [option for option in pool if option.variant == variant]
        for option in sorted(of_variant, key=lambda option: (_start(option), _median(option.run))):
            if shortest is None or _median(option.run) < shortest:
                kept.append(option)
                shortest = _median(option.run)
    return kept


def _breaks(constraints: Constraints, found: Move) -> bool:
    return bool(constraints.reasons_against(found.completion, found.cost, found.first.currency))


def _plan_move(found: Move, name: str) -> Plan:
    first, second = found.first, found.second
    summary = (
        f"{first.label}; after {spell_seconds(found.moved_s)}, with {found.done_share:.0%} done, "
        f"{second.placement.name} ({second.placement.size})"
    )
    return Plan(
        Strategy.AVAILABILITY, name, first.workload, legs_of(stretches_of(found)), first.wait_s, found.run,
        found.completion, found.cost, first.currency,
        timeout_risk=max(first.timeout_risk, second.timeout_risk), oom_risk=max(first.oom_risk, second.oom_risk),
        warning_s=max(first.overheads.reserve_s, second.overheads.reserve_s), variant=first.variant.label,
        summary=summary, notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
    )  # fmt: skip


def _nothing(strategy: Strategy, options: Iterable[Option]) -> Proposal:
    """Return that there is no plan, with the reasons that came up most, each with the places it holds for."""
    places: dict[str, tuple[Reason, list[str]]] = {}
    for option in options:
        for reason in option.reasons:
            places.setdefault(reason.words, (reason, []))[1].append(option.placement.name)
    known = sorted(places.values(), key=lambda entry: -len(entry[1]))[:_MOST_REASONS]
    reasons = [
        replace(reason, words=f"{', '.join(dict.fromkeys(where))}: {reason.words}") for reason, where in known
    ]
    return Proposal(strategy, None, tuple(reasons))


def _with_trade_off(proposal: Proposal, all_of_them: tuple[Proposal, ...]) -> Proposal:
    plan = proposal.plan
    if plan is None:
        return proposal
    others = [(each.plan, each.strategy) for each in all_of_them if each.strategy is not proposal.strategy]
    words = [_own_words(plan), *(_compared(plan, other, name) for other, name in others if other is not None)]
    return replace(proposal, plan=replace(plan, trade_off="; ".join(words)))


def _own_words(plan: Plan) -> str:
    run = spell_seconds(plan.run.p50)
    wait = f"after a wait of {spell_seconds(plan.wait.p50)}" if plan.wait.p50 >= 1 else "at once"
    if plan.strategy is Strategy.BEST:
        return f"shortest run: {run}, which starts {wait}"
    if plan.strategy is Strategy.HOPS:
        several = ", each to be watched and gone on from a checkpoint" if len(plan.legs) > 1 else ""
        return f"{counted(len(plan.legs), 'short job')} through a development queue{several}"
    if any(leg.takes_over for leg in plan.legs):
        return f"starts {wait} on lesser nodes, and pays for both and for the move"
    return f"soonest end: starts {wait}, runs {run}, and nothing is worth a move"


def _compared(plan: Plan, other: Plan, strategy: Strategy) -> str:
    later_s = plan.completion.p50 - other.completion.p50
    dearer = plan.cost.p50 - other.cost.p50
    differences = []
    if abs(later_s) > 1:
        differences.append(f"{spell_seconds(abs(later_s))} {'later' if later_s > 0 else 'sooner'}")
    if plan.currency == other.currency and abs(dearer) > _SAME:
        differences.append(f"{abs(dearer):.4g} {plan.currency} {'dearer' if dearer > 0 else 'cheaper'}")
    words = (
        f"{' and '.join(differences)} than {strategy.value}"
        if differences
        else f"no different from {strategy.value}"
    )
    return words if plan.currency == other.currency else f"{words}, which is paid in {other.currency}"


def _start(option: Option) -> float:
    return option.transfer_s + option.wait_s.p50


def _median(spread: Spread | None) -> float:
    return float("inf") if spread is None else spread.p50
