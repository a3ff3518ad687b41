"""Two steps of a training on fake memory, and the profile that comes of the second."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)

from presage.errors import InputError, PresageError, UsageError
from presage.estimators.training.profile import StepProfile
from presage.estimators.training.tracing.counter import StepCounter
from presage.estimators.training.tracing.kernels import kernels_for, precision_of
from presage.estimators.training.tracing.ledger import Footprint, Ledger, Piece, Use
from presage.estimators.training.tracing.losses import usual_loss
from presage.estimators.training.tracing.memo import Memo
from presage.estimators.training.tracing.networks import (
    convert_tensors,
    largest_unit_bytes,
    recompute_blocks,
    repeated_blocks,
)
from presage.estimators.training.tracing.operators import tensors_in
from presage.estimators.training.tracing.optimizers import make_optimizer
from presage.estimators.workloads import Attention, Precision, Sharding, TrainingOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

# One for the life of the process: a module of the user's that keeps a tensor from one request to the next would
# else mix two of them, which torch forbids.
_FAKE = FakeTensorMode(allow_non_fake_inputs=True)
_MEMO = Memo(_FAKE)


class Source(Protocol):
    """What has a network; a `ModelSource` is one."""

    notes: tuple[str, ...]

    def build(self) -> nn.Module:
        """Return the network."""

    def example_inputs(self, batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments of a forward pass."""

    def loss(self, outputs: Any, inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> torch.Tensor | None:
        """Return what is learned from, None for the usual."""

    def explain(self, error: BaseException, doing: str) -> InputError:
        """Return an error in the user's terms."""


def trace_step(source: Source, options: TrainingOptions, *, on_gpu: bool) -> StepProfile:
    """Return what a step takes, with the kernels that torch would run on such a device.

    Nothing is computed, and no memory for weights or activations is needed. Raises InputError where the network
    cannot be run without values or not with these inputs, UsageError for options that make no sense.
    """
    _check(options)
    tracing = _Tracing(source, options, on_gpu=on_gpu)
    gc.collect()
    gc.disable()  # when it runs would else decide when a cycle's memory is freed
    try:
        with kernels_for(options.attention, on_gpu=on_gpu):
            return tracing.run()
    finally:
        gc.enable()


class _Tracing:
    def __init__(self, source: Source, options: TrainingOptions, *, on_gpu: bool) -> None:
        self.source = source
        self.options = options
        self.on_gpu = on_gpu
        self.counter = StepCounter(_MEMO, on_gpu=on_gpu)
        self.notes: list[str] = []

    def run(self) -> StepProfile:
        network = self._build()
        with _FAKE:
            self._prepare(network)
            self._enter(network, self.counter.ledger)
            with self._explaining("making inputs"):
                inputs = self._inputs()
            with self.counter:
                optimizer = make_optimizer(self.options.optimizer, network, on_gpu=self.on_gpu)
                for counted in (False, True):
                    self._step(network, optimizer, inputs, counted=counted)
            return self._profile(network)

    def _build(self) -> nn.Module:
        try:
            with _FAKE:
                network = self.source.build()
        except InputError:
            # Some read numbers while they are built. In real memory that works, or tells what is really wrong.
            network = self.source.build()
        if not any(weight.requires_grad for weight in network.parameters()):
            raise InputError(
                "The network has no weights that could be trained", expected="a weight with requires_grad"
            )
        return network.train()

    def _prepare(self, network: nn.Module) -> None:
        convert_tensors(network, _on_fake_memory)
        if self.options.precision is Precision.BF16:
            convert_tensors(network, _in_bf16)
        if self.options.activation_checkpointing and not recompute_blocks(network):
            self.notes.append(
                "Activation checkpointing changes nothing here: the network has no list of repeated blocks."
            )

    def _enter(self, network: nn.Module, ledger: Ledger) -> None:
        for tensor in (*network.parameters(), *network.buffers()):
            ledger.see(tensor.untyped_storage(), Use.PARAMETER)
        for weight in network.parameters():
            if weight.requires_grad:
                weight.register_post_accumulate_grad_hook(
                    lambda weight: ledger.see(weight.grad.untyped_storage(), Use.GRADIENT)
                )

    def _inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        convert = _in_bf16 if self.options.precision is Precision.BF16 else _on_fake_memory
        positional, named = self.source.example_inputs(self.options.batch)
        inputs = (
            tuple(_mapped(each, convert) for each in positional),
            {name: _mapped(each, convert) for name, each in named.items()},
        )
        for tensor in tensors_in((*inputs[0], *inputs[1].values())):
            self.counter.ledger.see(tensor.untyped_storage())
        return inputs

    def _step(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        inputs: tuple[tuple[Any, ...], dict[str, Any]],
        *,
        counted: bool,
    ) -> None:
        accumulation = self.options.accumulation
        # From the second pass on all are alike: gradients are added to those that are there.
        for times in (1, accumulation - 1)[: min(accumulation, 2)]:
            self.counter.weight = times if counted else 0
            self._forward_and_backward(network, inputs)
        self.counter.weight = int(counted)
        self.counter.in_optimizer = True
        optimizer.step()
        self.counter.in_optimizer = False
        self._mark_state(optimizer)
        optimizer.zero_grad()

    def _forward_and_backward(self, network: nn.Module, inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        with self._explaining("running the network forward"):
            with precision_of(self.options.precision, on_gpu=self.on_gpu):
                outputs = network(*inputs[0], **inputs[1])
                loss = self.source.loss(outputs, inputs)
                if loss is None:
                    loss = usual_loss(outputs)
            if self.options.accumulation > 1:
                loss = loss / self.options.accumulation
        with self._explaining("running the network backward"):
            loss.backward()

    def _mark_state(self, optimizer: torch.optim.Optimizer) -> None:
        for state in optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, torch.Tensor):
                    use = Use.HOST if self.on_gpu and name == "step" else Use.OPTIMIZER
                    self.counter.ledger.see(value.untyped_storage(), use)

    @contextlib.contextmanager
    def _explaining(self, doing: str) -> Iterator[None]:
        try:
            yield
        except PresageError:
            raise
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise InputError(
                f"While {doing}: what the network does depends on the values it meets ({error})",
                expected="sizes and branches that depend on shapes alone",
                remedy="Give a variant of the network without .item(), nonzero or branches on values",
            ) from error
        except Exception as error:
            raise self.source.explain(error, doing) from error

    def _profile(self, network: nn.Module) -> StepProfile:
        footprint = self._footprint(network)
        weights = list(network.parameters())
        if self.counter.looked_at_truth:
            self.notes.append("The network branches on values; each such question was answered with no.")
        unverified = _unverified(self.options)
        return StepProfile(
            digest=self._digest(),
            batch=self.options.batch,
            parameter_count=sum(weight.numel() for weight in weights),
            parameter_bytes=sum(weight.numel() * weight.element_size() for weight in weights),
            peak_bytes=footprint.peak_bytes,
            reserved_bytes=footprint.reserved_bytes,
            parts=footprint.parts,
            classes=self.counter.classes,
            largest_layer_bytes=largest_unit_bytes(network),
            verified=not unverified,
            notes=(*self.source.notes, *self.notes, *unverified, *self._attention_note()),
            device="gpu" if self.on_gpu else "cpu",
            extra={"allocations": footprint.allocations, "blocks": len(repeated_blocks(network))},
        )

    def _footprint(self, network: nn.Module) -> Footprint:
        ledger, options = self.counter.ledger, self.options
        ledger.close()
        workers = options.workers if options.sharding is Sharding.FSDP else 1
        extra: tuple[int, ...] = ()
        if options.workers > 1 and options.sharding is Sharding.DDP:
            extra = (sum(each.size for each in ledger.pieces if each.use is Use.PARAMETER),)
        elif workers > 1:
            unit = largest_unit_bytes(network)
            extra = (unit, unit, unit)

        def size_of(piece: Piece) -> int:
            if piece.use is Use.HOST:
                return 0
            return piece.size if piece.use is Use.ACTIVATION else -(-piece.size // workers)

        return ledger.footprint(size_of, extra)

    def _digest(self) -> str:
        options = json.dumps(asdict(self.options), sort_keys=True)
        return hashlib.sha256(f"{self.counter.graph_digest} {options} {self.on_gpu}".encode()).hexdigest()

    def _attention_note(self) -> tuple[str, ...]:
        if self.options.attention is Attention.AS_WRITTEN or "attention" in self.counter.classes:
            return ()
        if self.options.attention is Attention.MATERIALISED:
            return ()
        return ("The network writes its attention out, if it has any: no kernel can take its place.",)


def _check(options: TrainingOptions) -> None:
    for name in ("batch", "accumulation", "workers"):
        if getattr(options, name) < 1:
            raise UsageError(f"{name} is {getattr(options, name)}", expected="1 or more")


def _unverified(options: TrainingOptions) -> list[str]:
    notes = []
    if options.precision in (Precision.AMP_BF16, Precision.AMP_FP16, Precision.BF16):
        notes.append(f"Memory in {options.precision.value} is modelled; it was not checked on a GPU.")
    if options.attention is Attention.FLASH:
        notes.append("Memory with flash attention is modelled; it was not checked on a GPU.")
    if options.workers > 1 and options.sharding is Sharding.DDP:
        notes.append("Modelled for DDP, unchecked on GPUs: a copy of all gradients in buckets beside them.")
    if options.workers > 1 and options.sharding is Sharding.FSDP:
        notes.append(
            "Modelled for FSDP, unchecked on GPUs: weights, gradients and optimizer state in "
            f"{options.workers} parts, and gathered the weights of two of the largest blocks and gradients of one."
        )
    return notes


def _on_fake_memory(tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, FakeTensor) and tensor.device.type == "cpu":
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def _in_bf16(tensor: torch.Tensor) -> torch.Tensor:
    fake = _on_fake_memory(tensor)
    return fake.to(torch.bfloat16) if fake.is_floating_point() else fake


def _mapped(value: Any, convert: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return convert(value)
    if type(value) in (list, tuple):
        return type(value)(_mapped(each, convert) for each in value)
    if type(value) is dict:
        return {name: _mapped(each, convert) for name, each in value.items()}
    return value
