from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from presage.cli.main import run


@dataclass(frozen=True)
class Result:
    """What a call of the command line gave."""

    exit_code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Presage = Callable[..., Result]


@pytest.fixture
def presage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Presage:
    """Call the command line in this process, in an empty folder, as a shell would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PRESAGE_HOME", str(tmp_path / "state"))

    def call(*arguments: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["presage", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            run()
        captured = capsys.readouterr()
        return Result(int(stop.value.code or 0), captured.out, captured.err)

    return call
