"""How the functions of the detailed engine are compiled.

Only functions that Python calls get a wrapper for it: unwrapping the whole state takes long to compile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

from presage.simulator._compiling import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    _Function = TypeVar("_Function", bound="Callable[..., Any]")

__all__ = ["compiled", "inner", "lean"]

# numba's stubs do not know these options.
_UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_UNCOUNTED: dict[str, Any] = {**_UNWRAPPED, "_nrt": False}

inner: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNWRAPPED)
"""For functions that only compiled ones call."""
lean: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNCOUNTED)
"""The same for functions that make no arrays and return none, which then do not count who uses an array."""
