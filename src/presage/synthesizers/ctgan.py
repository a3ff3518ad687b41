"""A conditional GAN of rows, after Xu et al., Modeling Tabular Data using Conditional GAN (2019), 4.3.

Each drawn row is told one value of one category that it must have. In training such values are drawn by the
logarithm of how frequent they are, so that rare ones are learned too; in sampling by how frequent they are. The
critic looks at ten rows at once (PacGAN) and is kept smooth by its gradient (WGAN-GP). Unlike there, a running
average of the generator draws the rows, because the generator itself circles around what it looks for.

B: rows of a batch, W: places of all blocks, C: places of the categories, K: numbers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from presage.foundation.training.checkpoints import load_checkpoint, save_checkpoint
from presage.synthesizers._base import Synthesizer
from presage.synthesizers._conditions import Conditions
from presage.synthesizers._fitting import State
from presage.synthesizers._likeness import Likeness
from presage.synthesizers._rows import Rows, block_starts, drawn_codes, one_hot
from presage.synthesizers._weights import give_weights, weights_of
from presage.synthesizers.columns import JobTable
from presage.traces.workloads._parameters import parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from presage.synthesizers._base import Drawing, Training
    from presage.synthesizers.columns import IntArray

PACK = 10
"""Rows that the critic looks at together."""
_CHUNK = 4000
_WATCHED = 4000
_TEMPERATURE = 0.2
_SMOOTHNESS = 10.0
_NEWS = 0.01
_FEWEST_STEPS = 20


@dataclass(frozen=True)
class CtganSettings:
    """Settings of the GAN."""

    epochs: int = parameter(20, "rounds through all jobs, at most", minimum=1, maximum=100_000)
    patience: int = parameter(5, "rounds without a gain before it stops", minimum=1, maximum=100_000)
    batch: int = parameter(200, "jobs of a step, in tens", minimum=PACK, maximum=1_000_000)
    rate: float = parameter(1e-3, "learning rate of generator and critic", above=0, maximum=1)
    width: int = parameter(128, "neurons of a hidden layer", minimum=1, maximum=10_000)
    noise: int = parameter(64, "random numbers that a row is made of", minimum=1, maximum=10_000)
    modes: int = parameter(10, "peaks of each number, at most", minimum=1, maximum=100)


class Ctgan(Synthesizer):
    """Draws rows that a critic could not tell from the log's."""

    name = "ctgan"
    settings_type: ClassVar[type] = CtganSettings
    straight: ClassVar[bool] = False
    """Whether numbers are made normal by their ranks before anything else."""

    rows: Rows
    conditions: Conditions
    pair: _Pair

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        own, rng = self.settings, np.random.default_rng(training.seed)
        self.rows = self._rows_of(table, rng)
        codes, places = self.rows.encode(table, rng)
        self.conditions = Conditions.fit(codes, self._category_widths())
        torch.set_num_threads(1)
        torch.manual_seed(training.seed)
        self.pair = self._pair()
        state, optimizers = State(self.pair, own.epochs), _Optimizers(self.pair, own.rate)
        identity = {"kind": self.name, "settings": vars(own), "seed": training.seed, "log": training.log}
        likeness, done = Likeness(self.columns, later), 0
        if training.checkpoint is not None and training.checkpoint.exists():
            done = load_checkpoint(training.checkpoint, state, optimizers, identity)
        while done < own.epochs and not state.is_over(done, own.patience):
            self._run_epoch(codes, places, optimizers, (training.seed, done))
            self.pair.eval()
            drawn = self._drawn(_WATCHED, np.random.default_rng((training.seed, done)))
            state.note(done, likeness.distance(drawn))
            done += 1
            training.tell(done, own.epochs, f"score {float(state.scores[done - 1]):.4f}")
            if training.checkpoint is not None:
                save_checkpoint(training.checkpoint, state, optimizers, done, identity)
        state.go_to_best()
        if training.checkpoint is not None:
            training.checkpoint.unlink(missing_ok=True)
        scores = [round(float(each), 5) for each in state.scores[:done]]
        return {"epochs": done, "best_epoch": int(np.argmin(scores)) + 1, "scores": scores}

    def _run_epoch(
        self, codes: IntArray, places: NDArray[np.float32], optimizers: _Optimizers, seed: tuple[int, int]
    ) -> None:
        # All is drawn anew for each epoch, so that going on after an interruption needs no memory of it.
        rng = np.random.default_rng(seed)
        torch.manual_seed((seed[0] << 20) + seed[1])
        size = self.settings.batch // PACK * PACK
        self.pair.train()
        for _ in range(max(len(codes) // size, _FEWEST_STEPS)):
            blocks, values = self.conditions.draw(size, rng, rare=True)
            given = self._given(blocks, values)  # (B, C)
            # Real rows of the same values, in another order: the critic must not pair them with the drawn ones.
            order = rng.permutation(size)
            real = self.conditions.rows_with(blocks[order], values[order], rng)
            written = np.hstack([one_hot(codes[real], self.rows.widths), places[real]])  # (B, W + K)
            with torch.no_grad():
                drawn, _ = self._generate(given)
            seen = torch.cat([torch.from_numpy(written), given[order]], dim=1)  # (B, W + K + C)
            optimizers.critic_step(self.pair, seen, torch.cat([drawn, given], dim=1))

            blocks, values = self.conditions.draw(size, rng, rare=True)
            given = self._given(blocks, values)
            drawn, scores = self._generate(given)
            missed = self._missed(scores, blocks, values)
            optimizers.generator_step(missed - self.pair.critic(torch.cat([drawn, given], dim=1)).mean())
            self.pair.follow()

    def _generate(self, given: Tensor) -> tuple[Tensor, Tensor]:
        """Return soft rows (B, W + K) with the values that were given, and the scores of their blocks (B, W)."""
        noise = torch.randn(len(given), self.settings.noise)
        scores, places = self.pair.generator(torch.cat([noise, given], dim=1))
        soft = [
            functional.gumbel_softmax(each, tau=_TEMPERATURE, dim=1)
            for each in scores.split(self.rows.widths, dim=1)
        ]
        return torch.cat([*soft, places], dim=1), scores

    def _missed(self, scores: Tensor, blocks: IntArray, values: IntArray) -> Tensor:
        """Return the mean cross entropy of the values that were given."""
        missed = torch.zeros(())
        starts = block_starts(self.rows.widths)
        for block, width in enumerate(self._category_widths()):
            asked = torch.from_numpy(np.flatnonzero(blocks == block))
            wanted = torch.from_numpy(values)[asked]
            own = scores[asked, starts[block] : starts[block] + width]
            missed = missed + functional.cross_entropy(own, wanted, reduction="sum")
        return missed / len(scores)

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        tables = []
        for first in range(0, count, _CHUNK):
            tables.append(self._drawn(min(_CHUNK, count - first), rng))
            drawing.tell(len(tables[-1]))
        return JobTable.joined(tables)

    def _drawn(self, count: int, rng: np.random.Generator) -> JobTable:
        given = self._given(*self.conditions.draw(count, rng, rare=False))
        noise = torch.from_numpy(rng.standard_normal((count, self.settings.noise), np.float32))
        with torch.no_grad():
            scores, places = self.pair.average(torch.cat([noise, given], dim=1))
        return self.rows.decode(drawn_codes(scores.numpy(), self.rows.widths, rng), places.numpy())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {**self.rows.arrays(), "counts": self.conditions.counts, **weights_of(self.pair.average)}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.rows = Rows.restored(self.columns, arrays, straight=self.straight)
        self.conditions = Conditions(self._category_widths(), arrays["counts"])
        self.pair = self._pair()
        give_weights(self.pair.average, arrays)

    def _rows_of(self, table: JobTable, rng: np.random.Generator) -> Rows:
        return Rows.fit(self.columns, table, self.settings.modes, rng)

    def _category_widths(self) -> tuple[int, ...]:
        return tuple(len(each) for each in self.columns.categories)

    def _pair(self) -> _Pair:
        return _Pair(self.rows.widths, sum(self._category_widths()), len(self.columns.numbers), self.settings)

    def _given(self, blocks: IntArray, values: IntArray) -> Tensor:
        return torch.from_numpy(self.conditions.written(blocks, values))


class _Pair(nn.Module):
    """Generator and critic, and the average of what the generator was."""

    def __init__(self, widths: tuple[int, ...], given: int, numbers: int, settings: Any) -> None:
        super().__init__()
        self.generator = _Generator(sum(widths), given, numbers, settings)
        self.critic = _Critic(sum(widths) + given + numbers, settings)
        self.average = copy.deepcopy(self.generator).requires_grad_(requires_grad=False)

    def follow(self) -> None:
        """Bring the average a little nearer to what the generator is now."""
        now = self.generator.state_dict()
        with torch.no_grad():
            for name, value in self.average.state_dict().items():
                if value.is_floating_point():
                    value.lerp_(now[name], _NEWS)


class _Generator(nn.Module):
    def __init__(self, wide: int, given: int, numbers: int, settings: Any) -> None:
        super().__init__()
        first, width = settings.noise + given, settings.width
        self.layers = nn.ModuleList([nn.Linear(first, width), nn.Linear(first + width, width)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width), nn.BatchNorm1d(width)])
        self.scores = nn.Linear(first + 2 * width, wide)
        self.places = nn.Linear(first + 2 * width, numbers)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of all blocks (B, W) and where the numbers are (B, K)."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            inputs = torch.cat([functional.relu(norm(layer(inputs))), inputs], dim=1)
        return self.scores(inputs), torch.tanh(self.places(inputs))


class _Critic(nn.Module):
    def __init__(self, wide: int, settings: Any) -> None:
        super().__init__()
        width = settings.width
        self.layers = nn.Sequential(
            nn.Linear(PACK * wide, width), nn.LeakyReLU(0.2), nn.Dropout(0.5),
            nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Dropout(0.5),
            nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, rows: Tensor) -> Tensor:
        """Return how real each pack of rows looks, (B / PACK, 1)."""
        return self.layers(rows.reshape(len(rows) // PACK, -1))


class _Optimizers:
    """The optimizers of generator and critic, kept in a checkpoint as one."""

    def __init__(self, pair: _Pair, rate: float) -> None:
        self.generator = torch.optim.Adam(pair.generator.parameters(), rate, betas=(0.5, 0.9), weight_decay=1e-6)
        self.critic = torch.optim.Adam(pair.critic.parameters(), rate, betas=(0.5, 0.9))

    def critic_step(self, pair: _Pair, real: Tensor, drawn: Tensor) -> None:
        """Let the critic tell real rows from drawn ones a little better."""
        between = torch.rand(len(real) // PACK, 1, 1).expand(-1, PACK, real.shape[1]).reshape(real.shape)
        mixed = (between * real + (1 - between) * drawn).requires_grad_()
        slopes = torch.autograd.grad(pair.critic(mixed).sum(), mixed, create_graph=True)[0]  # (B, W + K + C)
        steepness = slopes.reshape(len(real) // PACK, -1).norm(2, dim=1)  # (B / PACK,)
        penalty = _SMOOTHNESS * ((steepness - 1) ** 2).mean()
        loss = pair.critic(drawn).mean() - pair.critic(real).mean() + penalty
        self.critic.zero_grad()
        loss.backward()
        self.critic.step()

    def generator_step(self, loss: Tensor) -> None:
        """Let the generator lower its loss a little."""
        self.generator.zero_grad()
        loss.backward()
        self.generator.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the memory of both, the generator's first."""
        first, second = self.generator.state_dict(), self.critic.state_dict()
        shift = len(first["param_groups"][0]["params"])
        moved = {shift + place: memory for place, memory in second["state"].items()}
        return {"state": {**first["state"], **moved}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Give both their memory back."""
        shift = len(self.generator.state_dict()["param_groups"][0]["params"])
        own = {place: memory for place, memory in state["state"].items() if place < shift}
        others = {place - shift: memory for place, memory in state["state"].items() if place >= shift}
        self.generator.load_state_dict({**self.generator.state_dict(), "state": own})
        self.critic.load_state_dict({**self.critic.state_dict(), "state": others})
