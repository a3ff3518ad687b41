"""The process that takes real steps: a request of JSON on stdin, a line of JSON per workload on stdout.

Run as `python -m presage.estimators.training.measuring._child`. Every workload is measured in a process forked
from this one, so that none inherits the memory of another and torch is imported once. What the user's code
prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

import torch

from presage.errors import PresageError
from presage.estimators.training.sources import SOURCES, load_source
from presage.estimators.training.tracing.losses import usual_loss
from presage.estimators.training.tracing.optimizers import make_optimizer

if TYPE_CHECKING:
    from presage.estimators.training.sources import ModelSource

_AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
_SLOW = 1e-7
"""Steps so small that the network stays as it was, and every step takes what the first one does."""


class _Loop:
    """The training loop of one workload, a step at a time."""

    def __init__(self, workload: dict[str, Any], device: str) -> None:
        torch.manual_seed(0)
        self.options = workload["options"]
        self.device = torch.device(device)
        self.source = self._source(workload)
        self.module = self.source.build().to(self.device).train()
        if self.options["precision"] == "bf16":
            self.module = self.module.to(torch.bfloat16)
        self.inputs = self._inputs()
        self.optimizer = make_optimizer(self.options["optimizer"], self.module, on_gpu=self.device.type == "cuda")

    @staticmethod
    def _source(workload: dict[str, Any]) -> ModelSource:
        shapes = tuple(tuple(shape) for shape in workload["inputs"])
        return load_source(workload["model"], shapes, tuple(workload["input_kinds"]))

    def _inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values, named = self.source.example_inputs(self.options["batch"])
        return tuple(map(self._real, values)), {name: self._real(value) for name, value in named.items()}

    def _real(self, value: Any) -> Any:
        """Zeros would make some operators faster than data do."""
        if not isinstance(value, torch.Tensor):
            return value
        if value.is_floating_point():
            value = torch.randn_like(value)
            value = value.to(torch.bfloat16) if self.options["precision"] == "bf16" else value
        return value.to(self.device)

    def step(self) -> None:
        """Change the weights once, and wait until it is done."""
        for _ in range(self.options["accumulation"]):
            self._pass()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _pass(self) -> None:
        values, named = self.inputs
        number = _AUTOCAST.get(self.options["precision"])
        cast = torch.autocast(self.device.type, number) if number else contextlib.nullcontext()
        with cast:
            outputs = self.module(*values, **named)
            loss = self.source.loss(outputs, self.inputs)
            if loss is None:
                loss = usual_loss(outputs)
        loss.backward()


def _measured(workload: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    begin = time.perf_counter()
    loop = _Loop(workload, asked["device"])
    startup_s = time.perf_counter() - begin
    cpu_s, wall_s = [], []
    for _ in range(asked["warm_up"] + asked["steps"]):
        wall, cpu = time.perf_counter(), time.process_time()
        loop.step()
        wall_s.append(time.perf_counter() - wall)
        cpu_s.append(time.process_time() - cpu)
        if time.perf_counter() - begin > asked["each_s"]:
            break
    keep = slice(min(asked["warm_up"], len(wall_s) - 1), None)
    return {"cpu_s": cpu_s[keep], "wall_s": wall_s[keep], "startup_s": startup_s}


def _answer(workload: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return _measured(workload, asked)
    except PresageError as error:
        return {"error": error.as_dict()}
    except Exception as error:  # noqa: BLE001  (the user's own code, of which nothing is known)
        text = " ".join(str(error).split())[:600]
        return {"error": {"problem": f"{type(error).__name__} in a real step of {workload['model']!r}: {text}"}}


def _in_a_fork(workload: dict[str, Any], asked: dict[str, Any], answers: TextIO) -> None:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            problem = f"The process that took real steps of {workload['model']!r} ended with status {status}"
            _tell({"error": {"problem": problem}}, answers)
        return
    _tell(_answer(workload, asked), answers)
    os._exit(0)  # nothing of the parent's is to be closed twice


def _tell(answer: dict[str, Any], answers: TextIO) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def main() -> None:
    """Measure what was asked for, in order."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asked = json.load(sys.stdin)
    torch.set_num_threads(asked["threads"])
    # Made-up targets are soon learned, and the rest of their gradients is slow to compute with; unlike real ones.
    torch.set_flush_denormal(True)
    # What these import is not each network's own to pay for.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    SOURCES.load_all()
    asker = os.getppid()
    for workload in asked["workloads"]:
        if os.getppid() != asker:  # who asked is gone, and nobody listens
            return
        if asked["device"] == "cpu" and hasattr(os, "fork"):
            _in_a_fork(workload, asked, answers)
        else:  # CUDA does not survive a fork
            _tell(_answer(workload, asked), answers)


if __name__ == "__main__":
    main()
