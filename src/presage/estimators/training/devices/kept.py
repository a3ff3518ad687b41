"""Devices that were measured: the one that comes with Presage, and those calibrated on this machine."""

from __future__ import annotations

import json
import platform
import re
from importlib.resources import files
from typing import TYPE_CHECKING

from presage.database.places import state_home
from presage.errors import OutputError
from presage.estimators.training.devices.model import DeviceModel, parse_device

if TYPE_CHECKING:
    from pathlib import Path

_SHIPPED = "x86-core.json"
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def shipped_core() -> DeviceModel:
    """Return one core of an x86 server, as measured for this version."""
    source = files("presage.estimators.training.devices") / "shipped" / _SHIPPED
    return parse_device(source.read_bytes(), _SHIPPED)


def calibrated_device(folder: Path | None = None, host: str | None = None) -> DeviceModel | None:
    """Return the device calibrated on this host, None if there is none. Raises InputError for a broken file."""
    path = _place(folder, host)
    try:
        return parse_device(path.read_bytes(), str(path))
    except OSError:
        return None


def keep_device(device: DeviceModel, folder: Path | None = None, host: str | None = None) -> Path:
    """Write the device of this host into the state folder and return the file. Raises OutputError."""
    path = _place(folder, host)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(device.as_dict(), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    return path


def _place(folder: Path | None, host: str | None) -> Path:
    name = _PLAIN.sub("-", host or platform.node()) or "this-machine"
    return (folder or state_home() / "devices") / f"{name}.json"
