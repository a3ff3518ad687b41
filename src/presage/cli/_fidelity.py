"""How a report on a synthetic trace is shown in the terminal: the figures that decide, beside those of the log."""

from __future__ import annotations

from typing import Any

from presage.cli._output import duration, print_table, tell
from presage.wording import counted

_LIKE, _NATURAL = "likeness", "natural"
_BY_TRACE = (
    ("gap and the gap before, correlation", "rhythms.{}.ac1"),
    ("jobs of an hour and of the hour a day before", "rhythms.{}.ac24"),
    ("jobs of the same user as the job before", "rhythms.{}.same_user"),
    ("the same in user, size and limit", "rhythms.{}.repeated"),
    ("runs beyond their limit", "constraints.{}.over_limit"),
    ("sizes that the log does not have", "constraints.{}.new_sizes"),
)
"""What each trace has by itself, by its place in the document; {} is the trace."""
_DIFFERENCES = (
    ("numbers differ by, mean of columns (KS)", "marginals.mean_ks"),
    ("labels differ by, mean of columns (TV)", "marginals.mean_tv"),
    ("correlations differ by, mean of pairs", "correlations.pearson_difference"),
    ("told from the log by single jobs (AUC)", "rows.auc"),
    ("told from the log by what came before (AUC)", "sequences.auc"),
)
_MEMORY = (
    ("jobs that are copies of the log's", "synthetic.rows", "natural.rows"),
    ("four jobs of a user in a row that are", "synthetic.sequences", "natural.sequences"),
    ("what was learned from told from what was not (AUC)", "membership_auc", "drift_auc"),
)
Row = tuple[str, tuple[float | None, float | None, float | None]]


def print_report(document: dict[str, Any]) -> None:
    """Print the main figures of a report, and why others are missing."""
    cells = [
        (words, *(_cell(value) for value in values))
        for words, values in _figures(document)
        if any(value is not None for value in values)
    ]
    rows = [*cells, *_replayed(document)]
    if rows:
        made, real = (counted(document[f"{name}_jobs"], "job") for name in ("synthetic", "real"))
        title = f"{document['synthetic'] or 'Synthetic'}: {made}, beside {real} of {document['real'] or 'the log'}"
        print_table(title, ("", "synthetic", "the log", "its other jobs"), rows)
    for section, reason in _unmeasured(document):
        tell(f"{section}: {reason}")


def _figures(document: dict[str, Any]) -> list[Row]:
    """Return for each figure what the synthetic trace has, what the log has, and what jobs nobody learned from."""
    rows: list[Row] = []
    for words, path in _DIFFERENCES:
        rows.append((words, (_at(document, f"{_LIKE}.{path}"), None, _at(document, f"{_NATURAL}.{path}"))))
    for words, path in _BY_TRACE:
        made, log = path.format("synthetic"), path.format("real")
        own = (_at(document, f"{_LIKE}.{made}"), _at(document, f"{_LIKE}.{log}"))
        rows.append((words, (*own, _at(document, f"{_NATURAL}.{made}"))))
    learned = "usefulness.run"
    errors = (_at(document, f"{learned}.synthetic_mae"), _at(document, f"{learned}.real_mae"), None)
    rows.append(("error of run times learned from it (log MAE)", errors))
    for words, path, other in _MEMORY:
        rows.append((words, (_at(document, f"memorisation.{path}"), None, _at(document, f"memorisation.{other}"))))
    return rows


def _replayed(document: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    replay = document["replay"]
    rows = []
    for each in replay.get("outcomes", ()):
        show = duration if each["metric"].endswith("_s") else _cell
        metric = each["metric"].removesuffix("_s").replace("_", " ")
        words = f"{metric} under {each['policy']}, load {replay['load']:.2f}"
        rows.append((words, show(each["synthetic"]), f"{show(each['low'])} to {show(each['high'])}", ""))
    return rows


def _unmeasured(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the sections that were not measured, each with the reason."""
    sections = {**document, **document[_LIKE]}
    return [
        (name, part["not_measured"])
        for name, part in sections.items()
        if isinstance(part, dict) and "not_measured" in part
    ]


def _at(document: dict[str, Any], path: str) -> float | None:
    """Return the number at a dotted path; None where it was not measured."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int | float) else None


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
