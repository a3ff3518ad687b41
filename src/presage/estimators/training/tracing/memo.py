"""Operators on fake tensors, run once for the same shapes: the next results are made from what the first had.

Torch remembers results of fake operators too, but takes longer to look one up than most networks can spare. A
network is the same few operators on the same shapes, in every block and every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

_CPU = torch.device("cpu")
_MOST_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class _Form:
    """A tensor that an operator makes."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    """Into the storage; of a view counted from where the first argument begins in it."""
    is_view: bool
    """Of the first argument."""


_Recipe: TypeAlias = tuple[type | None, tuple[_Form | None, ...]]
"""Tuple or list, None for a single tensor, and what is in it."""

_CHANGES_FIRST: _Recipe = (None, ())


class _CannotKeyError(Exception):
    pass


class Memo:
    """Results of operators in one fake mode, by operator and form of the arguments."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._known: dict[Any, _Recipe | None] = {}

    def run(self, operator: torch._ops.OpOverload, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return what the operator returns."""
        try:
            key = (
                operator,
                _key(arguments),
                _key(tuple(named.items())) if named else None,
                _place(operator, arguments),
            )
            known = self._known[key]
        except _CannotKeyError:
            return operator(*arguments, **named)
        except KeyError:
            result = operator(*arguments, **named)
            if len(self._known) < _MOST_ENTRIES:
                self._known[key] = _recipe(operator, arguments, result, key[1][0] if key[1] else None)
            return result
        if known is None:
            return operator(*arguments, **named)
        if known is _CHANGES_FIRST:
            return arguments[0]
        container, forms = known
        if container is None:
            return self._make(forms[0], arguments)
        return container(self._make(form, arguments) for form in forms)

    def _make(self, form: _Form | None, arguments: tuple[Any, ...]) -> torch.Tensor | None:
        if form is None:
            return None
        with in_kernel_invocation_manager(self._mode):
            if form.is_view:
                plain = torch.empty(0, dtype=form.dtype, device="meta")
                offset = arguments[0].storage_offset() + form.offset
                plain.set_(arguments[0].untyped_storage(), offset, form.shape, form.stride)
            else:
                plain = torch.empty_strided(form.shape, form.stride, dtype=form.dtype, device="meta")
        return FakeTensor(self._mode, plain, _CPU)


def _place(operator: torch._ops.OpOverload, arguments: tuple[Any, ...]) -> int | None:
    """Return where the first argument begins, for the one operator whose result has a place of its own."""
    return arguments[0].storage_offset() if operator._opname == "as_strided" else None


def _key(values: tuple[Any, ...] | list[Any]) -> tuple[Any, ...]:
    """Return the form of arguments. Numbers come with their type, as 1 is equal to 1.0 and to True.

    Where in its storage a tensor begins is no part of it: steps of a sequence are alike but for that.
    """
    parts: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            if not _is_plain(value):
                raise _CannotKeyError
            parts.append((value.shape, value.stride(), value.dtype))
        elif kind is tuple or kind is list:
            parts.append(_key(value))
        elif value is None or kind in (int, float, bool, str, torch.dtype, torch.device, torch.memory_format):
            parts.append((kind, value))
        elif kind is torch.layout and value is torch.strided:
            parts.append(None)
        else:
            raise _CannotKeyError
    return tuple(parts)


def _recipe(
    operator: torch._ops.OpOverload, arguments: tuple[Any, ...], result: Any, before: Any
) -> _Recipe | None:
    """Return how to make such results again, None where they are more than new tensors or views of an argument.

    `before` is the form that the first argument had; what changes it in place and keeps its form returns it again.
    """
    if operator.namespace != "aten":
        return None
    if operator._schema.is_mutable:
        same = type(result) is FakeTensor and result is arguments[0] and _is_plain(result)
        return _CHANGES_FIRST if same and _key((result,)) == (before,) else None
    container = type(result) if type(result) in (tuple, list) else None
    made = [each for each in (result if container else (result,)) if each is not None]
    if not made or not all(type(each) is FakeTensor and _is_plain(each) for each in made):
        return None
    old = {each.untyped_storage()._cdata for each in arguments if isinstance(each, torch.Tensor)}
    new = [each.untyped_storage()._cdata for each in made]
    if operator.is_view:
        if any(each != arguments[0].untyped_storage()._cdata for each in new):
            return None
    elif len(set(new)) < len(new) or old & set(new) or not all(_is_whole(each) for each in made):
        return None
    begin = arguments[0].storage_offset() if operator.is_view else 0
    forms = tuple(
        None
        if each is None
        else _Form(each.shape, each.stride(), each.dtype, each.storage_offset() - begin, operator.is_view)
        for each in (result if container else (result,))
    )
    return container, forms


def _is_plain(tensor: FakeTensor) -> bool:
    return tensor.constant is None and tensor.fake_device == _CPU and not tensor.is_conj() and not tensor.is_neg()


def _is_whole(tensor: FakeTensor) -> bool:
    return tensor.storage_offset() == 0 and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize
