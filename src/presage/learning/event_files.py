"""The curve of a training as TensorBoard reads it, written without TensorBoard.

A file of events is a row of records: the length of the content, a checksum of the length, the content, a checksum
of the content. Each content is a protocol buffer with the time, the step, and numbers by name.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import TYPE_CHECKING

from presage.errors import OutputError
from presage.traces.files import writing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VERSION = b"brain.Event:2"
"""What the first record of a file must say."""
_CASTAGNOLI = 0x82F63B78
_MASK_ADDED = 0xA282EAD8
# Fields of the messages, with how each is written: a double, a varint, bytes, a float.
_TIME, _STEP, _SAYS, _SUMMARY = b"\x09", b"\x10", b"\x1a", b"\x2a"
_VALUE, _NAME, _NUMBER = b"\x0a", b"\x0a", b"\x15"


class EventFile:
    """A new file of events in a folder. Raises OutputError where nothing can be written."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self.path = folder / name
        self._append(_field(_SAYS, _VERSION))

    def tell(self, step: int, numbers: Mapping[str, float | None]) -> None:
        """Add the numbers of a step; those that are None are left out. The file is whole after each call."""
        values = b"".join(
            _field(_VALUE, _field(_NAME, name.encode()) + _NUMBER + struct.pack("<f", value))
            for name, value in numbers.items()
            if value is not None
        )
        self._append(_STEP + _varint(step) + _field(_SUMMARY, values))

    def _append(self, event: bytes) -> None:
        event = _TIME + struct.pack("<d", time.time()) + event
        length = struct.pack("<Q", len(event))
        record = length + _checksum(length) + event + _checksum(event)
        with writing(self.path), self.path.open("ab") as file:
            file.write(record)


def make_folder(folder: Path) -> None:
    """Make a folder for what a training leaves. Raises OutputError if it cannot be one."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{str(folder)!r} is a file", expected="a folder", remedy="Name a folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Return a number seven bits at a time, the lowest first."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _checksum(content: bytes) -> bytes:
    """Return the CRC-32C of the content, rotated and shifted as records want it."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK_ADDED) & 0xFFFFFFFF)


def _table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [entry >> 1 ^ (_CASTAGNOLI if entry & 1 else 0) for entry in table]
    return table


_TABLE = _table()
