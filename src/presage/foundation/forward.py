"""The network without torch: the same sums in plain NumPy, for serving.

Letters in shapes: B questions, K jobs in the context, D width, H heads, E ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from presage.foundation._single import Parts
    from presage.foundation.view.seen import Seen

    Floats = NDArray[np.float32]

MASKED = np.float32(-1e4)
SMALLEST_SCALE = np.float32(0.04)
STEP = np.float32(2.0)
"""Free components are placed in units of this around the anchor."""
EPSILON = np.float32(1e-5)
CUBIC = np.float32(0.044715)
SLOPE = np.float32(np.sqrt(2 / np.pi))


class Forward:
    """A trained network, ready to answer."""

    def __init__(self, weights: Mapping[str, Floats], *, layers: int, heads: int, free: int, ends: int) -> None:
        self.layers, self.heads, self.free, self.ends = layers, heads, free, ends
        self._parts: Parts | None = None
        # Transposed once, and laid out as the product reads them.
        self._weights = {
            name: np.ascontiguousarray(value.T if value.ndim == 2 else value, np.float32)
            for name, value in weights.items()
        }

    def __call__(self, seen: Seen) -> tuple[Mixture, Floats | None]:
        """Return the forecasts, and the chances of the ends (B, E) if the network tells them apart.

        The numbers must be on the scale that the network was trained on.
        """
        question = np.concatenate([seen.x, seen.age_numbers()], 1)
        question = self._linear(_gelu(self._linear(question, "question.0")), "question.2")  # (B, D)
        tokens = self._linear(seen.tokens, "token_in") + self._linear(question, "token_question")[:, None]
        tokens = self._normal(self._linear(_gelu(tokens), "token_out"), "token_norm")  # (B, K, D)
        bias = np.where(seen.present, np.float32(0), MASKED).astype(np.float32)  # (B, K)
        for layer in range(self.layers):
            question = self._attend(question, tokens, bias, f"layers.{layer}.")
        question = self._normal(question, "norm")
        pointed = self._linear(tokens, "pointer_token") + self._linear(question, "pointer_question")[:, None]
        pointer = self._linear(_gelu(pointed), "pointer")  # (B, K, 3 or 4)
        return self._mixture(question, pointer, bias, seen), self._ends(question, pointer, bias, seen)

    def one(self, seen: Seen, x: Floats) -> tuple[Mixture, Floats | None]:
        """Return the same for a single question with several sets of numbers (R, numbers), compiled: R rows."""
        from presage.foundation._single import answer_one

        if self._parts is None:
            self._parts = self._packed()
        rows, length = len(x), seen.tokens.shape[1]
        numbers = np.concatenate([x, np.repeat(seen.age_numbers(), rows, axis=0)], 1)
        shape = (rows, length + self.free)
        weight, centre, scale = (np.empty(shape, np.float32) for _ in range(3))
        chances = np.empty((rows, self.ends), np.float32)
        answer_one(
            self._parts, self.heads, numbers, seen.tokens[0], seen.present[0], seen.outcomes[0], seen.ends[0],
            float(seen.anchor[0]), weight, centre, scale, chances,
        )  # fmt: skip
        return Mixture(weight, centre, scale), chances if self.ends else None

    def _packed(self) -> Parts:
        """Return the weights as the compiled form wants them; those of layers on top of each other."""
        from presage.foundation._single import Linear, Parts

        def plain(name: str) -> Linear:
            weight = self._weights.get(name + ".weight", np.empty((0, 0), np.float32))
            return Linear(weight, self._weights.get(name + ".bias", np.empty(0, np.float32)))

        def stacked(name: str) -> Linear:
            weight = np.stack([self._weights[f"layers.{layer}.{name}.weight"] for layer in range(self.layers)])
            none = np.zeros(weight.shape[-1], np.float32)  # keys have no offset: it would cancel out
            bias = [self._weights.get(f"layers.{layer}.{name}.bias", none) for layer in range(self.layers)]
            return Linear(weight, np.stack(bias))

        named = {
            "question_in": "question.0", "question_out": "question.2", "feed_in": "feed.0", "feed_out": "feed.2",
        }  # fmt: skip
        of_layers = ("keys", "values", "query", "out", "norm_query", "norm_feed", "feed_in", "feed_out")
        return Parts(*((stacked if part in of_layers else plain)(named.get(part, part)) for part in Parts._fields))

    def _attend(self, question: Floats, tokens: Floats, bias: Floats, name: str) -> Floats:
        batch, _, width = tokens.shape
        each = width // self.heads
        query = self._linear(self._normal(question, name + "norm_query"), name + "query")
        query = query.reshape(batch, self.heads, 1, each)
        wanted = (query @ self._by_head(name + "keys").transpose(0, 2, 1))[:, :, 0]  # (B, H, D)
        scores = np.add(wanted @ tokens.transpose(0, 2, 1) / np.float32(each**0.5), bias[:, None])  # (B, H, K)
        taken = _softmax(scores) @ tokens  # (B, H, D)
        seen = (taken[:, :, None] @ self._by_head(name + "values"))[:, :, 0].reshape(batch, width)
        question = question + self._linear(np.add(seen, self._weights[name + "values.bias"]), name + "out")
        feed = _gelu(self._linear(self._normal(question, name + "norm_feed"), name + "feed.0"))
        return question + self._linear(feed, name + "feed.2")

    def _by_head(self, name: str) -> Floats:
        """Return the weights of a linear map as (H, D, D/H)."""
        weight = self._weights[name + ".weight"]
        by_head: Floats = weight.reshape(len(weight), self.heads, -1).transpose(1, 0, 2)
        return by_head

    def _mixture(self, question: Floats, pointer: Floats, bias: Floats, seen: Seen) -> Mixture:
        weight, centre, scale = np.split(self._linear(question, "free"), 3, axis=1)
        centre = seen.anchor[:, None] + STEP * centre
        weight = np.concatenate([pointer[..., 0] + bias, weight], 1)
        centre = np.concatenate([seen.outcomes + pointer[..., 1], centre], 1)
        scale = np.concatenate([pointer[..., 2] - 1, scale], 1)
        return Mixture(_softmax(weight), centre, SMALLEST_SCALE + np.logaddexp(np.float32(0), scale))

    def _ends(self, question: Floats, pointer: Floats, bias: Floats, seen: Seen) -> Floats | None:
        if not self.ends:
            return None
        free = self._linear(question, "free_ends")  # (B, E + 1)
        known = seen.ends >= 0
        weight = np.where(known, pointer[..., 3] + bias, MASKED)
        weight = _softmax(np.concatenate([weight, free[:, -1:]], 1))
        ended = (seen.ends[..., None] == np.arange(self.ends)).astype(np.float32)  # (B, K, E)
        copied = np.einsum("bk,bke->be", weight[:, :-1] * known, ended)
        chances: Floats = copied + weight[:, -1:] * _softmax(free[:, :-1])
        return chances

    def _linear(self, values: Floats, name: str) -> Floats:
        weight = self._weights[name + ".weight"]
        flat: Floats = values.reshape(-1, values.shape[-1]) @ weight + self._weights[name + ".bias"]
        return flat.reshape(*values.shape[:-1], weight.shape[1])

    def _normal(self, values: Floats, name: str) -> Floats:
        centred = values - values.mean(-1, keepdims=True)
        spread = np.sqrt(np.square(centred).mean(-1, keepdims=True) + EPSILON)
        scaled: Floats = centred / spread * self._weights[name + ".weight"] + self._weights[name + ".bias"]
        return scaled


def _gelu(values: Floats) -> Floats:
    """Return the Gaussian error unit in the form with the hyperbolic tangent."""
    slope = np.tanh(SLOPE * (values + CUBIC * values * values * values))
    return np.asarray(np.float32(0.5) * values * (1 + slope), np.float32)


def _softmax(values: Floats) -> Floats:
    powers = np.exp(values - values.max(-1, keepdims=True))
    share: Floats = powers / powers.sum(-1, keepdims=True)
    return share
