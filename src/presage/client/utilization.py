"""What a training uses of the machine: processors, memory, GPUs. Nothing here keeps the training waiting."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

GPU_EVERY_S = 60.0
_TIMEOUT_S = 10.0
_MOST_FAILURES = 2
_KIB = 1024
_MIB = 1 << 20
_QUERY = "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total"
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Meter:
    """Reads what this process uses. GPUs are asked about at most every `gpu_every_s`, in the background."""

    def __init__(self, gpu_every_s: float = GPU_EVERY_S) -> None:
        self._gpu_every_s = gpu_every_s
        self._last = (time.monotonic(), _cpu_s())
        self._gpus: dict[str, float] = {}
        self._asked_s: float | None = None
        self._failures = 0
        self._asking: threading.Thread | None = None

    def read(self) -> dict[str, float]:
        """Return processor seconds since it began, processors used lately, bytes of memory at the most, and GPUs.

        GPUs are those that `nvidia-smi` knew when it was asked last; nothing is said of them before that.
        """
        now_s, cpu_s = time.monotonic(), _cpu_s()
        before_s, before_cpu_s = self._last
        self._last = (now_s, cpu_s)
        self._ask_for_gpus(now_s)
        found = {"cpu_s": cpu_s, "max_rss_bytes": float(_most_bytes())}
        if now_s > before_s:
            found["cores"] = round((cpu_s - before_cpu_s) / (now_s - before_s), 3)
        return {**found, **self._gpus, **_reserved()}

    def _ask_for_gpus(self, now_s: float) -> None:
        is_due = self._asked_s is None or now_s - self._asked_s >= self._gpu_every_s
        is_busy = self._asking is not None and self._asking.is_alive()
        if not is_due or is_busy or self._failures >= _MOST_FAILURES:
            return
        self._asked_s = now_s
        self._asking = threading.Thread(target=self._take_gpus, name="presage-gpus", daemon=True)
        self._asking.start()

    def _take_gpus(self) -> None:
        try:
            self._gpus = gpu_utilization()
        except (OSError, subprocess.SubprocessError, ValueError):
            self._gpus = {}
            self._failures += 1


def gpu_utilization() -> dict[str, float]:
    """Return how many GPUs this process may use, how busy they are and their memory, by `nvidia-smi`.

    Raises OSError where there is none, SubprocessError if it fails, ValueError if it is not understood.
    """
    answer = subprocess.run(  # noqa: S603  (nothing of it is anybody's input)
        ["nvidia-smi", _QUERY, "--format=csv,noheader,nounits"],  # noqa: S607  (wherever the site has it)
        check=True, capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL,
    ).stdout  # fmt: skip
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.splitlines() if line.strip()]
    visible = os.environ.get(_VISIBLE)
    if visible is not None:
        names = {name.strip() for name in visible.split(",")}
        rows = [row for row in rows if row[0] in names or any(row[1].startswith(name) for name in names if name)]
    if not rows:
        return {}
    busy, used, total = zip(*((row[2], row[3], row[4]) for row in rows if len(row) == 5), strict=True)
    figures = {
        "gpus": float(len(rows)),
        "gpu_percent": _mean(busy),
        "gpu_memory_bytes": _sum_mib(used),
        "gpu_memory_total_bytes": _sum_mib(total),
    }
    return {name: each for name, each in figures.items() if each is not None}


def _mean(cells: tuple[str, ...]) -> float | None:
    known = [float(cell) for cell in cells if cell.replace(".", "", 1).isdigit()]
    return round(sum(known) / len(known), 1) if known else None


def _sum_mib(cells: tuple[str, ...]) -> float | None:
    known = [float(cell) for cell in cells if cell.replace(".", "", 1).isdigit()]
    return sum(known) * _MIB if known else None


def _reserved() -> dict[str, float]:
    """Return what torch has had of the GPUs at the most, if this process uses it on some."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return {}
    devices = range(torch.cuda.device_count())
    return {"gpu_max_bytes": float(sum(torch.cuda.max_memory_reserved(each) for each in devices))}


def _usage() -> resource.struct_rusage:
    return resource.getrusage(resource.RUSAGE_SELF)


def _cpu_s() -> float:
    used = _usage()
    return used.ru_utime + used.ru_stime


def _most_bytes() -> int:
    """Return the most memory that this process had; its usage would count what its parent had when it forked."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * _KIB
    except (OSError, StopIteration, ValueError, IndexError):
        return _usage().ru_maxrss * _KIB
