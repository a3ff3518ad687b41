"""Kubernetes, through kubectl: what nodes there are."""
