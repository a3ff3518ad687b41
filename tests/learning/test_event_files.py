from __future__ import annotations

from pathlib import Path

import pytest

from presage.errors import OutputError
from presage.learning.event_files import EventFile

# Bytes that TensorBoard 2.21 has read, checksums and all: the record that every file begins with, one that says
# `loss` 0.5 and `reward` -2.0 of step 300, and one that says `loss` 0.001 of step 2^40, all at the time 0.
READ_BY_TENSORBOARD = (
    "1800000000000000a37f4b220900000000000000001a0d627261696e2e4576656e743a32eedf28a3"
    "2a00000000000000ae8d91f509000000000000000010ac022a1c0a0b0a046c6f7373150000003f0a0d0a0672657761726415000000c0"
    "cf9ca24f"
    "1f00000000000000514b4418090000000000000000108080808080202a0d0a0b0a046c6f7373156f12833a8d6c4c09"
)


def write(folder: Path) -> EventFile:
    log = EventFile(folder)
    log.tell(300, {"loss": 0.5, "nothing": None, "reward": -2.0})
    log.tell(2**40, {"loss": 0.001})
    return log


def test_files_are_what_tensorboard_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("presage.learning.event_files.time.time", lambda: 0.0)
    log = write(tmp_path / "logs" / "one")

    assert "tfevents" in log.path.name
    assert log.path.read_bytes().hex() == READ_BY_TENSORBOARD


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write(tmp_path)
    events = reading.EventAccumulator(str(tmp_path))
    events.Reload()

    assert [(each.step, each.value) for each in events.Scalars("reward")] == [(300, -2.0)]


def test_each_call_has_a_file_of_its_own(tmp_path: Path) -> None:
    assert EventFile(tmp_path).path != EventFile(tmp_path).path


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        EventFile(tmp_path / "logs")
