from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from presage.client.utilization import Meter, gpu_utilization

CARDS = """0, GPU-aaaa-1, 80, 1024, 40960
1, GPU-bbbb-2, 40, 2048, 40960
2, GPU-cccc-3, [N/A], [N/A], 40960
"""


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that says how many GPUs there are, and counts how often it was asked."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho asked >> {tmp_path / 'asked'}\ncat <<'END'\n{CARDS}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "asked"


def read_with_gpus(meter: Meter) -> dict[str, float]:
    meter.read()
    deadline = time.monotonic() + 10
    while "gpus" not in (found := meter.read()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (
            None,
            {"gpus": 3, "gpu_percent": 60, "gpu_memory_bytes": 3072 << 20, "gpu_memory_total_bytes": 122880 << 20},
        ),
        (
            "1",
            {"gpus": 1, "gpu_percent": 40, "gpu_memory_bytes": 2048 << 20, "gpu_memory_total_bytes": 40960 << 20},
        ),
        (
            "GPU-aaaa",
            {"gpus": 1, "gpu_percent": 80, "gpu_memory_bytes": 1 << 30, "gpu_memory_total_bytes": 40 << 30},
        ),
        ("2", {"gpus": 1, "gpu_memory_total_bytes": 40 << 30}),  # a part of a card says nothing of the whole
        ("", {}),
    ],
)
def test_gpus_are_those_that_the_job_may_use(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: dict[str, float]
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_utilization() == expected


def test_gpus_are_asked_about_rarely_and_in_the_background(nvidia_smi: Path) -> None:
    meter = Meter(gpu_every_s=60)
    found = read_with_gpus(meter)
    assert found["gpu_percent"] == 60
    for _ in range(20):
        assert meter.read()["gpus"] == 3
    assert nvidia_smi.read_text().split() == ["asked"]


def test_one_that_fails_is_not_asked_for_ever(nvidia_smi: Path, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho asked >> {nvidia_smi}\nexit 9\n")
    meter = Meter(gpu_every_s=0)
    deadline = time.monotonic() + 10
    while meter._failures < 2 and time.monotonic() < deadline:
        meter.read()
        time.sleep(0.01)
    for _ in range(5):
        assert "gpus" not in meter.read()
    assert len(nvidia_smi.read_text().split()) == 2


def test_processors_in_use_are_measured_between_two_looks() -> None:
    meter = Meter()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        sum(range(1000))
    found = meter.read()
    assert found["cores"] > 0.02
    assert found["cpu_s"] > 0.1
    assert found["max_rss_bytes"] > 1e6


def test_what_torch_holds_of_gpus_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        is_initialized = staticmethod(lambda: True)
        device_count = staticmethod(lambda: 2)
        max_memory_reserved = staticmethod(lambda device: 100 + device)

    class Torch:
        cuda: Any = Cuda

    monkeypatch.setitem(__import__("sys").modules, "torch", Torch)  # type: ignore[arg-type]  # enough of one
    assert Meter().read()["gpu_max_bytes"] == 201


def test_the_memory_of_the_process_that_started_it_is_not_counted() -> None:
    held = bytearray(400 << 20)
    held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])  # so that it is really there
    code = "from presage.client.utilization import Meter; print(Meter().read()['max_rss_bytes'])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 1 << 20 < float(told) < 300 << 20
    assert len(held) == 400 << 20
