"""Networks that read sequences: words, patches of a picture, samples of a signal."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class _Attention(nn.Module):
    """Attention with several heads, to itself or to another sequence."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.ask = nn.Linear(width, width)
        self.answer = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def _split(self, words: Tensor) -> Tensor:
        return words.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, words: Tensor, other: Tensor | None = None) -> Tensor:
        keys, values = self.answer(words if other is None else other).chunk(2, dim=-1)
        seen = functional.scaled_dot_product_attention(
            self._split(self.ask(words)), self._split(keys), self._split(values), is_causal=self.causal
        )
        return self.out(seen.transpose(1, 2).flatten(2))


def _widened(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class _Block(nn.Module):
    """Attention and two layers, each beside a shortcut; with `crossed`, attention to another sequence between."""

    def __init__(
        self, width: int, heads: int, *, causal: bool = False, crossed: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.own = _Attention(width, heads, causal=causal)
        self.crossed = _Attention(width, heads) if crossed else None
        self.wide = _widened(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if crossed else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: Tensor, other: Tensor | None = None) -> Tensor:
        words = words + self.dropout(self.own(self.norms[0](words)))
        if self.crossed is not None:
            words = words + self.dropout(self.crossed(self.norms[2](words), other))
        return words + self.dropout(self.wide(self.norms[1](words)))


class _Words(nn.Module):
    def __init__(self, vocabulary: int, length: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(length, width))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.words(tokens) + self.places[: tokens.shape[1]]


class Encoder(nn.Module):
    """BERT-like: reads a text in both directions and names every word of it."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = _Words(vocabulary, length, width)
        self.blocks = nn.Sequential(*(_Block(width, heads, dropout=0.1) for _ in range(layers)))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.last(self.blocks(self.words(tokens)))


class Decoder(nn.Module):
    """GPT-like: foretells the next word; words go out by the same matrix through which they came in."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = _Words(vocabulary, length, width)
        self.blocks = nn.Sequential(*(_Block(width, heads, causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, vocabulary, bias=False)
        self.last.weight = self.words.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.last(self.norm(self.blocks(self.words(tokens))))


class Translator(nn.Module):
    """A sequence from another one: an encoder, and a decoder that looks at it."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.source = _Words(vocabulary, length, width)
        self.target = _Words(vocabulary, length, width)
        self.readers = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.writers = nn.ModuleList(_Block(width, heads, causal=True, crossed=True) for _ in range(layers))
        self.last = nn.Linear(width, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        read = self.readers(self.source(source))
        words = self.target(target)
        for writer in self.writers:
            words = writer(words, read)
        return self.last(words)


class PatchTransformer(nn.Module):
    """ViT-like: patches of a picture as words, with one more that gathers the answer."""

    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int, classes: int = 100) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, image: Tensor) -> Tensor:
        words = self.patches(image).flatten(2).transpose(1, 2)
        words = torch.cat([self.first.expand(words.shape[0], -1, -1), words], dim=1) + self.places
        return self.last(self.blocks(words)[:, 0])


class _MixerBlock(nn.Module):
    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.across = nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
        self.within = _widened(width)

    def forward(self, words: Tensor) -> Tensor:
        words = words + self.across(self.norms[0](words).transpose(1, 2)).transpose(1, 2)
        return words + self.within(self.norms[1](words))


class Mixer(nn.Module):
    """MLP-Mixer: layers across patches and layers within them, by turns."""

    def __init__(self, size: int, patch: int, width: int, layers: int, classes: int = 100) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(_MixerBlock((size // patch) ** 2, width) for _ in range(layers)))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, image: Tensor) -> Tensor:
        words = self.patches(image).flatten(2).transpose(1, 2)
        return self.last(self.blocks(words).mean(dim=1))


class LstmLanguage(nn.Module):
    """Foretells the next word by two layers of LSTM."""

    def __init__(self, vocabulary: int, width: int, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.memory = nn.LSTM(width, width, layers, batch_first=True)
        self.last = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.last(self.memory(self.words(tokens))[0])


class GruClassifier(nn.Module):
    """Reads a signal in both directions by a GRU and names it."""

    def __init__(self, channels: int, width: int, classes: int = 20) -> None:
        super().__init__()
        self.memory = nn.GRU(channels, width, batch_first=True, bidirectional=True)
        self.last = nn.Linear(2 * width, classes)

    def forward(self, signal: Tensor) -> Tensor:
        return self.last(self.memory(signal)[0][:, -1])


class _Dilated(nn.Module):
    def __init__(self, inside: int, outside: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(inside, outside, 3, padding=dilation, dilation=dilation),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Conv1d(outside, outside, 3, padding=dilation, dilation=dilation),
            nn.ReLU(),
        )
        self.shortcut = nn.Identity() if inside == outside else nn.Conv1d(inside, outside, 1)

    def forward(self, signal: Tensor) -> Tensor:
        return functional.relu(self.body(signal) + self.shortcut(signal))


class TemporalConvNet(nn.Module):
    """One-dimensional convolutions that look further back layer by layer."""

    def __init__(self, channels: int, width: int, layers: int, classes: int = 20) -> None:
        super().__init__()
        blocks = [_Dilated(width if number else channels, width, 1 << number) for number in range(layers)]
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(width, classes)

    def forward(self, signal: Tensor) -> Tensor:
        return self.last(self.blocks(signal).mean(dim=2))
