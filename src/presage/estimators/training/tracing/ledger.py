"""Every piece of memory that a step had, when it came and went, and what it was for."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from presage.estimators.training.profile import MemoryParts
from presage.estimators.training.tracing.allocator import CachingAllocator

if TYPE_CHECKING:
    from collections.abc import Callable


class Use(StrEnum):
    """What a piece of memory is for."""

    PARAMETER = "parameter"
    GRADIENT = "gradient"
    OPTIMIZER = "optimizer"
    ACTIVATION = "activation"
    HOST = "host"
    """Not on the device: an optimizer's count of steps, where the device is a GPU."""


@dataclass(slots=True)
class Piece:
    """One storage."""

    size: int
    use: Use = Use.ACTIVATION


@dataclass(frozen=True)
class Footprint:
    """What a ledger comes to: the most that was alive at once, of what, and what an allocator held for it."""

    peak_bytes: int
    reserved_bytes: int
    parts: MemoryParts
    allocations: int


class Ledger:
    """Storages in the order in which they appear and vanish; their use may become known later.

    A storage is anything that can be weakly referenced and has `_cdata`, its identity while it lives, and
    `nbytes()`.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.events: list[int] = []
        """Number of a piece, from 1 up: positive when it appears, negative when it vanishes."""
        self._alive: dict[int, tuple[weakref.ref[Any], int]] = {}

    def see(self, storage: Any, use: Use | None = None) -> None:
        """Enter a storage unless it is known; say what it is for, if that is known."""
        key = storage._cdata
        known = self._alive.get(key)
        if known is None:
            self.pieces.append(Piece(storage.nbytes(), use or Use.ACTIVATION))
            number = len(self.pieces)
            self.events.append(number)
            self._alive[key] = (weakref.ref(storage, self._forgetting(key, number)), number)
        elif use is not None:
            self.pieces[known[1] - 1].use = use

    def pass_through(self, size: int) -> None:
        """Enter a piece that appears and vanishes within one operator."""
        if size > 0:
            self.pieces.append(Piece(size))
            self.events += (len(self.pieces), -len(self.pieces))

    def close(self) -> None:
        """Let go of all storages; nothing is entered from here on."""
        self._alive = {}

    def footprint(self, size_of: Callable[[Piece], int], extra_bytes: tuple[int, ...] = ()) -> Footprint:
        """Return what all of it comes to, with pieces of these sizes and some more that are always there."""
        allocator = CachingAllocator()
        for extra in extra_bytes:
            allocator.allocate(extra)
        sizes = [size_of(piece) for piece in self.pieces]
        blocks: dict[int, Any] = {}
        alive = peak = sum(extra_bytes)
        peak_at = 0
        for place, event in enumerate(self.events):
            if event > 0:
                alive += sizes[event - 1]
                blocks[event] = allocator.allocate(sizes[event - 1])
                if alive > peak:
                    peak, peak_at = alive, place
            else:
                alive -= sizes[-event - 1]
                allocator.release(blocks.pop(-event))
        parts = self._parts(peak_at, sizes, sum(extra_bytes))
        return Footprint(peak, allocator.reserved_bytes, parts, len(self.pieces))

    def _parts(self, place: int, sizes: list[int], extra: int) -> MemoryParts:
        alive = dict.fromkeys(Use, 0)
        for event in self.events[: place + 1]:
            number = abs(event) - 1
            alive[self.pieces[number].use] += sizes[number] if event > 0 else -sizes[number]
        return MemoryParts(
            parameters=alive[Use.PARAMETER],
            gradients=alive[Use.GRADIENT],
            optimizer=alive[Use.OPTIMIZER],
            activations=alive[Use.ACTIVATION] + alive[Use.HOST] + extra,
        )

    def _forgetting(self, key: int, number: int) -> Callable[[object], None]:
        def forget(_: object) -> None:
            if self._alive.pop(key, None) is not None:
                self.events.append(-number)

        return forget
