"""A few real steps of a training on this machine, timed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, MissingDependencyError, PresageError
from presage.estimators._base import UnsupportedError
from presage.estimators.workloads import Precision, Sharding
from presage.fanout import processors_to_use

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from presage.estimators.workloads import TrainingWorkload

_CHILD = "presage.estimators.training.measuring._child"
_IMPORT_S = 60.0
_BUSY = 1.15
"""How much longer than its CPU time a step may take before the machine counts as busy with other things."""
_LAST_WORDS = 400


@dataclass(frozen=True)
class StepTimes:
    """The steps that were timed, without those to warm up."""

    cpu_s: tuple[float, ...]
    wall_s: tuple[float, ...]
    startup_s: float
    """To build the network and its optimizer, once torch is there."""
    threads: int = 1
    device: str = "cpu"

    @property
    def shared(self) -> bool:
        """Other processes took so much of the only core in use that its CPU time says more than the clock."""
        one_core = self.device == "cpu" and self.threads == 1
        return one_core and median(self.wall_s) > _BUSY * median(self.cpu_s)

    @property
    def seconds(self) -> float:
        """The median step: by the clock, or in CPU time where the core was shared."""
        return median(self.cpu_s if self.shared else self.wall_s)

    @property
    def variation(self) -> float:
        """Standard deviation of the steps by their mean; 0 of a single one."""
        steps = np.array(self.cpu_s if self.shared else self.wall_s)
        return float(steps.std(ddof=1) / steps.mean()) if len(steps) > 1 else 0.0


def measure_steps(
    workload: TrainingWorkload,
    *,
    steps: int = 5,
    warm_up: int = 2,
    threads: int | None = None,
    device: str = "cpu",
    most_s: float = 300.0,
) -> StepTimes:
    """Return the times of a few real steps. Runs the user's code in a process of its own.

    It has as many threads as there are cores to use, unless `threads` says otherwise. Fewer steps are taken if
    they would take more than `most_s`. Raises InputError where the network cannot be trained here,
    UnsupportedError for what one device cannot show, MissingDependencyError without torch.
    """
    threads = threads or processors_to_use()
    return next(
        measure_each([workload], steps=steps, warm_up=warm_up, threads=threads, device=device, each_s=most_s)
    )


def measure_each(
    workloads: Sequence[TrainingWorkload],
    *,
    steps: int = 5,
    warm_up: int = 2,
    threads: int = 1,
    device: str = "cpu",
    each_s: float = 300.0,
) -> Iterator[StepTimes]:
    """Yield the times of each workload in turn, as soon as it is measured. Raises as `measure_steps` does.

    Each has a process of its own, with one thread unless `threads` says otherwise.
    """
    if find_spec("torch") is None:
        raise MissingDependencyError("torch", extra="torch", purpose="Taking real steps of a training")
    for workload in workloads:
        _check(workload)
    asked = {
        "workloads": [asdict(workload) for workload in workloads],
        "steps": steps, "warm_up": warm_up, "threads": threads, "device": device, "each_s": each_s,
    }  # fmt: skip
    for answer in _answers(asked, len(workloads) * (each_s + _IMPORT_S)):
        if "error" in answer:
            raise _error(answer["error"])
        cpu_s, wall_s = tuple(answer["cpu_s"]), tuple(answer["wall_s"])
        yield StepTimes(cpu_s, wall_s, answer["startup_s"], threads, device)


def _check(workload: TrainingWorkload) -> None:
    options = workload.options
    if options.sharding is not Sharding.NONE or options.workers > 1 or options.activation_checkpointing:
        raise UnsupportedError(
            "Steps with several workers or activation checkpointing are not measured",
            remedy="Measure the steps of one worker, as written",
        )
    if options.precision is Precision.AMP_FP16:
        raise UnsupportedError("Steps in fp16 need a loss scaler and are not measured", expected="fp32 or bf16")


def _answers(asked: dict[str, Any], limit_s: float) -> Iterator[dict[str, Any]]:
    """Yield as many answers as there are workloads, or raise with the last words of the process."""
    threads = str(asked["threads"])
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    process = subprocess.Popen(  # noqa: S603  (our own module)
        [sys.executable, "-m", _CHILD],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    words: list[str] = []
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018  (all three are pipes)
    listener = threading.Thread(target=_keep_last, args=(process.stderr, words), daemon=True)
    listener.start()
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    try:
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
        for _ in asked["workloads"]:
            line = process.stdout.readline()
            if not line:
                break
            yield json.loads(line)
        else:
            return
        process.wait()
        late = not timer.is_alive()
        raise _silence(process.returncode, "".join(words)[-_LAST_WORDS:], limit_s if late else None)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        listener.join(timeout=5)


def _keep_last(stream: Any, words: list[str]) -> None:
    for line in stream:
        words.append(line)
        del words[:-20]
    stream.close()


def _silence(status: int, words: str, limit_s: float | None) -> PresageError:
    if limit_s is not None:
        return InputError(
            f"Real steps took more than {limit_s:g} s", remedy="Take fewer of them, or a smaller batch or network"
        )
    return InputError(
        f"The process that takes real steps ended with status {status}: {' '.join(words.split())}",
        remedy="See that the network trains on this machine, and that there is memory for it",
    )


def _error(parts: dict[str, str]) -> InputError:
    return InputError(parts["problem"], expected=parts.get("expected", ""), remedy=parts.get("remedy", ""))
