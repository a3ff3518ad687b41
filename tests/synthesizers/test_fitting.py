from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from presage.synthesizers import Training

if TYPE_CHECKING:
    from presage.synthesizers.columns import IntArray

torch = pytest.importorskip("torch")

from presage.synthesizers._fitting import Recipe, State, fit, kept_by_mean  # noqa: E402 (without torch there is nothing to test)


def test_without_an_average_the_last_weights_count() -> None:
    network = torch.nn.Linear(1, 1)
    state = State(network, epochs=1)
    state.follow()
    assert state.settled is network


def test_the_mean_of_the_weights_keeps_what_it_is_told_to_keep() -> None:
    network = torch.nn.Linear(1, 1, bias=False)
    state = State(network, epochs=3, kept=0.9)
    for weight in (2.0, 4.0, 12.0):
        torch.nn.init.constant_(network.weight, weight)
        state.follow()
    # It begins at the first weight: 0.9 (0.9 · 2 + 0.1 · 4) + 0.1 · 12.
    assert state.settled.weight.item() == pytest.approx(0.9 * 2.2 + 1.2)
    state.note(0, score=1.0)
    state.go_to_best()
    assert network.weight.item() == pytest.approx(0.9 * 2.2 + 1.2)


def test_a_mean_comes_to_rest_where_the_weights_go_on_circling() -> None:
    def loss_of(network: torch.nn.Module, rows: IntArray) -> torch.Tensor:
        # Every other batch pulls the weight to the other side of nought.
        return (network.weight - (1.0 if rows[0] % 2 else -1.0)).square().sum()

    def off(average: float) -> float:
        network = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(network.weight, 0.0)
        recipe = Recipe(epochs=4, batch=1, rate=0.1, decay=0.0, average=average)
        fit(network, 200, loss_of, lambda _: math.nan, recipe, Training(seed=1), stop_at=4)
        return abs(float(network.weight.detach()))

    assert off(average=2) < off(average=0) / 2


@pytest.mark.parametrize(("examples", "steps"), [(200, 2), (150, 2), (100, 1)])
def test_small_logs_are_averaged_over_as_many_rounds_as_large_ones(examples: int, steps: int) -> None:
    kept = kept_by_mean(Recipe(batch=100, average=1.5), examples)
    assert kept == pytest.approx(math.exp(-1 / (1.5 * steps)))
