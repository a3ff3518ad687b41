"""Experiments made of cells, each a file of its own: an interrupted run goes on with the first that is missing."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import presage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Cells = Mapping[str, Callable[[], dict[str, Any]]]


def run_cells(
    name: str,
    about: str,
    folder: Path,
    cells: Cells,
    facts: Mapping[str, Any] | None = None,
    conclude: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Run what is missing and asked for on the command line, and print all there is as one JSON object.

    The cell `a/b/1` is kept in a/b/1.json under `folder`; a number at the end of its name, behind `/` or `-`, is
    its seed. Several processes may work on different cells. `facts` about the experiment stand in front of them,
    and what `conclude` returns stands behind: cheap figures that follow from the cells there are, made anew each
    time.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="only cells whose names begin so; repeatable")
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="only cells of these seeds")
    parser.add_argument("--collect", action="store_true", help="only put together what is there")
    parser.add_argument("--out", type=Path, help="write the JSON there as well")
    asked = parser.parse_args()
    if not asked.collect:
        for cell, run in cells.items():
            if _is_asked_for(cell, asked.only, asked.seeds) and not (folder / f"{cell}.json").exists():
                keep_cell(folder, cell, run())
    text = json.dumps({**_collected(name, folder, cells, facts or {}), **conclude()}, indent=1)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n")


def read_cell(folder: Path, cell: str) -> dict[str, Any]:
    """Return a cell that is there."""
    found: dict[str, Any] = json.loads((folder / f"{cell}.json").read_text())
    return found


def keep_cell(folder: Path, cell: str, found: dict[str, Any]) -> None:
    """Keep a cell."""
    path = folder / f"{cell}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")


def say(text: str) -> None:
    """Tell who waits how far it is."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def _is_asked_for(cell: str, only: list[str], seeds: list[int]) -> bool:
    seed = cell.replace("-", "/").rpartition("/")[2]
    return cell.startswith(tuple(only) or "") and (not seeds or (seed.isdigit() and int(seed) in seeds))


def _collected(name: str, folder: Path, cells: Cells, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "benchmark": name,
        "presage": presage.__version__,
        "python": platform.python_version(),
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        **facts,
        "cells": {cell: read_cell(folder, cell) for cell in cells if (folder / f"{cell}.json").exists()},
    }
