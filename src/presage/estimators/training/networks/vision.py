"""Networks that see pictures, or make them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence


def _conv_norm(inside: int, outside: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outside)]


def _head(width: int, classes: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


class _Residual(nn.Module):
    """Two 3x3 convolutions, or the bottleneck of three, beside a shortcut."""

    def __init__(self, inside: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        outside = width * 4 if bottleneck else width
        if bottleneck:
            body = [
                *_conv_norm(inside, width, 1), nn.ReLU(inplace=True),
                *_conv_norm(width, width, 3, stride), nn.ReLU(inplace=True),
                *_conv_norm(width, outside, 1),
            ]  # fmt: skip
        else:
            body = [*_conv_norm(inside, width, 3, stride), nn.ReLU(inplace=True), *_conv_norm(width, width, 3)]
        self.body = nn.Sequential(*body)
        same = stride == 1 and inside == outside
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv_norm(inside, outside, 1, stride))

    def forward(self, image: Tensor) -> Tensor:
        return functional.relu(self.body(image) + self.shortcut(image))


class ResNet(nn.Module):
    """Residual blocks in four stages, each half as large and twice as wide as the one before."""

    def __init__(self, depths: Sequence[int], *, bottleneck: bool, width: int = 64, classes: int = 100) -> None:
        super().__init__()
        stem = [*_conv_norm(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        blocks: list[nn.Module] = []
        inside = width
        for stage, depth in enumerate(depths):
            wide = width << stage
            for number in range(depth):
                stride = 2 if number == 0 and stage else 1
                blocks.append(_Residual(inside, wide, stride, bottleneck=bottleneck))
                inside = wide * 4 if bottleneck else wide
        self.layers = nn.Sequential(*stem, *blocks, *_head(inside, classes))

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class Vgg(nn.Module):
    """Plain 3x3 convolutions with bias, pooled between stages, and two wide layers at the end."""

    def __init__(self, stages: Sequence[Sequence[int]], hidden: int, *, pooled: int, classes: int = 100) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inside = 3
        for widths in stages:
            for width in widths:
                layers += [nn.Conv2d(inside, width, 3, padding=1), nn.ReLU(inplace=True)]
                inside = width
            layers.append(nn.MaxPool2d(2))
        flat = inside * pooled * pooled
        layers += [nn.Flatten(), nn.Linear(flat, hidden), nn.ReLU(inplace=True), nn.Dropout(0.5)]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden, classes))

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class _SqueezeExcite(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, inner, 1),
            nn.SiLU(),
            nn.Conv2d(inner, width, 1),
            nn.Sigmoid(),
        )

    def forward(self, image: Tensor) -> Tensor:
        return image * self.gate(image)


class _Inverted(nn.Module):
    """Widen, one filter per channel, narrow; with `excite`, channels are weighed before the last."""

    def __init__(self, inside: int, outside: int, stride: int, expand: int, size: int, *, excite: bool) -> None:
        super().__init__()
        wide = inside * expand
        smooth = nn.SiLU if excite else nn.ReLU6
        body = [*_conv_norm(inside, wide, 1), smooth(inplace=True)] if expand > 1 else []
        body += [*_conv_norm(wide, wide, size, stride, groups=wide), smooth(inplace=True)]
        if excite:
            body.append(_SqueezeExcite(wide, max(1, inside // 4)))
        self.body = nn.Sequential(*body, *_conv_norm(wide, outside, 1))
        self.same = stride == 1 and inside == outside

    def forward(self, image: Tensor) -> Tensor:
        made = self.body(image)
        return image + made if self.same else made


class InvertedNet(nn.Module):
    """A stack of inverted residuals: MobileNetV2-like, and with `excite` EfficientNet-like.

    A stage is (expansion, width, blocks, stride, filter size).
    """

    def __init__(
        self, stages: Sequence[tuple[int, int, int, int, int]], *, excite: bool, last: int, classes: int = 100
    ) -> None:
        super().__init__()
        inside = 32
        smooth = nn.SiLU if excite else nn.ReLU6
        layers = [*_conv_norm(3, inside, 3, 2), smooth(inplace=True)]
        for expand, width, blocks, stride, size in stages:
            for number in range(blocks):
                layers.append(_Inverted(inside, width, 1 if number else stride, expand, size, excite=excite))
                inside = width
        layers += [*_conv_norm(inside, last, 1), smooth(inplace=True), *_head(last, classes)]
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class _ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.grow = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, image: Tensor) -> Tensor:
        rows = self.norm(self.mix(image).permute(0, 2, 3, 1))
        made = self.scale * self.shrink(functional.gelu(self.grow(rows)))
        return image + made.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """7x7 filters per channel and layers per pixel, in four stages."""

    def __init__(self, depths: Sequence[int], widths: Sequence[int], classes: int = 100) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4)]
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            if stage:
                layers += [nn.GroupNorm(1, widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
            layers += [_ConvNextBlock(width) for _ in range(depth)]
        self.layers = nn.Sequential(*layers, *_head(widths[-1], classes))

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class UNet(nn.Module):
    """Down and up again, with what was seen on the way down beside what comes up: a class for every pixel."""

    def __init__(self, widths: Sequence[int], classes: int = 8) -> None:
        super().__init__()
        self.down = nn.ModuleList(self._double(*pair) for pair in pairwise((3, *widths)))
        climbs = list(pairwise(reversed(widths)))
        self.up = nn.ModuleList(nn.ConvTranspose2d(wide, narrow, 2, 2) for wide, narrow in climbs)
        self.joined = nn.ModuleList(self._double(2 * narrow, narrow) for _, narrow in climbs)
        self.last = nn.Conv2d(widths[0], classes, 1)

    @staticmethod
    def _double(inside: int, outside: int) -> nn.Sequential:
        return nn.Sequential(
            *_conv_norm(inside, outside, 3),
            nn.ReLU(inplace=True),
            *_conv_norm(outside, outside, 3),
            nn.ReLU(inplace=True),
        )

    def forward(self, image: Tensor) -> Tensor:
        seen: list[Tensor] = []
        for number, block in enumerate(self.down):
            image = block(functional.max_pool2d(image, 2) if number else image)
            seen.append(image)
        for up, joined, beside in zip(self.up, self.joined, reversed(seen[:-1]), strict=True):
            image = joined(torch.cat([up(image), beside], dim=1))
        return self.last(image)


class ConvAutoencoder(nn.Module):
    """Strided convolutions down to a code, transposed ones back to the picture."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        steps = list(pairwise((3, *widths)))
        layers: list[nn.Module] = []
        for inside, outside in steps:
            layers += [nn.Conv2d(inside, outside, 4, 2, 1), nn.LeakyReLU(0.2)]
        for outside, inside in reversed(steps):
            layers += [nn.ConvTranspose2d(inside, outside, 4, 2, 1), nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(*layers[:-1], nn.Sigmoid())

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)


class Generator(nn.Module):
    """Pictures from noise by transposed convolutions, as the generator of DCGAN."""

    def __init__(self, noise: int, widths: Sequence[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.ConvTranspose2d(noise, widths[0], 4, 1, 0, bias=False)]
        for inside, outside in pairwise(widths):
            layers += [nn.BatchNorm2d(inside), nn.ReLU(inplace=True)]
            layers.append(nn.ConvTranspose2d(inside, outside, 4, 2, 1, bias=False))
        layers += [nn.BatchNorm2d(widths[-1]), nn.ReLU(inplace=True), nn.ConvTranspose2d(widths[-1], 3, 4, 2, 1)]
        self.layers = nn.Sequential(*layers, nn.Tanh())

    def forward(self, noise: Tensor) -> Tensor:
        return self.layers(noise[:, :, None, None])
