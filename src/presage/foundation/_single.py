"""The network for one question, compiled: what `forward` computes for many, without the cost of many small calls.

The question is asked twice, with its numbers and without; what the earlier jobs have in common in both is computed
once. Letters in shapes: C components of the mixture, E ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from presage.foundation.forward import CUBIC, EPSILON, MASKED, SLOPE, SMALLEST_SCALE, STEP
from presage.foundation.view._compiling import compiled, fast


class Linear(NamedTuple):
    """A linear map: (in, out) and (out,); with one more axis in front if there is one for each layer."""

    weight: np.ndarray
    bias: np.ndarray


class Parts(NamedTuple):
    """All weights of a network, transposed so that a vector times a matrix runs along memory."""

    question_in: Linear
    question_out: Linear
    token_in: Linear
    token_question: Linear
    token_out: Linear
    token_norm: Linear  # scale and offset
    keys: Linear
    values: Linear
    query: Linear
    out: Linear
    norm_query: Linear
    norm_feed: Linear
    feed_in: Linear
    feed_out: Linear
    norm: Linear
    pointer_token: Linear
    pointer_question: Linear
    pointer: Linear
    free: Linear
    free_ends: Linear  # empty if ends are not told apart


@compiled
def answer_one(
    parts: Parts, heads: int, x: np.ndarray, tokens: np.ndarray, present: np.ndarray, outcomes: np.ndarray,
    ends: np.ndarray, anchor: float,
    weight: np.ndarray, centre: np.ndarray, scale: np.ndarray, chances: np.ndarray,
) -> None:  # fmt: skip
    """Write mixture (C) and chances (E) for each row of `x`, the numbers and age of the same question."""
    length, width = len(tokens), parts.token_in.weight.shape[1]
    places = np.flatnonzero(present)
    plain = np.empty((len(places), width), np.float32)
    for k in range(len(places)):
        _linear(tokens[places[k]], parts.token_in.weight, parts.token_in.bias, plain[k])
    for row in range(len(x)):
        _answer(
            parts, heads, x[row], plain, places, length, outcomes, ends, anchor,
            weight[row], centre[row], scale[row], chances[row],
        )  # fmt: skip


@fast
def _answer(
    parts: Parts, heads: int, x: np.ndarray, plain: np.ndarray, places: np.ndarray, length: int,
    outcomes: np.ndarray, ends: np.ndarray, anchor: float,
    weight: np.ndarray, centre: np.ndarray, scale: np.ndarray, chances: np.ndarray,
) -> None:  # fmt: skip
    width = plain.shape[1]
    hidden = np.empty(parts.question_in.weight.shape[1], np.float32)
    _linear(x, parts.question_in.weight, parts.question_in.bias, hidden)
    _gelu(hidden)
    question, shared = np.empty(width, np.float32), np.empty(width, np.float32)
    _linear(hidden, parts.question_out.weight, parts.question_out.bias, question)
    _linear(question, parts.token_question.weight, parts.token_question.bias, shared)
    seen = np.empty((len(places), width), np.float32)
    each = np.empty(width, np.float32)
    for k in range(len(places)):
        for d in range(width):
            each[d] = plain[k, d] + shared[d]
        _gelu(each)
        _linear(each, parts.token_out.weight, parts.token_out.bias, seen[k])
        _normalise(seen[k], parts.token_norm.weight, parts.token_norm.bias)
    for layer in range(len(parts.query.weight)):
        _attend(parts, layer, heads, question, seen)
    _normalise(question, parts.norm.weight, parts.norm.bias)
    _point(parts, question, seen, places, length, outcomes, ends, anchor, weight, centre, scale, chances)


@fast
def _attend(parts: Parts, layer: int, heads: int, question: np.ndarray, seen: np.ndarray) -> None:
    count, width = seen.shape
    size = width // heads
    normal, query = question.copy(), np.empty(width, np.float32)
    _normalise(normal, parts.norm_query.weight[layer], parts.norm_query.bias[layer])
    _linear(normal, parts.query.weight[layer], parts.query.bias[layer], query)
    keys, values = parts.keys.weight[layer], parts.values.weight[layer]
    taken = np.empty(width, np.float32)
    wanted, mixed, scores = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(count, np.float32)
    for head in range(heads):
        first = head * size
        for d in range(width):
            total = np.float32(0)
            for e in range(size):
                total += query[first + e] * keys[d, first + e]
            wanted[d] = total / np.float32(np.sqrt(size))
        for k in range(count):
            total = np.float32(0)
            for d in range(width):
                total += wanted[d] * seen[k, d]
            scores[k] = total
        _softmax(scores)
        mixed[:] = 0
        for k in range(count):
            for d in range(width):
                mixed[d] += scores[k] * seen[k, d]
        for e in range(size):
            total = np.float32(0)
            for d in range(width):
                total += mixed[d] * values[d, first + e]
            taken[first + e] = total + parts.values.bias[layer, first + e]
    added = np.empty(width, np.float32)
    _linear(taken, parts.out.weight[layer], parts.out.bias[layer], added)
    for d in range(width):
        question[d] += added[d]
        normal[d] = question[d]
    _normalise(normal, parts.norm_feed.weight[layer], parts.norm_feed.bias[layer])
    hidden = np.empty(parts.feed_in.weight.shape[2], np.float32)
    _linear(normal, parts.feed_in.weight[layer], parts.feed_in.bias[layer], hidden)
    _gelu(hidden)
    _linear(hidden, parts.feed_out.weight[layer], parts.feed_out.bias[layer], added)
    for d in range(width):
        question[d] += added[d]


@fast
def _point(
    parts: Parts, question: np.ndarray, seen: np.ndarray, places: np.ndarray, length: int, outcomes: np.ndarray,
    ends: np.ndarray, anchor: float,
    weight: np.ndarray, centre: np.ndarray, scale: np.ndarray, chances: np.ndarray,
) -> None:  # fmt: skip
    width, kinds = seen.shape[1], len(chances)
    shared, each = np.empty(width, np.float32), np.empty(width, np.float32)
    _linear(question, parts.pointer_question.weight, parts.pointer_question.bias, shared)
    offered = np.empty(parts.pointer.weight.shape[1], np.float32)
    copied = np.full(length + 1, MASKED, np.float32)
    weight[:] = MASKED
    for k in range(length):
        centre[k] = 0
        scale[k] = 1
    for k in range(len(places)):
        place = places[k]
        _linear(seen[k], parts.pointer_token.weight, parts.pointer_token.bias, each)
        for d in range(width):
            each[d] += shared[d]
        _gelu(each)
        _linear(each, parts.pointer.weight, parts.pointer.bias, offered)
        weight[place] = offered[0]
        centre[place] = outcomes[place] + offered[1]
        scale[place] = SMALLEST_SCALE + _softplus(offered[2] - 1)
        if kinds and ends[place] >= 0:
            copied[place] = offered[3]
    count = parts.free.weight.shape[1] // 3
    free = np.empty(3 * count, np.float32)
    _linear(question, parts.free.weight, parts.free.bias, free)
    for k in range(count):
        weight[length + k] = free[k]
        centre[length + k] = anchor + STEP * free[count + k]
        scale[length + k] = SMALLEST_SCALE + _softplus(free[2 * count + k])
    _softmax(weight)
    if kinds:
        own = np.empty(kinds + 1, np.float32)
        _linear(question, parts.free_ends.weight, parts.free_ends.bias, own)
        copied[length] = own[kinds]
        _softmax(copied)
        _softmax(own[:kinds])
        for e in range(kinds):
            chances[e] = copied[length] * own[e]
        for k in range(len(places)):
            if ends[places[k]] >= 0:
                chances[ends[places[k]]] += copied[places[k]]


@fast
def _linear(values: np.ndarray, weight: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
    for o in range(len(out)):
        out[o] = bias[o]
    for i in range(len(values)):
        value = values[i]
        if value != 0:
            for o in range(len(out)):
                out[o] += value * weight[i, o]


@fast
def _normalise(values: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> None:
    mean = np.float32(0)
    for d in range(len(values)):
        mean += values[d]
    mean /= np.float32(len(values))
    spread = np.float32(0)
    for d in range(len(values)):
        spread += (values[d] - mean) ** 2
    factor = np.float32(1) / np.sqrt(spread / np.float32(len(values)) + EPSILON)
    for d in range(len(values)):
        values[d] = (values[d] - mean) * factor * scale[d] + offset[d]


@fast
def _gelu(values: np.ndarray) -> None:
    for d in range(len(values)):
        v = values[d]
        # The hyperbolic tangent by way of the exponential, which is the cheaper of the two.
        u = np.float32(2) * SLOPE * (v + CUBIC * v * v * v)
        values[d] = v - v / (np.exp(min(u, np.float32(60))) + np.float32(1))


@fast
def _softmax(values: np.ndarray) -> None:
    highest = values[0]
    for k in range(len(values)):
        highest = max(highest, values[k])
    total = np.float32(0)
    for k in range(len(values)):
        values[k] = np.exp(values[k] - highest)
        total += values[k]
    for k in range(len(values)):
        values[k] /= total


@fast
def _softplus(value: np.float32) -> np.float32:
    return max(value, np.float32(0)) + np.log1p(np.exp(-abs(value)))
