"""The process that traces may fail in every way, and the one that asks goes on."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

torch = pytest.importorskip("torch")

from presage.errors import InputError, UnknownNameError  # noqa: E402
from presage.estimators.training.isolation import Tracer, trace_object  # noqa: E402
from presage.estimators.workloads import TrainingOptions, TrainingWorkload  # noqa: E402

NETWORKS = """
import os
import sys

from torch import nn


def build(width=16):
    print("the user's own words")
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))


def abort():
    print("last words", file=sys.stderr, flush=True)
    os.abort()


def loop():
    while True:
        pass


class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(9, 9)

    def forward(self, row):
        return self.inner(row)
"""


@pytest.fixture(scope="module")
def network_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("networks") / "train.py"
    path.write_text(NETWORKS, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    with Tracer() as made:
        yield made


def workload(path: Path, function: str, batch: int = 4) -> TrainingWorkload:
    return TrainingWorkload(f"{path}:{function}", ((8,),), options=TrainingOptions(batch=batch, optimizer="sgd"))


def test_one_process_answers_many_requests(tracer: Tracer, network_file: Path) -> None:
    small, large = (tracer.profile(workload(network_file, "build", batch)) for batch in (4, 4000))
    process = tracer._process
    wide = tracer.profile(workload(network_file, "build?width=32"), device="gpu")
    assert tracer._process is process
    assert small.parameter_count == large.parameter_count == 8 * 16 + 16 + 16 * 4 + 4
    assert small.peak_bytes < large.peak_bytes
    assert wide.parameter_count == 8 * 32 + 32 + 32 * 4 + 4
    assert wide.device == "gpu"


def test_a_file_is_that_of_the_folder_one_works_in(
    tracer: Tracer, network_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = NETWORKS.replace("width=16", "width=20")
    assert other != NETWORKS
    (tmp_path / "train.py").write_text(other, encoding="utf-8")
    found = []
    for folder in (network_file.parent, tmp_path):
        monkeypatch.chdir(folder)
        found.append(tracer.profile(workload(Path("train.py"), "build")).parameter_count)
    assert found == [8 * 16 + 16 + 16 * 4 + 4, 8 * 20 + 20 + 20 * 4 + 4]


def test_errors_show_the_users_own_lines(tracer: Tracer, network_file: Path) -> None:
    with pytest.raises(InputError, match=r"train\.py, line \d+, in forward: return self\.inner\(row\)"):
        tracer.profile(workload(network_file, "Wrong"))
    with pytest.raises(InputError, match="nothing named 'biuld'"):
        tracer.profile(workload(network_file, "biuld"))
    with pytest.raises(UnknownNameError, match="device"):
        tracer.profile(workload(network_file, "build"), device="tpu")


def test_a_process_that_hangs_or_ends_is_named_and_replaced(tracer: Tracer, network_file: Path) -> None:
    tracer.profile(workload(network_file, "build"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracer, "timeout_s", 1.0)
        begin = time.monotonic()
        with pytest.raises(InputError, match="more than 1 s"):
            tracer.profile(workload(network_file, "loop"))
        assert time.monotonic() - begin < 20
    with pytest.raises(InputError, match="SIGABRT: last words"):
        tracer.profile(workload(network_file, "abort"))
    assert tracer.profile(workload(network_file, "build")).batch == 4


def test_an_object_is_traced_in_a_fork_and_stays_as_it_is() -> None:
    module = torch.nn.Linear(8, 4)
    module(torch.ones(2, 8)).sum().backward()  # autograd was used before, as in any notebook
    before = module.weight.detach().clone()
    profile = trace_object(module, torch.ones(2, 8), TrainingOptions(batch=50))
    named = trace_object(lambda: module, {"input": torch.ones(2, 8)}, TrainingOptions(batch=50), loss=torch.sum)
    assert profile.batch == named.batch == 50
    assert profile.parameter_count == 36
    assert torch.equal(module.weight, before)
    assert not isinstance(module.weight, torch._subclasses.fake_tensor.FakeTensor)


class BoundToProcess:
    """Garbage, by a cycle, that may be ended only where it was made, like a client with threads of its own."""

    def __init__(self) -> None:
        self.cycle, self.process = self, os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os.kill(os.getpid(), signal.SIGSEGV)


def test_garbage_of_this_process_is_not_ended_in_the_fork() -> None:
    gc.disable()
    try:
        BoundToProcess()
        profile = trace_object(torch.nn.Linear(8, 4), torch.ones(2, 8), TrainingOptions(batch=2))
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert profile.parameter_count == 36
    trace_object(torch.nn.Linear(8, 4), torch.ones(2, 8), TrainingOptions(batch=2))
    assert gc.isenabled()


def test_a_fork_that_fails_is_an_error_here() -> None:
    def leave() -> NoReturn:
        os._exit(7)

    with pytest.raises(InputError, match="status 7"):
        trace_object(leave, torch.ones(2, 8), TrainingOptions())
    with pytest.raises(InputError, match=r"more than 0\.5 s"):
        trace_object(lambda: time.sleep(60), torch.ones(2, 8), TrainingOptions(), timeout_s=0.5)
    with pytest.raises(InputError, match="running the network forward"):
        trace_object(torch.nn.Linear(8, 4), torch.ones(2, 9), TrainingOptions())
