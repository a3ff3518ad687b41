"""What a step of a training really allocates on this machine's CPU, by torch's own profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.profiler import ProfilerActivity, profile

from presage.estimators.training.tracing.kernels import precision_of
from presage.estimators.training.tracing.losses import usual_loss
from presage.estimators.training.tracing.networks import recompute_blocks
from presage.estimators.training.tracing.optimizers import make_optimizer

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    from presage.estimators.workloads import TrainingOptions

_STEPS = 2


def measure_peak(
    build: Callable[[], nn.Module],
    inputs: Callable[[], tuple[Any, ...]],
    options: TrainingOptions,
    *,
    all_at_once: bool = False,
) -> int:
    """Return the most bytes that torch's allocator had out at once while a network was built and trained.

    The steps are real ones, so call it only where their memory and time are to be had. `all_at_once` takes the
    optimizer that GPUs have, for all weights in one call.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as watched:
        network = build().train()
        if options.activation_checkpointing:
            recompute_blocks(network)
        arguments = inputs()
        optimizer = make_optimizer(options.optimizer, network, on_gpu=all_at_once)
        for _ in range(_STEPS):
            _step(network, optimizer, arguments, options)
    return _peak(watched)


def _step(
    network: nn.Module, optimizer: torch.optim.Optimizer, inputs: tuple[Any, ...], options: TrainingOptions
) -> None:
    for _ in range(options.accumulation):
        with precision_of(options.precision, on_gpu=False):
            outputs = network(*inputs)
            loss = usual_loss(outputs)
        (loss / options.accumulation if options.accumulation > 1 else loss).backward()
        del outputs, loss
    optimizer.step()
    optimizer.zero_grad()


def _peak(watched: Any) -> int:
    changes = sorted(
        (event.start_ns(), event.nbytes())
        for event in watched.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    alive = peak = 0
    for _, change in changes:
        alive += change
        peak = max(peak, alive)
    return peak
