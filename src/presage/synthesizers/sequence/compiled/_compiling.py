"""How the kernels are compiled, and what they share with NumPy."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit
from numba.extending import overload, register_jitable

from presage.synthesizers.sequence import bins, features, meanings

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def _forget_stale_kernels() -> None:
    """Remove compiled kernels that are older than any source file of the sequence model.

    Functions and constants of other modules are compiled into a kernel, and numba looks only at the kernel's own
    file to tell whether it is still good.
    """
    folder = Path(__file__).parent
    # Another process may delete them first, and an installation that may not be written to does not change either.
    with suppress(OSError):
        newest = max(path.stat().st_mtime for path in folder.parent.rglob("*.py"))
        for compiled_file in (folder / "__pycache__").glob("*.nb[ci]"):
            if compiled_file.stat().st_mtime < newest:
                compiled_file.unlink(missing_ok=True)


_forget_stale_kernels()

# What is told to the network and what words become is written once: NumPy runs it on arrays, kernels on numbers.
for _shared in (
    features.numbers_before, features.numbers_after, features.after_job, features.clock, features.known_log,
    features.filled, features.next_usual, features.work_of,
    bins.draw_between, bins.draw_below,
    meanings.gap_seconds, meanings.calm_hours, meanings.sessions_until, meanings.run_seconds,
):  # fmt: skip
    register_jitable(_shared)


def _one_of(condition: bool, true: float, false: float) -> float:
    return true if condition else false


overload(features.where, strict=False)(lambda *_types: _one_of)

_UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # numba's stubs lack them

compiled = njit(cache=True, nogil=True, error_model="numpy")
inner: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNWRAPPED)
"""For functions that only compiled ones call: without a wrapper for Python they compile in half the time."""
fast: Callable[[_Function], _Function] = njit(
    cache=True, nogil=True, error_model="numpy", fastmath=True, **_UNWRAPPED
)
"""The same for sums whose order does not matter, of numbers none of which is NaN."""
