"""How the kernels of the view are compiled."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def _forget_stale_kernels() -> None:
    """Remove compiled kernels that are older than any source file of the folder.

    numba compiles constants of other modules into a kernel, and looks only at the kernel's own file to tell
    whether it is still good. A kernel with the wrong length of a context would write where it must not.
    """
    folder = Path(__file__).parent
    with suppress(OSError):
        newest = max(path.stat().st_mtime for path in folder.glob("*.py"))
        for compiled_file in (folder / "__pycache__").glob("*.nb[ci]"):
            if compiled_file.stat().st_mtime < newest:
                compiled_file.unlink(missing_ok=True)


_forget_stale_kernels()

_UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # numba's stubs lack them
_UNCOUNTED: dict[str, Any] = {**_UNWRAPPED, "_nrt": False}

compiled = njit(cache=True, nogil=True, error_model="numpy")
inner: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNWRAPPED)
"""For functions that only compiled ones call: without a wrapper for Python they compile in half the time."""
fast: Callable[[_Function], _Function] = njit(
    cache=True, nogil=True, error_model="numpy", fastmath=True, **_UNWRAPPED
)
"""The same for sums whose order does not matter."""
lean: Callable[[_Function], _Function] = njit(cache=True, nogil=True, error_model="numpy", **_UNCOUNTED)
"""For functions that make no arrays and return none, which then do not count who uses an array: much faster."""
