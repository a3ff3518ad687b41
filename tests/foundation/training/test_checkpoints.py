from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from presage.errors import InputError
from presage.foundation.training.checkpoints import load_checkpoint, save_checkpoint


def test_a_weight_without_a_gradient_keeps_the_others_in_their_places(tmp_path: Path) -> None:
    """The optimizer remembers nothing of it, so that what it remembers must be kept by place and not by order."""

    def fresh() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        network = nn.ModuleDict({"unused": nn.Linear(2, 1, bias=False), "used": nn.Linear(3, 4)})
        return network, torch.optim.AdamW(network.parameters(), lr=0.1)

    def step(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        network.get_submodule("used")(torch.ones(1, 3)).sum().backward()
        optimizer.step()

    network, optimizer = fresh()
    step(network, optimizer)
    save_checkpoint(tmp_path / "state", network, optimizer, 1, {})
    step(network, optimizer)
    resumed, memory = fresh()
    assert load_checkpoint(tmp_path / "state", resumed, memory, {}) == 1
    step(resumed, memory)
    for name, value in network.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], value, rtol=0, atol=0)


def test_the_state_of_a_network_that_is_built_otherwise_is_refused(tmp_path: Path) -> None:
    """As after an upgrade that gave the network one more weight."""
    before, after = nn.Linear(2, 1, bias=False), nn.Linear(2, 1)
    save_checkpoint(tmp_path / "state", before, torch.optim.AdamW(before.parameters()), 1, {})
    with pytest.raises(InputError, match="built in another way"):
        load_checkpoint(tmp_path / "state", after, torch.optim.AdamW(after.parameters()), {})
