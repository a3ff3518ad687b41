"""What was learned, and what streams remember, as the kernels want it.

Letters in shapes: A streams, K jobs that one may look back to, F fields, D width of a job's vector, H width of the
hidden layer, N numbers that are told, V words of a field, W words of all fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.synthesizers.sequence.features import AFTER, BEFORE

if TYPE_CHECKING:
    from presage.synthesizers.columns import FloatArray
    from presage.synthesizers.sequence.fields import Fields
    from presage.synthesizers.sequence.forward import Float32, Weights
    from presage.synthesizers.sequence.memory import Memory


class Parts(NamedTuple):
    """What was learned; matrices are transposed so that a vector times a matrix runs along memory."""

    first: np.ndarray  # (F + 1,): where the words of each field begin among all words
    user: np.ndarray  # (users + 1, user width)
    words: np.ndarray  # (W + F, D): each field has one word more, for no job
    age: np.ndarray  # (K, D)
    job: np.ndarray  # (D, D)
    job_bias: np.ndarray
    key: np.ndarray  # (D, D)
    key_bias: np.ndarray
    value: np.ndarray  # (D, D)
    value_bias: np.ndarray
    query: np.ndarray  # (F, N, D)
    query_bias: np.ndarray  # (F, D)
    same: np.ndarray  # (F, F)
    body: np.ndarray  # (F, N + D, H)
    body_bias: np.ndarray  # (F, H)
    choice: np.ndarray  # (F, H)
    choice_bias: np.ndarray  # (F,)
    own: np.ndarray  # (H W,): those of one field, (H, V), after those of the other
    own_bias: np.ndarray  # (W,)
    usual: np.ndarray  # (users + 1, W): logarithms
    trust: np.ndarray  # (F,): how much of it counts
    near: np.ndarray  # (2, 2 REACH + 1): logits of how far from an earlier one a gap and a run time lie
    nearness: np.ndarray  # (H, 2 REACH + 1): what run times have of that besides
    pull: np.ndarray  # (2,): how much they lean to what is usual
    favour: np.ndarray  # (168,): how much likelier gaps are that end in an hour of the week
    gaps: int
    """How many words of the gap are not of the first job of a day."""
    sort: np.ndarray
    """The fields that say what sort a job is of."""


class Held(NamedTuple):
    """The arrays of a memory."""

    words: np.ndarray  # (A, K, F)
    keys: np.ndarray  # (A, K, D)
    values: np.ndarray  # (A, K, D)
    present: np.ndarray  # (A, K)
    run_s: np.ndarray  # (A, K)


def held_by(memory: Memory) -> Held:
    """Return the arrays of a memory, not copies."""
    return Held(memory.words, memory.keys, memory.values, memory.present, memory.run_s)


def packed(fields: Fields, weights: Weights, hours: FloatArray) -> Parts:
    """Return what was learned as the kernels want it.

    All are copies: what was read from a file may be read-only, which is another type to the kernels.
    """
    arrays, places = weights.arrays, range(len(fields.names))

    def of_fields(name: str) -> list[Float32]:
        return [arrays[f"fields.{place}.{name}"] for place in places]

    return Parts(
        first=np.concatenate([[0], np.cumsum(fields.sizes)]),
        user=arrays["user.weight"].copy(),
        words=np.concatenate([arrays[f"words.{place}.weight"] for place in places]),
        age=arrays["age.weight"].copy(),
        job=arrays["job.weight"].T.copy(),
        job_bias=arrays["job.bias"].copy(),
        key=arrays["key.weight"].T.copy(),
        key_bias=arrays["key.bias"].copy(),
        value=arrays["value.weight"].T.copy(),
        value_bias=arrays["value.bias"].copy(),
        query=_stacked(of_fields("query.weight")),
        query_bias=np.stack(of_fields("query.bias")),
        same=np.stack(of_fields("same")),
        body=_stacked(of_fields("body.weight")),
        body_bias=np.stack(of_fields("body.bias")),
        choice=np.concatenate(of_fields("choice.weight")),
        choice_bias=np.concatenate(of_fields("choice.bias")),
        own=np.concatenate([each.T.ravel() for each in of_fields("own.weight")]),
        own_bias=np.concatenate(of_fields("own.bias")),
        usual=np.concatenate([arrays[f"usual.{place}"] for place in places], axis=1),
        trust=np.concatenate(of_fields("trust")),
        near=np.stack([arrays[f"fields.{place}.kernel"] for place in (0, places[-1])]),
        nearness=arrays[f"fields.{places[-1]}.nearness.weight"].T.copy(),
        pull=np.concatenate([arrays[f"fields.{place}.pull"] for place in (0, places[-1])]),
        favour=hours.astype(np.float32),
        gaps=len(fields.gap),
        sort=np.array(fields.sort),
    )


def _stacked(of_fields: list[Float32]) -> Float32:
    """Return the weights of all fields on top of each other, transposed: (F, in, out).

    Before the gap is known less is told: for the numbers that come with it, the gap has zeros.
    """
    first = np.insert(of_fields[0], [BEFORE] * (AFTER - BEFORE), 0, axis=1)
    return np.ascontiguousarray(np.stack([each.T for each in (first, *of_fields[1:])]))
