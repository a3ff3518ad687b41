"""Memory of a training from its profile, on a GPU and on a node without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from presage.clusters.charges import Share
from presage.clusters.gpus import find_gpu
from presage.clusters.systems import NodeType
from presage.estimators import Basis, EstimateRequest, Quantity, UnsupportedError
from presage.estimators.training import memory
from presage.estimators.training.memory import CUDA_CONTEXT, INTERPRETER, TrainingMemory
from presage.estimators.training.profile import MemoryParts, StepProfile
from presage.estimators.workloads import ScriptWorkload, Target, TrainingOptions, TrainingWorkload

GIB = 1 << 30
PROFILE = StepProfile(
    digest="d", batch=32, parameter_count=1000, parameter_bytes=4000, peak_bytes=9 * GIB, reserved_bytes=10 * GIB,
    parts=MemoryParts(GIB, GIB, 2 * GIB, 5 * GIB), classes={}, notes=("of the profile",), device="gpu",
)  # fmt: skip
WORKLOAD = TrainingWorkload("train.py:build", ((3,),))
NODE = NodeType("node", cores=40, memory_bytes=100 * GIB, gpus=2, gpu="v100-32")
ON_GPU = Target("pitzer", "gpu", NODE, Share(1, 8, gpus=1), find_gpu("v100-32"))
ON_CPU = Target("pitzer", "cpu", NODE, Share(2, 40))


def ask(target: Target | None, profile: StepProfile = PROFILE, workload: TrainingWorkload = WORKLOAD):  # noqa: ANN201
    return TrainingMemory().estimate(EstimateRequest(Quantity.MEMORY, workload, target, profile))


def test_a_gpu_holds_what_the_allocator_reserves_and_its_context() -> None:
    answer = ask(ON_GPU)
    assert answer.spread.p50 == 10 * GIB + CUDA_CONTEXT.p50
    assert answer.spread.p90 > 10.5 * GIB + CUDA_CONTEXT.p50
    assert answer.basis is Basis.UNVERIFIED
    assert "of the profile" in answer.notes
    assert answer.details["parts_bytes"]["optimizer"] == 2 * GIB
    assert not any("kernels of a CPU" in note for note in answer.notes)


@pytest.mark.parametrize("target", [ON_CPU, None])
def test_a_cpu_holds_the_peak_and_the_interpreter(target: Target | None) -> None:
    answer = ask(target, replace(PROFILE, device="cpu"))
    assert answer.spread.p50 == 9 * GIB + INTERPRETER.p50
    assert answer.spread.p90 < 9.2 * GIB + INTERPRETER.p90
    assert answer.basis is Basis.MODELLED
    assert answer.details["verified"]


def test_each_process_of_a_node_has_its_own() -> None:
    workload = replace(WORKLOAD, options=TrainingOptions(workers=4))
    assert ask(ON_CPU, workload=workload).spread.p50 == 2 * (9 * GIB + INTERPRETER.p50)


def test_what_could_not_be_checked_is_said() -> None:
    assert ask(ON_CPU, replace(PROFILE, verified=False)).basis is Basis.UNVERIFIED
    assert any("kernels of a CPU" in note for note in ask(ON_GPU, replace(PROFILE, device="cpu")).notes)


def test_a_profile_of_another_batch_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[tuple[int, str]] = []

    def profile_step(workload: TrainingWorkload, *, device: str) -> StepProfile:
        traced.append((workload.options.batch, device))
        return replace(PROFILE, batch=workload.options.batch)

    monkeypatch.setattr(memory, "profile_step", profile_step)
    workload = replace(WORKLOAD, options=TrainingOptions(batch=64))
    for target in (ON_GPU, ON_CPU):
        assert ask(target, workload=workload).details["batch"] == 64
    assert traced == [(64, "gpu"), (64, "cpu")]


def test_scripts_are_for_others() -> None:
    with pytest.raises(UnsupportedError):
        TrainingMemory().estimate(EstimateRequest(Quantity.MEMORY, ScriptWorkload("run.sh")))


def test_from_the_users_file_to_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "train.py").write_text(
        "from torch import nn\ndef build():\n    return nn.Linear(1024, 1024, bias=False)\n", encoding="utf-8"
    )
    workload = TrainingWorkload(f"{tmp_path}/train.py:build", ((1024,),), options=TrainingOptions(batch=1))
    answer = TrainingMemory().estimate(EstimateRequest(Quantity.MEMORY, workload, ON_GPU))
    weights = 4 * 1024 * 1024
    assert answer.details["parts_bytes"]["optimizer"] == 2 * weights
    assert answer.details["peak_bytes"] >= 5 * weights
    assert len(list((tmp_path / "cache" / "presage" / "profiles").iterdir())) == 1
