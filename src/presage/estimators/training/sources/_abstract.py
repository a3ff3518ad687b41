"""Telling tensors that have no numbers in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from torch import Tensor


def is_abstract(tensor: Tensor) -> bool:
    """Return whether a tensor has sizes only: on the device "meta", or made in fake mode."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)
