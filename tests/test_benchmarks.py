"""That `make prove` can call its benchmarks; what they measure is in docs/results."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from presage.errors import MissingDependencyError

from .docs_runner import ROOT

FOLDER = ROOT / "benchmarks"
CELLS = runpy.run_path(str(FOLDER / "prove.py"))["CELLS"]


class UnderstoodError(Exception):
    """The command line was read without complaint; nothing is measured."""


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: str(cell.name))
def test_each_cell_understands_what_prove_passes(
    cell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, *options = cell.command(tmp_path / "found.json")
    read = argparse.ArgumentParser.parse_args

    def stop_after_reading(parser: argparse.ArgumentParser) -> None:
        assert read(parser, options).out == tmp_path / "found.json"
        raise UnderstoodError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop_after_reading)
    monkeypatch.setattr(sys, "argv", [script, *options])
    monkeypatch.syspath_prepend(str(FOLDER))  # where a script finds its neighbours
    try:
        with pytest.raises(UnderstoodError):
            runpy.run_path(script, run_name="__main__")
    except MissingDependencyError as missing:
        pytest.skip(str(missing))
    except ModuleNotFoundError as missing:
        if (
            missing.name
            and not missing.name.startswith("presage")
            and not (FOLDER / f"{missing.name}.py").exists()
        ):
            pytest.skip(str(missing))
        raise


def test_cells_are_chosen_by_name_and_seed() -> None:
    chosen = runpy.run_path(str(FOLDER / "cells.py"))["_is_asked_for"]
    names = ["static/KTH", "paired/KTH-0", "paired/KTH-1", "index/1"]
    assert [name for name in names if chosen(name, [], [1])] == ["paired/KTH-1", "index/1"]
    assert [name for name in names if chosen(name, ["paired"], [])] == ["paired/KTH-0", "paired/KTH-1"]
