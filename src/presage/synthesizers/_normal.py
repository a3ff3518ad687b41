"""Places among all values, 0 to 1, as scores of a normal distribution, and back; without scipy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray

FARTHEST = 6.0
_SCORES = np.linspace(-FARTHEST, FARTHEST, 6001)
_PLACES = np.array([0.5 * math.erfc(-score / math.sqrt(2)) for score in _SCORES])


def scores_at(places: FloatArray) -> FloatArray:
    """Return the normal scores of places in [0, 1], at most `FARTHEST` from 0."""
    return np.interp(places, _PLACES, _SCORES)


def places_of(scores: FloatArray) -> FloatArray:
    """Return the places of normal scores."""
    places: FloatArray = np.interp(scores, _SCORES, _PLACES)
    return places
