"""The file that keeps a job from working while another job of the same run does."""

from __future__ import annotations

from pathlib import Path


def hold_file(folder: str | Path, number: int | str) -> Path:
    """Return the file that is in the way of a job of the run in `folder`, as long as it is there."""
    return Path(folder) / f"hold-{number}"
