"""How the kernels of the view are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., Any]")

_UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # numba's stubs lack them

compiled = njit(cache=True, nogil=True, error_model="numpy")
inner: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNWRAPPED)
"""For functions that only compiled ones call: without a wrapper for Python they compile in half the time."""
fast: Callable[[_Function], _Function] = njit(
    cache=True, nogil=True, error_model="numpy", fastmath=True, **_UNWRAPPED
)
"""The same for sums whose order does not matter."""

_UNCOUNTED: dict[str, Any] = {**_UNWRAPPED, "_nrt": False}
lean: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNCOUNTED)
"""For functions that make no arrays and return none, which then do not count who uses an array: much faster."""
