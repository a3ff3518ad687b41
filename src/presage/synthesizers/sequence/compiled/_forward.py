"""The network for one stream: draws a word; see `draw_words`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.sequence.compiled._compiling import inner
from presage.synthesizers.sequence.compiled._sums import add, dot, linear, pick, sigmoid, silu
from presage.synthesizers.sequence.features import HISTORY, REACH, Moment
from presage.synthesizers.sequence.meanings import WEEK_H, Meanings

if TYPE_CHECKING:
    from presage.synthesizers.sequence.compiled._parts import Held, Parts

IMPOSSIBLE = np.float32(-1e4)


@inner
def draw_word(
    parts: Parts, meanings: Meanings, moment: Moment, held: Held, place: int, a: int, user: int, told: np.ndarray,
    words: np.ndarray, bound_s: float, chance: np.ndarray,
) -> int:  # fmt: skip
    """Return a word of the field at `place` for one stream; see `draw_words`."""
    begin, end, last = parts.first[place], parts.first[place + 1], len(words) - 1
    weight, hidden = np.zeros(HISTORY, np.float32), np.empty(parts.body.shape[2], np.float32)
    _look_back(parts, held, place, a, told, words, weight, hidden)
    possible = np.ones(end - begin, np.bool_)
    fresh = place == 0 and moment.done_today[a] == 0
    if place == 0:
        possible[: parts.gaps] = not fresh
        possible[parts.gaps :] = fresh
    elif place == last:
        _find_possible_runs(possible, meanings.run_low, bound_s)
    choice = dot(hidden, parts.choice[place]) + parts.choice_bias[place]
    if held.present[a, 0] and not fresh and chance[1] < sigmoid(choice):
        copied = held.words[a, pick(weight, chance[2]), place]
        if place == 0:
            copied = _near(parts.near[0], parts.pull[0], parts.usual[user, begin:end], copied, chance[3])
        elif place == last:
            kernel = np.empty(2 * REACH + 1, np.float32)
            linear(hidden, parts.nearness, parts.near[1], kernel)
            copied = _near(kernel, parts.pull[1], parts.usual[user, begin:end], copied, chance[3])
        copied = min(max(copied, 0), end - begin - 1)  # kernels do not check that a place is there
        if possible[copied]:
            return copied  # most words are, and own ones cost as much again
    own = np.empty(end - begin, np.float32)
    matrix = parts.own[len(hidden) * begin : len(hidden) * end].reshape(len(hidden), end - begin)
    linear(hidden, matrix, parts.own_bias[begin:end], own)
    add(own, parts.trust[place], parts.usual[user, begin:end])
    if place == 0:
        _favour(own, parts.favour, moment.now_s[a], meanings.gap_low, meanings.gap_high)
    _shares(own, possible)
    return pick(own, chance[0])


@inner
def _look_back(
    parts: Parts, held: Held, place: int, a: int, told: np.ndarray, words: np.ndarray, weight: np.ndarray,
    hidden: np.ndarray,
) -> None:  # fmt: skip
    """Write the weights of earlier jobs, and what a word is drawn from.

    What is read of the earlier jobs is told besides.
    """
    width = parts.words.shape[1]
    known = len(told) - width
    query = np.empty(width, np.float32)
    linear(told[:known], parts.query[place], parts.query_bias[place], query)
    highest = IMPOSSIBLE
    for k in range(HISTORY):
        if held.present[a, k]:
            weight[k] = dot(held.keys[a, k], query) + dot(parts.age[k], query)
            weight[k] /= np.float32(np.sqrt(width))
            for field in range(place):
                if held.words[a, k, field] == words[field]:
                    weight[k] += parts.same[place, field]
            highest = max(highest, weight[k])
    total = np.float32(0)
    for k in range(HISTORY):
        if held.present[a, k]:
            weight[k] = np.exp(weight[k] - highest)
            total += weight[k]
    told[known:] = 0
    for k in range(HISTORY):
        if held.present[a, k]:
            weight[k] /= total
            add(told[known:], weight[k], held.values[a, k])
    linear(told, parts.body[place], parts.body_bias[place], hidden)
    silu(hidden)


@inner
def _near(kernel: np.ndarray, pull: np.float32, usual: np.ndarray, word: int, chance: float) -> int:
    """Return a word near another one; see `_nearness`."""
    shares = np.zeros(2 * REACH + 1, np.float32)
    begin, end = max(0, REACH - word), min(2 * REACH + 1, len(usual) + REACH - word)
    highest = IMPOSSIBLE
    for place in range(begin, end):
        shares[place] = kernel[place] + pull * usual[word + place - REACH]
        highest = max(highest, shares[place])
    for place in range(begin, end):
        shares[place] = np.exp(shares[place] - highest)
    return word + pick(shares, chance) - REACH


@inner
def _favour(own: np.ndarray, favour: np.ndarray, now_s: float, low: np.ndarray, high: np.ndarray) -> None:
    """Make words of the gap likelier for the hour in which it would end."""
    for word in range(len(own)):
        ends_h = (now_s + (low[word] + high[word]) / 2) / 3600
        own[word] += favour[int(ends_h) % WEEK_H]


@inner
def _find_possible_runs(possible: np.ndarray, low: np.ndarray, bound_s: float) -> None:
    """Write which words of the run time can be; see `Fields.possible_runs`."""
    for word in range(1, len(low)):
        possible[word] = low[word] <= bound_s
    possible[len(low) :] = np.isfinite(bound_s)


@inner
def _shares(own: np.ndarray, possible: np.ndarray) -> None:
    """Turn logits into shares, which need not add up to 1."""
    for word in range(len(own)):
        if not possible[word]:
            own[word] = IMPOSSIBLE
    highest = own.max()
    for word in range(len(own)):
        own[word] = np.exp(own[word] - highest)
