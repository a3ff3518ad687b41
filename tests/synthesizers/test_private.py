from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import MissingDependencyError, UsageError
from presage.synthesizers import Privacy, Request, Training, sample
from presage.synthesizers.columns import LONGEST_S, Columns, Number
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

from torch import nn  # noqa: E402 (after the skip, like all that need it)

from presage.synthesizers._fitting import Recipe, fit  # noqa: E402
from presage.synthesizers._private import PUBLIC, clipped_sum, gradients_of, noise_for, spent_by  # noqa: E402
from presage.synthesizers.diffusion import Diffusion  # noqa: E402

INPUTS = torch.linspace(-3, 3, 40)[:, None]


class Scaled(nn.Module):
    """A network with a weight of its own beside its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs) * self.scale


class Tied(nn.Module):
    """A network that uses the weight of a layer past the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs) @ self.layer.weight


def make_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))


def loss_of(network: nn.Module, places: np.ndarray) -> torch.Tensor:
    return ((network(INPUTS[torch.from_numpy(places)]) - 5) ** 2).mean()


def make_log(jobs: int = 300) -> Trace:
    rows = [
        make_job(90 * place, 5, 10.0 + 7 * (place % 60), cpus=(1, 8)[place % 2], user=("ann", "bob")[place % 2])
        for place in range(jobs)
    ]
    return make_trace(*rows, cpus=64)


def train(epsilon: float, epochs: int = 3) -> tuple[nn.Module, dict[str, object]]:
    torch.manual_seed(0)
    network = make_layers()
    training = Training(privacy=Privacy(epsilon, 1e-3))
    record = fit(network, len(INPUTS), loss_of, lambda _: 1 / 0, Recipe(epochs, batch=8), training)
    return network, record


def test_no_more_is_spent_than_was_promised_and_the_later_jobs_are_not_looked_at() -> None:
    _, record = train(6.0)
    spent = record["privacy"]
    assert isinstance(spent, dict)
    assert 0.97 * 6.0 < spent["epsilon"] <= 6.0
    assert spent["delta"] == 1e-3
    assert "one job" in spent["unit"]
    assert spent["public"] == PUBLIC
    assert record["epochs"] == 3
    assert record["scores"] == []


def test_the_promise_is_counted_as_published() -> None:
    # One look at everything with noise of 1: the Gaussian mechanism. Its epsilon by Rényi orders is at most the
    # classical bound a/2 + ln(1/delta)/(a - 1) at its best order a.
    classical = min(order / 2 + np.log(1e5) / (order - 1) for order in np.arange(1.1, 60, 0.1))
    assert 3.0 < spent_by(1.0, 1.0, 1, 1e-5) <= classical


def test_a_larger_epsilon_needs_less_noise() -> None:
    noises = [noise_for(Privacy(epsilon, 1e-4), 0.1, 50) for epsilon in (1.0, 4.0, 16.0, 1e6)]
    assert noises == sorted(noises, reverse=True)
    assert noises[0] > 2 * noises[2]


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-5), (np.inf, 1e-5), (np.nan, 1e-5), (8.0, 0.0), (8.0, 1.0)]
)
def test_what_is_no_promise_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(UsageError, match="There is no privacy of epsilon"):
        Privacy(epsilon, delta)


def test_a_promise_that_no_noise_keeps_is_refused() -> None:
    with pytest.raises(UsageError, match="No noise is enough"):
        noise_for(Privacy(1e-9, 1e-12), 1.0, 100_000)


@pytest.mark.parametrize("make", [make_layers, Scaled, Tied])
def test_each_example_has_its_own_gradient_whatever_the_network(make: type[nn.Module]) -> None:
    torch.manual_seed(1)
    network = make()
    chosen = np.array([3, 17, 31])
    with gradients_of(network, loss_of) as gradients:
        found = gradients(chosen)
    for place, example in enumerate(chosen):
        network.zero_grad()
        loss_of(network, np.array([example])).backward()
        for each, weight in zip(found, network.parameters(), strict=True):
            torch.testing.assert_close(each[place], weight.grad)


@settings(max_examples=15)
@given(
    st.lists(st.integers(0, len(INPUTS) - 1), min_size=1, max_size=12, unique=True),
    st.integers(0, len(INPUTS) - 1),
    st.floats(0.01, 3),
)
def test_one_example_moves_the_sum_by_no_more_than_the_clip(some: list[int], one: int, clip: float) -> None:
    torch.manual_seed(2)
    network = make_layers()
    others = np.array([place for place in some if place != one], np.int64)
    with gradients_of(network, loss_of) as gradients:
        without = clipped_sum(network, gradients, others, clip)
        with_it = clipped_sum(network, gradients, np.append(others, one), clip)
    moved = torch.cat([(a - b).flatten() for a, b in zip(with_it, without, strict=True)]).norm()
    assert float(moved) <= clip * (1 + 1e-3) + 1e-5


def test_noise_is_not_told_by_the_seed() -> None:
    first, second = (train(6.0, epochs=1)[0] for _ in range(2))
    assert not torch.equal(next(first.parameters()), next(second.parameters()))


def test_noise_is_one_of_more_than_a_few_billion(monkeypatch: pytest.MonkeyPatch) -> None:
    # The generators of torch take 32 bits of a seed: who tries them all knows the noise.
    seeds = iter((7, 7 + 2**32))
    monkeypatch.setattr("secrets.randbits", lambda _: next(seeds))
    networks = []
    for _ in range(2):
        torch.manual_seed(0)
        networks.append(make_layers())
        training = Training(privacy=Privacy(6.0, 1e-3))
        fit(networks[-1], len(INPUTS), loss_of, lambda _: 1 / 0, Recipe(1, batch=len(INPUTS)), training)
    first, second = (torch.cat([each.flatten() for each in network.parameters()]) for network in networks)
    assert not torch.equal(first, second)


def test_numbers_and_counts_of_the_log_are_not_in_a_private_model() -> None:
    log = make_log()
    model = Diffusion.train(
        log, {"epochs": 1, "width": 16, "layers": 1, "batch": 64}, Training(privacy=Privacy(8.0, 1e-3))
    )
    assert model.columns.numbers == (Number.public("gap_s"), Number.public("run_s"))
    assert model.columns.number("run_s").knots[-1] == pytest.approx(LONGEST_S)
    assert model.source.load is None
    assert set(model.source.week) == {1.0}
    assert model.record["privacy"]["epsilon"] <= 8.0
    trace = sample(model, Request(jobs=40))
    assert len(trace) == 40
    assert trace.manifest.generator["privacy"]["noise"] > 0


def test_the_public_grid_loses_less_than_a_hundredth_of_a_number() -> None:
    number = Columns.fit(make_log(), public_grid=True).number("run_s")
    values = np.array([0.0, 1.0, 59.0, 3600.0, 86_400.0, 1e6])
    places = number.to_uniform(values, np.random.default_rng(0))
    np.testing.assert_allclose(number.from_uniform(places), values, rtol=0.01)


def test_without_opacus_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus", None)
    monkeypatch.setitem(sys.modules, "opacus.accountants", None)
    with pytest.raises(MissingDependencyError, match=r"presage\[private\]"):
        train(6.0)
