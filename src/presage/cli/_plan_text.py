"""How `presage plan` shows plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from presage.cli._output import print_table
from presage.units import format_bytes, spell_seconds
from presage.wording import counted

if TYPE_CHECKING:
    from presage.estimators._base import Estimate
    from presage.estimators.spread import Spread
    from presage.planner.options import Option
    from presage.planner.plan import Plan
    from presage.planner.planning import Plans
    from presage.planner.strategies import Proposal

_MOST_ROWS = 40
_MOST_LEGS = 8
_UNVERIFIED = "*"


def print_plans(plans: Plans, chosen: Plan | None) -> None:
    """Print the options, the strategies side by side, the front, and the legs of the chosen plan."""
    _print_options(plans)
    _print_strategies(plans.proposals)
    if len(plans.front) > 1:
        _print_front(plans)
    if chosen is not None:
        print_legs(chosen)
    for note in _notes([option for option in plans.options if option.fits]):
        typer.echo(f"Note: {note}.")


def _notes(options: list[Option]) -> list[str]:
    """Return what is to be said of the options, each thing once; of unknown waits in one sentence."""
    from presage.planner.options import unknown_wait

    places = dict.fromkeys(option.placement.name for option in options)
    unknown = [place for place in places if any(unknown_wait(place) in option.notes for option in options)]
    said = {unknown_wait(place) for place in unknown}
    notes = [
        note for note in dict.fromkeys(note for option in options for note in option.notes) if note not in said
    ]
    return [f"{unknown_wait(*unknown)}; --wait or --history tells them", *notes] if unknown else notes


def print_legs(plan: Plan) -> None:
    """Print the jobs of a plan."""
    rows: list[tuple[str, ...]] = [
        (
            str(leg.number),
            leg.place + (" (spot)" if leg.spot else ""),
            leg.node_type,
            spell_seconds(leg.submit_s),
            spell_seconds(leg.start_s),
            spell_seconds(leg.end_s),
            spell_seconds(leg.walltime_s),
            f"{leg.work_share:.0%}",
            f"{leg.chance:.0%}",
        )
        for leg in plan.legs
    ]
    if len(rows) > _MOST_LEGS:
        rows[_MOST_LEGS - 1 : -1] = [("…",) + ("",) * (len(rows[0]) - 1)]
    columns = ("leg", "where", "nodes", "submit", "start", "end", "asks for", "of the work", "needed with chance")
    print_table(f"Legs of {plan.strategy.value}, if it takes as long as is planned for", columns, rows)


def _print_options(plans: Plans) -> None:
    ordered = sorted(plans.options, key=_place_in_table)
    print_table(
        f"Options, {sum(option.fits for option in ordered):,} of {len(ordered):,} possible",
        ("variant", "where", "nodes", "size", "memory", "run", "wait", "done after", "cost", "jobs", "fits"),
        [_option_row(option) for option in ordered[:_MOST_ROWS]],
    )
    estimates = [each for option in ordered for each in (option.memory, option.walltime, option.wait)]
    if any(map(_mark, estimates)):
        typer.echo(f"{_UNVERIFIED} modelled, unverified: nobody could check such an estimate here")
    if len(ordered) > _MOST_ROWS:
        typer.echo(f"{counted(len(ordered) - _MOST_ROWS, 'more option')}; --json has all of them")


def _mark(estimate: Estimate | None) -> str:
    from presage.estimators._base import Basis

    return _UNVERIFIED if estimate is not None and estimate.basis is Basis.UNVERIFIED else ""


def _place_in_table(option: Option) -> tuple[bool, float]:
    return not option.fits, option.completion.p50 if option.completion else 0.0


def _option_row(option: Option) -> tuple[str, ...]:
    place = option.placement
    return (
        option.variant.label,
        place.name + (" (spot)" if place.spot else ""),
        place.node_type.name,
        place.size,
        format_bytes(option.memory.spread.p50) + _mark(option.memory) if option.memory else "?",
        spell_seconds(option.run.p50) + _mark(option.walltime) if option.run else "",
        spell_seconds(option.wait.spread.p50) + _mark(option.wait)
        if option.wait
        else "?"
        if option.completion
        else "",
        _between(option.completion),
        _price(option.cost, option.currency),
        str(option.jobs) if option.completion else "",
        "yes" if option.fits else "no: " + "; ".join(reason.words for reason in option.reasons),
    )


def _print_strategies(proposals: tuple[Proposal, ...]) -> None:
    rows = []
    for proposal in proposals:
        plan = proposal.plan
        if plan is None:
            why = "; ".join(reason.words for reason in proposal.reasons) or "nothing fits"
            rows.append((proposal.strategy.value, "", "", "", "", "", f"none: {why}"))
            continue
        rows.append(
            (
                proposal.strategy.value,
                str(len(plan.legs)),
                _between(plan.completion),
                _price(plan.cost, plan.currency),
                f"{plan.timeout_risk:.0%}",
                f"{plan.oom_risk:.0%}",
                plan.summary,
            )
        )
    columns = ("strategy", "jobs", "done after", "cost", "too short", "out of memory", "what it does")
    print_table("Strategies", columns, rows)
    for proposal in proposals:
        if proposal.plan is not None:
            typer.echo(f"{proposal.strategy.value}: {proposal.plan.trade_off}.")
    typer.echo("")


def _print_front(plans: Plans) -> None:
    rows = [
        (option.label, spell_seconds(option.completion.p50), _price(option.cost, option.currency))
        for option in plans.front
        if option.completion is not None
    ]
    print_table("Nothing is both sooner and cheaper than", ("option", "done after", "cost"), rows)


def _between(spread: Spread | None) -> str:
    """Return the median, and p10 and p90 where they differ."""
    if spread is None:
        return ""
    if spread.p90 - spread.p10 < 1:
        return spell_seconds(spread.p50)
    return f"{spell_seconds(spread.p50)} ({spell_seconds(spread.p10)} to {spell_seconds(spread.p90)})"


def _price(cost: Spread | None, currency: str) -> str:
    return "" if cost is None else f"{cost.p50:.4g} {currency}"
