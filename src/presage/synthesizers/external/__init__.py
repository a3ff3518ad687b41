"""Synthesizers of other projects, driven where somebody has installed them."""
