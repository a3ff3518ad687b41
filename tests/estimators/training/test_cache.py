"""Profiles that are found again, and those that must not be."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from presage.estimators.training.cache import ProfileCache, cache_folder, profile_key, profile_step
from presage.estimators.training.profile import MemoryParts, OperatorClass, StepProfile
from presage.estimators.workloads import Precision, TrainingOptions, TrainingWorkload

PROFILE = StepProfile(
    digest="d", batch=32, parameter_count=10, parameter_bytes=40, peak_bytes=1000, reserved_bytes=2 << 20,
    parts=MemoryParts(40, 40, 80, 840), classes={"matmul": OperatorClass(3, 1e6, 2e6)}, notes=("a note",),
)  # fmt: skip


class CountingTracer:
    def __init__(self) -> None:
        self.asked = 0

    def profile(self, workload: TrainingWorkload, *, device: str = "cpu") -> StepProfile:
        self.asked += 1
        return replace(PROFILE, batch=workload.options.batch, device=device)


@pytest.fixture
def network(tmp_path: Path) -> TrainingWorkload:
    (tmp_path / "parts.py").write_text("WIDTH = 3\n", encoding="utf-8")
    (tmp_path / "train.py").write_text("import parts\ndef build(): return parts.WIDTH\n", encoding="utf-8")
    return TrainingWorkload(f"{tmp_path}/train.py:build", ((3,),))


def test_what_is_known_is_not_traced_again(network: TrainingWorkload, tmp_path: Path) -> None:
    tracer, cache = CountingTracer(), ProfileCache(tmp_path / "cache")
    first = profile_step(network, tracer=tracer, cache=cache)
    assert profile_step(network, tracer=tracer, cache=cache) == first
    assert profile_step(replace(network, epochs=3, samples=100), tracer=tracer, cache=cache) == first
    assert tracer.asked == 1


def test_everything_that_matters_is_in_the_key(network: TrainingWorkload) -> None:
    folder = Path(network.model).parent
    keys = {profile_key(network, device=device) for device in ("cpu", "gpu")}
    others = (
        replace(network, inputs=((4,),)),
        replace(network, input_kinds=("int:5",)),
        replace(network, options=TrainingOptions(batch=33)),
        replace(network, options=TrainingOptions(precision=Precision.BF16)),
        replace(network, model=network.model + "?width=3"),
    )
    keys |= {profile_key(other, device="cpu") for other in others}
    (folder / "parts.py").write_text("WIDTH = 4\n", encoding="utf-8")
    keys.add(profile_key(network, device="cpu"))
    assert len(keys) == 2 + len(others) + 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"digest": 3}', "\x00\xff", "null"])
def test_damaged_entries_are_traced_anew(
    network: TrainingWorkload, tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    tracer, cache = CountingTracer(), ProfileCache(tmp_path / "cache")
    profile_step(network, tracer=tracer, cache=cache)
    (entry,) = cache.folder.iterdir()
    entry.write_text(content, encoding="latin-1")
    profile_step(network, tracer=tracer, cache=cache)
    assert tracer.asked == 2
    assert "cannot be used" in caplog.text
    assert cache.get(entry.stem) is not None


def test_a_folder_that_cannot_be_written_is_no_error(
    network: TrainingWorkload, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file in its place", encoding="utf-8")
    assert profile_step(network, tracer=CountingTracer(), cache=ProfileCache(tmp_path / "cache")).batch == 32
    assert "cannot be kept" in caplog.text


def test_many_writers_leave_one_whole_entry(tmp_path: Path) -> None:
    cache = ProfileCache(tmp_path)
    seen: list[StepProfile | None] = []

    def write_and_read() -> None:
        for _ in range(50):
            cache.put("key", PROFILE)
            seen.append(cache.get("key"))

    threads = [threading.Thread(target=write_and_read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [PROFILE] * 200
    assert [path.name for path in tmp_path.iterdir()] == ["key.json"]


def test_the_folder_follows_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "presage" / "profiles"
