"""`presage sweep`: how long a script will take at a scale that is too large to try."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._output import Json, duration, emit_json, pairs_in, print_table, steps, tell
from presage.errors import UsageError
from presage.units import parse_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.estimators.history.sweeps import Sweep


def sweep(
    command: Annotated[
        str, typer.Argument(metavar="COMMAND", help="With {names} in it, like 'python simulate.py --cells {n}'.")
    ],
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="NAME=VALUES", help="Scales to run, like n=1000..2000..4000; repeatable."),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="NAME=VALUE", help="The scale that is asked about; repeatable, or commas."),
    ] = None,
    each: Annotated[str, typer.Option("--each", help="The longest that one run may take.")] = "10min",
    budget: Annotated[str, typer.Option("--budget", help="The longest that all of them may take.")] = "1h",
    json: Json = False,
) -> None:
    """Run a script at small scales, fit laws of growth, and tell the time of a larger one.

    Several laws are fitted (power, linear, quadratic, Amdahl's for cores or nodes, nearest neighbours); the one
    that foretells each run best from the others is taken. Names like cores, nodes or threads make a run shorter,
    all others longer. Runs are made one after the other, the cheapest first, until the budget is spent.

    Example: presage sweep 'python simulate.py --cells {n}' --at n=1000..2000..4000..8000 --to n=100000
    """
    from presage.estimators.history.sweeps import fit_sweep, run_sweep

    grid = {name: _values(name, text) for name, text in pairs_in(at, "--at").items()}
    asked = {name: _number(name, text, "--to") for name, text in pairs_in(to, "--to").items()}
    if not grid or set(grid) != set(asked):
        raise UsageError(
            f"--at names {', '.join(grid) or 'nothing'} and --to names {', '.join(asked) or 'nothing'}",
            expected="the same names in both, and in the command",
        )
    with steps("run") as report:
        made = run_sweep(
            command,
            grid,
            limit_s=parse_seconds(each),
            budget_s=parse_seconds(budget),
            progress=(lambda done, total: report(done, total, "")) if report else None,
        )
    fit = fit_sweep(made.runs)
    spread = fit.predict(asked)
    if json:
        runs = [{"parameters": dict(run.parameters), "seconds": run.seconds} for run in made.runs]
        emit_json(
            {"runs": runs, "left_out": _left_out(made), "law": fit.law, "errors": fit.errors, "asked": asked,
             "walltime": {"unit": "s", **spread.as_dict()}}
        )  # fmt: skip
        return
    rows = [(_spelled(run.parameters), duration(run.seconds)) for run in made.runs]
    print_table("", ("at", "took"), rows)
    for words in _left_out(made):
        tell(words)
    typer.echo(
        f"{_spelled(asked)}: {duration(spread.p50)}, {duration(spread.p10)} to {duration(spread.p90)} in 80 % of "
        f"cases, by the law {fit.law} (error {fit.errors[fit.law]:.0%})"
    )


def _values(name: str, text: str) -> list[float]:
    return [_number(name, part, "--at") for part in text.split("..")]


def _number(name: str, text: str, option: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < sys.float_info.max:
        raise UsageError(f"{option} {name}={text} cannot be", expected="numbers above 0, like n=1000..2000..4000")
    return number


def _spelled(parameters: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in parameters.items())


def _left_out(made: Sweep) -> list[str]:
    return [f"{_spelled(parameters)} was left out: it {reason}" for parameters, reason in made.left_out]
