"""Small networks of every usual kind: devices are calibrated by them, and estimates tried on them.

They are written here and need nothing but torch, which is imported when one is built. A step of each takes a
twentieth of a second to a second and a half on one core; `NETWORKS` has them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from presage.errors import UnknownNameError
from presage.estimators.workloads import TrainingOptions, TrainingWorkload

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor, nn

__all__ = ["NETWORKS", "Network", "build_network", "find_network"]


@dataclass(frozen=True)
class Network:
    """One network with inputs of one size. Its output is one tensor."""

    name: str
    kind: str
    """The network without its size; those of the same kind are left out together."""
    family: str
    """What it is made of: residual, plain-conv, depthwise, transformer, recurrent and so on."""
    build: Callable[[], nn.Module]
    input_shapes: tuple[tuple[int, ...], ...]
    """Of each input, without the batch."""
    batch: int
    input_kinds: tuple[str, ...] = ()
    """`float`, or `int:N` for whole numbers below N; all float if empty."""

    @property
    def workload(self) -> TrainingWorkload:
        """Its training with the usual options, for a batch of its own size."""
        return TrainingWorkload(
            self.spec, self.input_shapes, self.kinds, TrainingOptions(batch=self.batch), name=self.name
        )

    @property
    def spec(self) -> str:
        """Its name as a model source has it."""
        return f"{__name__}:build_network?name={self.name}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of every input."""
        return self.input_kinds or ("float",) * len(self.input_shapes)

    def inputs(self, batch: int | None = None, seed: int = 0) -> tuple[Tensor, ...]:
        """Return random inputs, the same ones for the same seed."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        size = self.batch if batch is None else batch
        return tuple(
            _draw((size, *shape), kind, generator)
            for shape, kind in zip(self.input_shapes, self.kinds, strict=True)
        )


def find_network(name: str) -> Network:
    """Return the network of that name. Raises UnknownNameError with the closest match."""
    for network in NETWORKS:
        if network.name == name:
            return network
    raise UnknownNameError("network", name, [network.name for network in NETWORKS])


def build_network(name: str) -> nn.Module:
    """Return a network by its name; the function that `Network.spec` names. Raises UnknownNameError."""
    return find_network(name).build()


def _later(place: str, *arguments: Any, **named: Any) -> Callable[[], nn.Module]:
    """Return a function that builds a network of a module beside this one; only then is torch imported."""
    module, _, name = place.partition(".")

    def build() -> nn.Module:
        made: nn.Module = getattr(import_module(f"{__name__}.{module}"), name)(*arguments, **named)
        return made

    return build


def _draw(shape: tuple[int, ...], kind: str, generator: torch.Generator) -> Tensor:
    import torch

    if kind.startswith("int:"):
        return torch.randint(int(kind.removeprefix("int:")), shape, generator=generator)
    return torch.randn(shape, generator=generator)


_MOBILE = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 2, 2, 3),
)
_EFFICIENT = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 2, 2, 5),
)  # fmt: skip
_VGG = ((64,), (128,), (256, 256), (256, 256))

_resnet18 = _later("vision.ResNet", (2, 2, 2, 2), bottleneck=False)
_resnet50 = _later("vision.ResNet", (3, 4, 6, 3), bottleneck=True)
_mobile = _later("vision.InvertedNet", _MOBILE, excite=False, last=640)
_efficient = _later("vision.InvertedNet", _EFFICIENT, excite=True, last=768)
_tokens = ("int:8000",)

NETWORKS: tuple[Network, ...] = (
    Network("resnet18-96", "resnet18", "residual", _resnet18, ((3, 96, 96),), 8),
    Network("resnet18-64", "resnet18", "residual", _resnet18, ((3, 64, 64),), 32),
    Network("resnet50-96", "resnet50", "residual", _resnet50, ((3, 96, 96),), 4),
    Network("resnet50-64", "resnet50", "residual", _resnet50, ((3, 64, 64),), 16),
    Network("vgg-64", "vgg", "plain-conv", _later("vision.Vgg", _VGG, 1024, pooled=4), ((3, 64, 64),), 8),
    Network("vgg-32", "vgg", "plain-conv", _later("vision.Vgg", _VGG, 512, pooled=2), ((3, 32, 32),), 32),
    Network("mobilenet-96", "mobilenet", "depthwise", _mobile, ((3, 96, 96),), 16),
    Network("mobilenet-64", "mobilenet", "depthwise", _mobile, ((3, 64, 64),), 64),
    Network("efficientnet-96", "efficientnet", "depthwise", _efficient, ((3, 96, 96),), 12),
    Network(
        "convnext-96", "convnext", "depthwise",
        _later("vision.ConvNext", (2, 2, 4, 2), (64, 128, 256, 512)), ((3, 96, 96),), 12,
    ),
    Network("unet-64", "unet", "dense-prediction", _later("vision.UNet", (24, 48, 96, 192)), ((3, 64, 64),), 8),
    Network("unet-128", "unet", "dense-prediction", _later("vision.UNet", (16, 32, 64, 128)), ((3, 128, 128),), 4),
    Network(
        "autoencoder-64", "autoencoder", "dense-prediction",
        _later("vision.ConvAutoencoder", (48, 96, 192, 256)), ((3, 64, 64),), 32,
    ),
    Network("dcgan-64", "dcgan", "generator", _later("vision.Generator", 100, (384, 192, 96, 48)), ((100,),), 24),
    Network(
        "vit-64", "vit", "transformer",
        _later("sequences.PatchTransformer", 64, 8, 256, 4, 6), ((3, 64, 64),), 12,
    ),
    Network(
        "vit-96", "vit", "transformer",
        _later("sequences.PatchTransformer", 96, 8, 192, 3, 4), ((3, 96, 96),), 16,
    ),
    Network("mixer-64", "mixer", "mixer", _later("sequences.Mixer", 64, 8, 256, 6), ((3, 64, 64),), 16),
    Network(
        "bert-128", "bert", "transformer",
        _later("sequences.Encoder", 8000, 128, 256, 4, 4), ((128,),), 8, _tokens,
    ),
    Network(
        "bert-64", "bert", "transformer",
        _later("sequences.Encoder", 8000, 64, 384, 6, 3), ((64,),), 8, _tokens,
    ),
    Network(
        "gpt-256", "gpt", "transformer",
        _later("sequences.Decoder", 8000, 256, 256, 4, 4), ((256,),), 4, _tokens,
    ),
    Network(
        "gpt-96", "gpt", "transformer",
        _later("sequences.Decoder", 4000, 96, 320, 5, 6), ((96,),), 8, ("int:4000",),
    ),
    Network(
        "translator-64", "translator", "transformer",
        _later("sequences.Translator", 8000, 64, 256, 4, 3), ((64,), (64,)), 8, _tokens * 2,
    ),
    Network(
        "lstm-64", "lstm", "recurrent",
        _later("sequences.LstmLanguage", 4000, 384), ((64,),), 16, ("int:4000",),
    ),
    Network("gru-100", "gru", "recurrent", _later("sequences.GruClassifier", 32, 256), ((100, 32),), 32),
    Network("tcn-512", "tcn", "temporal-conv", _later("sequences.TemporalConvNet", 16, 96, 6), ((16, 512),), 16),
    Network("mlp-1024", "mlp", "dense", _later("tables.Mlp", (784, 1024, 1024, 1024, 10)), ((784,),), 512),
    Network("mlp-2048", "mlp", "dense", _later("tables.Mlp", (256, 2048, 2048, 100)), ((256,),), 128),
    Network(
        "dlrm-16", "dlrm", "recommender", _later("tables.Recommender", 13, 16, 20_000, 32),
        ((13,), *((4,),) * 16), 1024, ("float", *("int:20000",) * 16),
    ),
    Network(
        "graph-256", "graph", "graph", _later("tables.GraphConvolution", 64, 256, 3), ((256, 64), (256, 256)), 12,
    ),
)  # fmt: skip
