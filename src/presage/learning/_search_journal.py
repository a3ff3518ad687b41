"""The journal of a search: its generations, behind a line that says which search they are of."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from presage.errors import InputError
from presage.learning.cases import digest_of
from presage.traces.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from presage.learning.cases import Case
    from presage.learning.search import Search
    from presage.policies.queue_scorer import QueueScorer

FORMAT = 2
_ANEW = "Name another file to begin anew"


def head_of(search: Search, start: QueueScorer, cases: Sequence[Case]) -> dict[str, Any]:
    """Return all that changes the costs of a search: its settings but for its length, its start, its cases."""
    settings = {name: value for name, value in asdict(search).items() if name != "generations"}
    begins = digest_of(start.weights, start.hidden, start.out, start.attention)
    return {"journal": FORMAT, **settings, "start": begins, "cases": [case.marks() for case in cases]}


def read_journal(journal: Path | None, head: dict[str, Any]) -> list[list[float]]:
    """Return the costs of the generations that are done; whoever was cut off in a line begins that one anew.

    Raises InputError for a file that is no journal, and for the journal of another search, naming what differs.
    """
    if journal is None or not journal.exists():
        return []
    text = journal.read_text(errors="replace")
    if _line(head).startswith(text):
        return []
    whole = text[: text.rfind("\n") + 1]
    try:
        found, *generations = (json.loads(line) for line in whole.splitlines())
        past = [[float(cost) for cost in generation["costs"]] for generation in generations]
        version = found.get("journal", 1) if "kind" in found else None
    except (ValueError, KeyError, TypeError, AttributeError):
        version = None
    if version is None:
        raise InputError(
            f"{journal.name} is no journal of a search", expected="what `presage policy train --journal` wrote"
        )
    if version != FORMAT:
        raise InputError(
            f"{journal.name} is a journal of another version of Presage, and does not say all of its search",
            remedy=_ANEW,
        )
    if differs := list(_differences(found, json.loads(_line(head)))):
        raise InputError(
            f"{journal.name} is the journal of another search: {'; '.join(differs)}",
            remedy=f"{_ANEW}, or repeat the call that it is of",
        )
    return past


def write_journal(journal: Path | None, head: dict[str, Any], past: Sequence[Sequence[float]]) -> None:
    """Write all generations anew, at once: there are few."""
    if journal is None:
        return
    lines = (_line({"costs": [float(cost) for cost in costs]}) for costs in past)
    with replacing(journal) as partial:
        partial.write_text(_line(head) + "".join(lines))


def _line(document: dict[str, Any]) -> str:
    return json.dumps(document) + "\n"


def _differences(found: dict[str, Any], asked: dict[str, Any]) -> Iterator[str]:
    """Say in which settings or cases two searches differ."""
    for name, value in asked.items():
        held = found.get(name)
        if held == value:
            continue
        if name == "start":
            yield "it began elsewhere"
        elif name == "cases":
            yield _different_cases(held, value)
        else:
            yield f"its {name} is {_said(held)}, not {_said(value)}"


def _different_cases(found: Any, asked: list[dict[str, Any]]) -> str:
    if not isinstance(found, list) or len(found) != len(asked):
        return f"it is of {len(found) if isinstance(found, list) else 'no'} cases, not {len(asked)}"
    names = [
        name
        for name in asked[0]
        if any(
            not isinstance(held, dict) or held.get(name) != one[name]
            for held, one in zip(found, asked, strict=True)
        )
    ]
    return f"its cases have other {' and '.join(names)}"


def _said(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, dict) else str(value)
