from __future__ import annotations

import sys
from pathlib import Path

import pytest

from presage.errors import InputError, UsageError
from presage.estimators._base import Basis
from presage.estimators.training.measuring import trial as trial_module
from presage.estimators.training.measuring.trial import try_program

TRAINING = """\
import sys, time
from presage.client import track
for epoch in track(int(sys.argv[1]), folder=None):
    time.sleep(0.1)
"""


@pytest.fixture
def training(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(TRAINING)
    return str(tmp_path / "train.py")


def test_the_pace_of_the_beginning_tells_the_whole(training: str) -> None:
    trial = try_program([sys.executable, training, "200"], seconds=1)
    assert trial.total == 200
    assert 3 <= trial.done < 100
    walltime = trial.walltime.spread
    assert 20 <= walltime.p50 < 40  # 200 epochs of at least 0.1 s; more only if the machine is busy
    assert walltime.p10 < walltime.p50 < walltime.p90
    assert trial.walltime.basis is Basis.MEASURED
    assert 1e6 < trial.memory.spread.p10 <= trial.memory.spread.p50 < 1e9
    assert trial.save_s is not None  # it was told to save, and did


def test_a_program_that_is_done_within_its_trial_is_known_exactly(training: str) -> None:
    trial = try_program([sys.executable, training, "5"], seconds=20)
    assert trial.walltime.spread.p10 == trial.walltime.spread.p90 == trial.tried_s
    assert trial.done == trial.total == 5


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("print('nothing about progress')", "did not say how far it is"),
        ("raise SystemExit('no data')", "ended with status 1: no data"),
        (
            "from presage.client import track; import time\nfor _ in track(2): time.sleep(60)",
            "not through with an",
        ),
    ],
)
def test_programs_that_tell_nothing_are_refused(
    code: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trial_module, "_LEAVE_S", 0.5)
    with pytest.raises(InputError, match=problem):
        try_program([sys.executable, "-c", code], seconds=0.2)


def test_a_program_that_is_not_there_is_a_wrong_call() -> None:
    with pytest.raises(UsageError, match="cannot be run"):
        try_program(["no-such-program"], seconds=1)
