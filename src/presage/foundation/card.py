"""The card of a model: what a person should know before trusting its forecasts."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from presage.foundation.lineage import base_of
from presage.foundation.view.tasks import Task
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.foundation.model import Model

_NETWORKS = {Task.WAIT: "waits", Task.RUN: "run times and outcomes"}


def card_of(model: Model) -> str:
    """Return the card as Markdown: of the shipped model all that was measured, of another where it comes from.

    The card of a model that was fine-tuned says on what, how it fared, and all that is known of its base.
    """
    facts = json.dumps(model.about, indent=2, ensure_ascii=False)
    base = base_of(model.about)
    text = _written(base) or f"# {base}\n\nTrained by its owner.\n"
    steps = model.about.get("finetunings", [])
    if steps:
        told = "\n\n".join(_step(step) for step in steps)
        one_lower = f"#{text}".replace("\n#", "\n##")
        text = (
            f"# {model.version}\n\n{base}, fine-tuned by its owner. What follows after that is the card of {base}."
            f"\n\n## Fine-tuning\n\n{told}\n\n{one_lower}"
        )
    return f"{text}\n## What the file says of itself\n\n```json\n{facts}\n```"


def _written(version: str) -> str | None:
    """Return the card that comes with a shipped model."""
    cards = {each.name: each for each in (resources.files("presage.foundation") / "weights").iterdir()}
    found = cards.get(f"{version}.md")
    return found.read_text() if found else None


def _step(step: Mapping[str, Any]) -> str:
    """Return one fine-tuning as a paragraph with a line for each network."""
    lines = [f"On {counted(step['jobs'], 'job')} of {step['log']}:\n"]
    for task, network in _NETWORKS.items():
        if task.value not in step:
            lines.append(f"- {network}: not trained, the log does not tell them")
            continue
        each = step[task.value]
        lines.append(
            f"- {network}: learnt from {counted(each['learnt_from'], 'question')}, judged by "
            f"{each['judged_by']:,}: log MAE {each['log_mae_before']:.3f} before, "
            f"{each['log_mae_after']:.3f} after; "
            + ("takes over" if each["took_over"] else "the network is kept as it was")
        )
    return "\n".join(lines)
