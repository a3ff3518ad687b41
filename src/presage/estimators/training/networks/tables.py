"""Networks for rows of a table: plain layers, a recommender, and layers on a graph."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence


def _layers(widths: Sequence[int]) -> list[nn.Module]:
    made: list[nn.Module] = []
    for inside, outside in pairwise(widths):
        made += [nn.Linear(inside, outside), nn.ReLU()]
    return made


class Mlp(nn.Module):
    """Layers in a row."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_layers(widths)[:-1])

    def forward(self, row: Tensor) -> Tensor:
        return self.layers(row)


class Recommender(nn.Module):
    """DLRM-like: bags of embeddings, numbers through layers, all of them multiplied with each other."""

    def __init__(self, numbers: int, tables: int, entries: int, width: int) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(entries, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(*_layers((numbers, 256, width)))
        pairs = (tables + 1) * tables // 2
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1), persistent=False)
        self.top = nn.Sequential(*_layers((pairs + width, 512, 256)), nn.Linear(256, 1))

    def forward(self, numbers: Tensor, *members: Tensor) -> Tensor:
        row = self.bottom(numbers)
        parts = torch.stack([row, *(bag(each) for bag, each in zip(self.bags, members, strict=True))], dim=1)
        products = torch.bmm(parts, parts.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([row, products], dim=1))


class GraphConvolution(nn.Module):
    """Layers on the nodes of a graph, with a dense matrix of who is whose neighbour given beside them."""

    def __init__(self, features: int, width: int, layers: int, classes: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width if number else features, width) for number in range(layers))
        self.last = nn.Linear(width, classes)

    def forward(self, nodes: Tensor, neighbours: Tensor) -> Tensor:
        for layer in self.layers:
            nodes = functional.relu(torch.bmm(neighbours, layer(nodes)))
        return self.last(nodes)
