"""How the kernels on nodes are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., Any]")

compiled = njit(cache=True, nogil=True, error_model="numpy")
"""Compile without checks of divisors, which are never 0."""

_UNCOUNTED: dict[str, Any] = {"_nrt": False}  # numba's stubs do not know this option
lean: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNCOUNTED)
"""The same for functions that make no arrays and return none.

Any other function counts every array that it is handed as used once more, which takes longer than most calls here.
"""

_UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner: Callable[[_Function], _Function] = njit(
    cache=True, nogil=True, error_model="numpy", **_UNWRAPPED, **_UNCOUNTED
)
"""The same for functions that compiled code alone calls; with many arguments they take half as long to compile."""
nested: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNWRAPPED)
"""Like `inner`, for functions that make arrays."""
