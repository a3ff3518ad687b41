"""What schedulers call a GPU, and what we call it."""

from __future__ import annotations

import re

from presage.clusters.gpus import GPU_MODELS

_MEMORY = re.compile(r"(\d+)\s*gb?\b")


def gpu_name(text: str | None, memory_bytes: int | None = None) -> str:
    """Return our name for `NVIDIA-A100-SXM4-80GB` or `tesla_v100`; a model that is not known keeps its own.

    Where a model comes in sizes, the one in the text or nearest to `memory_bytes` is taken.
    """
    if not text:
        return ""
    words = re.sub(r"[-_\s:]+", " ", text.lower())
    by_family: dict[str, list[tuple[int, str]]] = {}
    for model in GPU_MODELS:
        by_family.setdefault(model.name.partition("-")[0], []).append((model.memory_bytes, model.name))
    if any(text.lower() == model.name for model in GPU_MODELS):
        return text.lower()
    family = next((name for name in by_family if re.search(rf"\b{name}x?\b", words)), None)
    if family is None:
        return text.lower()
    sizes = by_family[family]
    if match := _MEMORY.search(words):
        memory_bytes = int(match[1]) * 10**9
    if memory_bytes is None:
        return family if len(sizes) > 1 else sizes[0][1]
    wanted = memory_bytes
    return min(sizes, key=lambda size: abs(size[0] - wanted))[1]
