"""How `presage estimators` shows what it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from presage.cli._output import print_table

if TYPE_CHECKING:
    from presage.estimators import Estimate, Quantity
    from presage.estimators.repository import Accuracy, Change, Comparison, Entry, Prediction, Score

_REGISTERED = "registered"


def list_document(entries: list[Entry], shadowed: set[str]) -> list[dict[str, Any]]:
    """Return all estimators, added ones first; of the registry, those that nothing stands in for."""
    from presage.estimators import ESTIMATORS
    from presage.estimators.repository import registered_kinds

    added = [
        {
            "name": entry.name, "version": entry.version, "quantity": entry.manifest.quantity.value,
            "kind": entry.manifest.kind.value, "state": entry.state.value, "pinned": entry.pinned,
            "summary": entry.manifest.summary,
        }
        for entry in entries
    ]  # fmt: skip
    registered = [
        {
            "name": name, "version": kind.version, "quantity": kind.quantity.value, "kind": _REGISTERED,
            "state": "in-charge", "pinned": False, "summary": ESTIMATORS.spec(name).summary,
        }
        for name, kind in registered_kinds().items()
        if name not in shadowed
    ]  # fmt: skip
    return added + registered


def print_list(rows: list[dict[str, Any]]) -> None:
    """Print all estimators."""
    shown = [
        (
            row["name"], row["version"], row["quantity"], row["kind"],
            row["state"] + (", pinned" if row["pinned"] else ""), row["summary"],
        )
        for row in rows
    ]  # fmt: skip
    print_table("Estimators", ("name", "version", "quantity", "kind", "state", "what it is"), shown)


def entry_document(
    entry: Entry, *, intact: bool, changes: list[Change], accuracy: list[Accuracy]
) -> dict[str, Any]:
    """Return all that is known of a version."""
    return {
        **entry.as_dict(),
        "files_are_as_added": intact,
        "changes": [
            {
                "version": change.version, "before": change.before, "reason": change.reason,
                "changed_at": change.changed_at.isoformat(),
            }
            for change in changes
        ],
        "accuracy": [accuracy_document(each) for each in accuracy],
    }  # fmt: skip


def print_entry(document: dict[str, Any]) -> None:
    """Print a version with its history."""
    plain = ("quantity", "kind", "state", "summary", "source", "digest", "runner", "url", "target", "added_at")
    rows = [(key.replace("_", " "), str(document[key])) for key in plain if document.get(key)]
    if document["entrypoint"]:
        rows.append(("entry point", " ".join(document["entrypoint"])))
    rows.append(("limits", ", ".join(f"{key} {value}" for key, value in document["limits"].items())))
    rows += [(f"metric {key}", f"{value:g}") for key, value in document["metrics"].items()]
    if not document["files_are_as_added"]:
        rows.append(("files", "NOT as they were added: it is not asked"))
    print_table(f"{document['name']} {document['version']}", ("", ""), rows)
    if document["changes"]:
        changes = [
            (each["changed_at"][:16].replace("T", " "), each["version"] or "none", each["reason"])
            for each in document["changes"]
        ]
        print_table("In charge", ("since (UTC)", "version", "why"), changes)
    if document["accuracy"]:
        print_accuracy(document["accuracy"])


def accuracy_document(accuracy: Accuracy) -> dict[str, Any]:
    """Return how good predictions were in a month."""
    return {
        "month": accuracy.month, "quantity": accuracy.quantity.value, "estimator": accuracy.estimator,
        "version": accuracy.version, "role": accuracy.role.value, **accuracy.score.as_dict(),
    }  # fmt: skip


def print_accuracy(rows: list[dict[str, Any]]) -> None:
    """Print how good predictions were, by month."""
    shown = [
        (
            row["month"], row["quantity"], f"{row['estimator']} {row['version']}", row["role"], str(row["count"]),
            f"{row['pinball_loss']:.4f}", f"{row['coverage']:.0%}", f"{row['median_ratio_error']:.1%}",
        )
        for row in rows
    ]  # fmt: skip
    columns = ("month", "quantity", "estimator", "role", "outcomes", "pinball loss", "in p10–p90", "median error")
    print_table("How good predictions were", columns, shown)


def prediction_document(prediction: Prediction) -> dict[str, Any]:
    """Return one prediction, with what then happened."""
    return {
        "asked_at": prediction.asked_at.isoformat(), "job": prediction.job_key,
        "quantity": prediction.quantity.value, "estimator": prediction.estimator, "version": prediction.version,
        "role": prediction.role.value, **prediction.spread.as_dict(), "basis": prediction.basis.value,
        "actual": prediction.actual,
    }  # fmt: skip


def print_predictions(predictions: list[Prediction]) -> None:
    """Print predictions, with what then happened."""
    rows = [
        (
            each.asked_at.strftime("%Y-%m-%d %H:%M"), each.job_key or "", each.quantity.value,
            f"{each.estimator} {each.version}", each.role.value, amount(each.quantity, each.spread.p10),
            amount(each.quantity, each.spread.p50), amount(each.quantity, each.spread.p90),
            "" if each.actual is None else amount(each.quantity, each.actual),
        )
        for each in predictions
    ]  # fmt: skip
    columns = ("asked (UTC)", "job", "quantity", "estimator", "role", "p10", "p50", "p90", "actual")
    print_table("Predictions", columns, rows)


def print_refits(rows: list[dict[str, Any]]) -> None:
    """Print what was learned from jobs, the latest first."""
    shown = [
        (
            row["fitted_at"][:16].replace("T", " "), f"{row['name']} {row['number']}", row["family"], row["place"],
            str(row["fitted_on"]), f"{row['factor']:.2f}", f"{row['loss_before']:.4f}", f"{row['loss_after']:.4f}",
            "yes" if row["took_over"] else "no",
        )
        for row in rows
    ]  # fmt: skip
    columns = ("fitted (UTC)", "version", "kind", "place", "jobs", "times", "loss before", "after", "took over")
    print_table("Learned from jobs", columns, shown)


def print_comparisons(comparisons: list[Comparison]) -> None:
    """Print how versions did against those in charge."""
    for each in comparisons:
        rows = [
            (who, *_cells(score))
            for who, score in ((f"{each.name} {each.version}", each.candidate), ("in charge", each.in_charge))
            if score is not None
        ]
        if rows:
            columns = ("", "outcomes", "pinball loss", "in p10–p90", "median error")
            print_table(f"{each.quantity.value.capitalize()}, on the same questions", columns, rows)
        declined = f" It had no answer to {each.declined} old questions." if each.declined else ""
        verdict = "may take over" if each.takes_over else "stays where it is"
        typer.echo(f"{each.name} {each.version} {verdict}: {each.reason}.{declined}")


def print_answer(answer: Estimate) -> None:
    """Print one answer."""
    spread = answer.spread
    rows = [(name, amount(answer.quantity, each)) for name, each in spread.as_dict().items()]
    print_table(
        f"{answer.quantity.value.capitalize()} by {answer.estimator} {answer.version} ({answer.basis.value})",
        ("", ""), rows,
    )  # fmt: skip
    for note in answer.notes:
        typer.echo(note)


def amount(quantity: Quantity, value: float) -> str:
    """Return an amount of a quantity as a person reads it."""
    from presage.estimators import Quantity
    from presage.units import format_bytes, spell_seconds

    if quantity is Quantity.MEMORY:
        return format_bytes(value)
    return f"{value:.4g}" if quantity is Quantity.COST else spell_seconds(value)


def _cells(score: Score) -> tuple[str, str, str, str]:
    return (
        str(score.count), f"{score.pinball_loss:.4f}", f"{score.coverage:.0%}", f"{score.median_ratio_error:.1%}",
    )  # fmt: skip
