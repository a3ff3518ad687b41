"""Kubernetes: what `kubectl get pods|jobs|events|nodes -o json` prints."""

from __future__ import annotations

from presage.traces.readers.kubernetes.reader import KubernetesReader

__all__ = ["KubernetesReader"]
