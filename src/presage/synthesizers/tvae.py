"""A variational autoencoder of rows, after Xu et al., Modeling Tabular Data using Conditional GAN (2019), 4.4.

Unlike there, a job's categories are drawn from what the decoder holds likely, and are not the likeliest: rare
users and sizes stay. B: rows of a batch, W: places of all blocks, K: numbers, H: width, Z: latent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from presage.synthesizers._base import Synthesizer
from presage.synthesizers._fitting import Recipe, fit
from presage.synthesizers._rows import Rows, drawn_codes, one_hot
from presage.synthesizers._weights import give_weights, weights_of
from presage.synthesizers.columns import JobTable
from presage.traces.workloads._parameters import parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from presage.synthesizers._base import Drawing, Training
    from presage.synthesizers.columns import IntArray

_CHUNK = 4096
_FEWEST_STEPS = 20


@dataclass(frozen=True)
class TvaeSettings:
    """Settings of the autoencoder."""

    epochs: int = parameter(150, "rounds through all jobs, at most", minimum=1, maximum=100_000)
    patience: int = parameter(15, "rounds without a gain before it stops", minimum=1, maximum=100_000)
    batch: int = parameter(500, "jobs of a step", minimum=1, maximum=1_000_000)
    rate: float = parameter(2e-3, "highest learning rate", above=0, maximum=1)
    width: int = parameter(128, "neurons of a hidden layer", minimum=1, maximum=10_000)
    latent: int = parameter(64, "numbers that a row is squeezed into", minimum=1, maximum=10_000)
    modes: int = parameter(10, "peaks of each number, at most", minimum=1, maximum=100)


class Tvae(Synthesizer):
    """Draws rows out of a normal distribution that all rows were squeezed into."""

    name = "tvae"
    settings_type: ClassVar[type] = TvaeSettings

    rows: Rows
    network: _Autoencoder

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        own, rng = self.settings, np.random.default_rng(training.seed)
        # The modes of a private log are not known; its numbers lie on a grid that is the same for every log.
        private = training.privacy is not None
        self.rows = Rows.straightened(self.columns) if private else Rows.fit(self.columns, table, own.modes, rng)
        torch.manual_seed(training.seed)
        self.network = _Autoencoder(self.rows.widths, len(self.columns.numbers), own)
        codes, places = self.rows.encode(table, rng)
        watched = self._batch(*self.rows.encode(later, rng))
        noise = torch.from_numpy(rng.standard_normal((len(later), own.latent), np.float32))

        def loss_of(network: nn.Module, chosen: IntArray) -> Tensor:
            return network(*self._batch(codes[chosen], places[chosen])).mean()

        def score(network: nn.Module) -> float:
            return float(network(*watched, noise).mean())

        # Of a small log the batches are small, so that there are steps enough to learn in.
        batch = max(min(own.batch, len(table) // _FEWEST_STEPS), 1)
        recipe = Recipe(own.epochs, own.patience, batch, own.rate, decay=1e-5)
        return fit(self.network, len(table), loss_of, score, recipe, training, {"settings": vars(own)})

    def _batch(self, codes: IntArray, places: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(one_hot(codes, self.rows.widths)), torch.from_numpy(places)  # (B, W), (B, K)

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        tables = []
        spreads = self.network.spread().detach().numpy()  # (K,)
        for first in range(0, count, _CHUNK):
            size = min(_CHUNK, count - first)
            latent = torch.from_numpy(rng.standard_normal((size, self.settings.latent), np.float32))
            with torch.no_grad():
                scores, middles = (each.numpy() for each in self.network.decode(latent))  # (B, W), (B, K)
            places = middles + spreads * rng.standard_normal(middles.shape)
            tables.append(self.rows.decode(drawn_codes(scores, self.rows.widths, rng), places))
            drawing.tell(size)
        return JobTable.joined(tables)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**self.rows.arrays(), **weights_of(self.network)}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.rows = Rows.restored(self.columns, arrays)
        self.network = _Autoencoder(self.rows.widths, len(self.columns.numbers), self.settings)
        give_weights(self.network, arrays)


class _Autoencoder(nn.Module):
    def __init__(self, widths: tuple[int, ...], numbers: int, settings: TvaeSettings) -> None:
        super().__init__()
        wide, latent, width = sum(widths), settings.latent, settings.width
        self.widths = widths
        self.encoder = nn.Sequential(
            nn.Linear(wide + numbers, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.middle = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.scores = nn.Linear(width, wide)
        self.places = nn.Linear(width, numbers)
        self.log_spread = nn.Parameter(torch.full((numbers,), -1.5))

    def forward(self, blocks: Tensor, places: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return what it costs to tell each row by its latent place, in nats, (B,)."""
        hidden = self.encoder(torch.cat([blocks, places], dim=1))  # (B, H)
        middle, log_variance = self.middle(hidden), self.log_variance(hidden).clamp(-12, 12)  # (B, Z)
        noise = torch.randn_like(middle) if noise is None else noise
        scores, guesses = self.decode(middle + torch.exp(0.5 * log_variance) * noise)
        apart = (places - guesses) / self.spread()
        cost = (0.5 * apart**2 + torch.log(self.spread())).sum(dim=1)  # (B,)
        for truth, guess in zip(blocks.split(self.widths, 1), scores.split(self.widths, 1), strict=True):
            cost = cost - (truth * functional.log_softmax(guess, dim=1)).sum(dim=1)
        kept = 0.5 * (middle**2 + torch.exp(log_variance) - 1 - log_variance).sum(dim=1)  # (B,)
        return cost + kept

    def decode(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of all blocks (B, W) and where the numbers are (B, K)."""
        hidden = self.decoder(latent)
        return self.scores(hidden), torch.tanh(self.places(hidden))

    def spread(self) -> Tensor:
        """Return by how much numbers miss their guess, (K,)."""
        return torch.exp(self.log_spread.clamp(-5, 1))
