"""Small networks of every usual kind to try estimates on; those by which devices are calibrated."""

from __future__ import annotations

from presage.estimators.training.networks import NETWORKS, Network, build_network, find_network

__all__ = ["NETWORKS", "Network", "build_network", "find_network"]
