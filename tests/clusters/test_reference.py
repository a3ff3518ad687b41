"""The page of reference names every field, and no other."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from presage.clusters import GPU_MODELS, ChargeRule, GpuModel, Limits, NodeType, Partition, Staging, System

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "systems.md"
SECTIONS: dict[str, type] = {
    "The system": System,
    "A node type": NodeType,
    "A partition": Partition,
    "Limits": Limits,
    "Charges": ChargeRule,
    "Staging": Staging,
    "A GPU model": GpuModel,
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_field_is_explained(heading: str) -> None:
    kind = SECTIONS[heading]
    section = re.search(rf"^## {heading}.*?(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    explained = re.findall(r"^\| `(\w+)` \|", section[0], re.MULTILINE)
    assert explained == [field.name for field in fields(kind) if kind is System or field.name != "name"]


def test_every_gpu_is_named() -> None:
    (sentence,) = [line for line in PAGE.read_text().splitlines() if line.startswith("Presage knows the GPUs")]
    assert re.findall(r"`([^`]+)`", sentence) == [model.name for model in GPU_MODELS]
