"""Training by several processes at once, as torchrun starts them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import distributed

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class World:
    """The processes that train together, and which of them this one is."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls) -> World:
        """Join the others if torchrun started this process; else it is alone.

        One thread each: the processes are there to use the processors.
        """
        torch.set_num_threads(1)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not distributed.is_initialized():
            distributed.init_process_group("gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    def shared(self, network: nn.Module) -> nn.Module:
        """Return the network so that its gradients are the mean over all processes."""
        return network if self.size == 1 else nn_parallel(network)


def nn_parallel(network: nn.Module) -> nn.Module:
    """Wrap a network for training by several processes."""
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(network)
