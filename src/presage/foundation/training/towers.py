"""From a trained network to what serves without torch, and back to go on training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from presage.foundation.model import Tower
from presage.foundation.training.network import Network, Shape
from presage.foundation.view import numbers
from presage.foundation.view.jobs import OUTCOMES
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from presage.foundation.scaling import Scaling


def shape_for(task: Task, **sizes: int) -> Shape:
    """Return the sizes of a network for one task; those not given are the usual ones."""
    ends = len(OUTCOMES) if task is Task.RUN else 0
    return Shape(numbers=task.numbers, token=len(numbers.TOKEN), ends=ends, **sizes)


def tower_of(network: Network, task: Task, scaling: Scaling) -> Tower:
    """Return what serves a trained network."""
    weights = {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}
    return Tower(task, network.shape.as_dict(), weights, scaling)


def network_of(tower: Tower) -> Network:
    """Return the network of a tower, to be trained further."""
    network = Network(Shape(**tower.shape))
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in tower.weights.items()})
    return network
