from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from presage.errors import InputError
from presage.synthesizers import SYNTHESIZERS, Request, Training, sample
from presage.traces import Trace

torch = pytest.importorskip("torch")


def test_the_cost_of_a_row_is_its_nats() -> None:
    from presage.synthesizers.tvae import TvaeSettings, _Autoencoder

    network = _Autoencoder((2, 4), 1, TvaeSettings(width=3, latent=2))
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
    blocks, places = torch.tensor([[1.0, 0, 0, 0, 0, 1]]), torch.tensor([[0.5]])
    # All scores are equal, the place is guessed as 0 with a spread of 1, and nothing is kept in the latent place.
    assert network(blocks, places).item() == pytest.approx(np.log(2) + np.log(4) + 0.5 * 0.5**2, abs=1e-6)


def test_it_learns_which_values_go_together(two_worlds: Trace) -> None:
    model = SYNTHESIZERS.get("tvae").train(two_worlds, {"epochs": 40, "width": 32, "latent": 8, "rate": 5e-3})
    drawn = sample(model, Request(jobs=1000)).jobs
    assert ((drawn["queue"] == "long") == (drawn["cpus_req"] == 16)).mean() > 0.8
    assert ((drawn["queue"] == "long") == (drawn["run_s"] > 1000)).mean() > 0.8
    assert (drawn["queue"] == "long").mean() == pytest.approx(0.3, abs=0.1)


def test_the_state_of_another_training_is_refused(two_worlds: Trace, tmp_path: Path) -> None:
    state = tmp_path / "state"

    def interrupt(done: int, _total: int, _words: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    settings = {"epochs": 3, "width": 8, "latent": 4}
    kind = SYNTHESIZERS.get("tvae")
    with pytest.raises(KeyboardInterrupt):
        kind.train(two_worlds, settings, Training(checkpoint=state, progress=interrupt))
    with pytest.raises(InputError, match="another training"):
        kind.train(two_worlds, {**settings, "modes": 3}, Training(checkpoint=state))
