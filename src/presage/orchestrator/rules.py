"""Rules are data: a table of conditions and actions, ours in `rules.toml`, an operator's before them.

    [[rule]]
    name = "patient"
    when = { ending = "preempted", resumable = true, fruitless = "<10" }
    action = "retry"
    reason = "preempted, and we have time"

A package adds rules in Python by an entry point of the group `presage.rules`: a function of the facts that returns
an action and a reason, or None. They are asked first.
"""

from __future__ import annotations

import logging
import operator
import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from presage.errors import ConfigError, UnknownNameError
from presage.orchestrator.actions import Action
from presage.orchestrator.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

_COMPARISON = re.compile(r"(<=|>=|<|>) *(-?[0-9.]+)")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """What is to be done, by which rule and why."""

    rule: str
    action: Action
    reason: str
    facts: dict[str, Any]


class _RuleDocument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9-]{1,60}$")
    when: dict[str, bool | str | list[str] | int | float]
    action: Action
    reason: str


class _RulesDocument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rule: list[_RuleDocument]


@dataclass(frozen=True)
class Rule:
    """Conditions and an action."""

    name: str
    when: dict[str, Any]
    action: Action
    reason: str

    def applies(self, facts: Mapping[str, Any]) -> bool:
        """Return whether all conditions hold; one about a fact that is not known does not."""
        return all(_holds(wanted, facts.get(name)) for name, wanted in self.when.items())


@dataclass(frozen=True)
class Rules:
    """All rules in their order."""

    table: tuple[Rule, ...]
    advisors: tuple[tuple[str, Any], ...] = ()

    def decide(self, facts: dict[str, Any]) -> Decision | None:
        """Return what the first rule that applies says; None if none does, and all goes on as it is."""
        for name, advise in self.advisors:
            advice = _advice(name, advise, facts)
            if advice is not None:
                return advice
        for rule in self.table:
            if rule.applies(facts):
                return Decision(rule.name, rule.action, _spelled(rule.reason, facts), facts)
        return None


def load_rules(own: Path | None = None) -> Rules:
    """Return the shipped rules, with those of an operator's file and of other packages before them.

    Raises ConfigError saying what is wrong with the file.
    """
    text = (files("presage.orchestrator") / "rules.toml").read_text(encoding="utf-8")
    table = parse_rules(text, "rules.toml")
    if own is not None:
        try:
            table = (*parse_rules(own.read_text(encoding="utf-8"), str(own)), *table)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"The rules {str(own)!r} cannot be read: {error}") from None
    return Rules(table, _advisors())


def parse_rules(text: str, source: str) -> tuple[Rule, ...]:
    """Return the rules of a TOML text. Raises ConfigError naming the rule and what is wrong with it."""
    try:
        document = _RulesDocument.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The rules in {source!r} are not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = " ".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"The rules in {source!r} cannot be used: {place}: {first['msg']}",
            expected=f"actions among {', '.join(Action)}" if "action" in first["loc"] else "",
        ) from None
    return tuple(_checked(each, source) for each in document.rule)


def _checked(document: _RuleDocument, source: str) -> Rule:
    for name, wanted in document.when.items():
        if name not in FACTS:
            raise ConfigError(f"{UnknownNameError('fact', name, FACTS)} (rule {document.name!r} in {source!r})")
        if isinstance(wanted, str) and wanted[:1] in "<>" and not _COMPARISON.fullmatch(wanted):
            problem = f"The rule {document.name!r} in {source!r} compares {name} with {wanted!r}"
            raise ConfigError(problem, expected="a comparison like '>=3'")
    return Rule(document.name, dict(document.when), document.action, document.reason)


def _holds(wanted: Any, value: Any) -> bool:
    if value is None:
        return False
    if isinstance(wanted, list):
        return str(value) in wanted
    comparison = _COMPARISON.fullmatch(wanted) if isinstance(wanted, str) else None
    if comparison is not None:
        return isinstance(value, int | float) and _OPERATORS[comparison[1]](value, float(comparison[2]))
    return bool(value == wanted)


def _spelled(reason: str, facts: dict[str, Any]) -> str:
    try:
        return reason.format_map(facts)
    except (KeyError, ValueError, IndexError, AttributeError):  # an operator's own words; better said than lost
        return reason


def _advice(name: str, advise: Any, facts: dict[str, Any]) -> Decision | None:
    """Return what a rule of another package says; one that fails says nothing, and that is logged."""
    try:
        advice = advise(dict(facts))
        if advice is None:
            return None
        action, reason = advice
        return Decision(name, Action(action), str(reason), facts)
    except Exception as error:  # noqa: BLE001  (somebody else's code: the plane must outlive it)
        log.warning("The rule %s failed and is passed over: %r", name, error)
        return None


@lru_cache(maxsize=1)
def _advisors() -> tuple[tuple[str, Any], ...]:
    return tuple((point.name, point.load()) for point in entry_points(group="presage.rules"))
