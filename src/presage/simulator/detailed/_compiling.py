"""How the functions of the detailed engine are compiled."""

from __future__ import annotations

from typing import Any

from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")
"""For functions that Python calls."""
_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = njit(cache=True, nogil=True, error_model="numpy", **_OPTIONS)
"""For functions that only compiled ones call: unwrapping the state for Python takes long to compile."""
