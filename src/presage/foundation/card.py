"""The card of a model: what a person should know before trusting its forecasts."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from presage.foundation.model import Model


def card_of(model: Model) -> str:
    """Return the card as Markdown: of the shipped model all that was measured, of another where it comes from."""
    facts = json.dumps(model.about, indent=2, ensure_ascii=False)
    shipped = resources.files("presage.foundation") / "weights" / f"{model.version}.md"
    text = shipped.read_text() if shipped.is_file() else f"# {model.version}\n\nTrained by its owner.\n"
    return f"{text}\n## What the file says of itself\n\n```json\n{facts}\n```"
