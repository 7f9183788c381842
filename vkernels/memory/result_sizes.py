"""Predict how many bytes an operation's results take, before it runs, by tensors without memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from .op_storages import OpCall

MAX_CALLS = 1 << 15
"""Kinds of calls that are remembered."""
UNFORESEEN = frozenset({"mkldnn_rnn_layer"})
"""Operations whose fake results are smaller than the real ones (a workspace of oneDNN)."""


class ResultSizes:
    """Sizes by operation and by shapes, strides, dtypes and numbers of its arguments.

    `dynamic`: operations met whose results' sizes depend on data.
    """

    def __init__(self) -> None:
        self._known: dict[Any, int | None] = {}
        self.dynamic: set[str] = set()

    def predict(self, func: Any, call: OpCall, args: Any, kwargs: Any) -> int | None:
        """Return the bytes of the storages that a call makes, or an upper bound; None where neither is known."""
        if not call.kind.makes and not call.kind.resizes:
            return 0
        try:
            key = self._key(func, args, kwargs)
            if key in self._known:
                return self._known[key]
        except TypeError:  # something that has no hash
            return self._infer(func, call, args, kwargs)
        if len(self._known) >= MAX_CALLS:
            self._known.clear()
        size = self._known[key] = self._infer(func, call, args, kwargs)
        return size

    def correct(self, func: Any, call: OpCall, args: Any, kwargs: Any, size: int) -> None:
        """Note how much a call has made, if that does not depend on data."""
        if call.kind.name not in self.dynamic:
            with contextlib.suppress(TypeError):
                self._known[self._key(func, args, kwargs)] = size

    def _infer(self, func: Any, call: OpCall, args: Any, kwargs: Any) -> int | None:
        name = call.kind.name
        if name.partition(".")[0] in UNFORESEEN:
            return None
        with contextlib.suppress(Exception), _disable_current_modes():  # not implemented for these, which are fast
            return _made_bytes(func, call, args, kwargs, "meta")
        try:
            with _disable_current_modes(), FakeTensorMode():
                return _made_bytes(func, call, args, kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException):
            self.dynamic.add(name)
        except Exception:  # no fake implementation: the real result tells the size
            return None
        bound = BOUNDS.get(name.partition(".")[0])
        return None if bound is None else bound(*args)

    @staticmethod
    def _key(func: Any, args: Any, kwargs: Any) -> Any:
        any_number = torch.Tag.pointwise in func.tags
        described = _describe(args, any_number), _describe(tuple(kwargs.items()), any_number)
        key = func, described
        hash(key)
        return key


def _describe(value: Any, any_number: bool) -> Any:
    """What results' sizes depend on. `any_number`: not on the values of floating-point numbers."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.stride(), value.device
    if isinstance(value, tuple | list):
        return tuple([_describe(each, any_number) for each in value])
    if isinstance(value, float) and any_number:
        return float
    return type(value), value


def _made_bytes(func: Any, call: OpCall, args: Any, kwargs: Any, device: str | None = None) -> int:
    """Run an operation on tensors without memory; `device`: theirs. Return the bytes of the storages that it makes.

    Further results of half precision count twice: kernels of CPUs keep statistics in single precision. So does a tensor
    that is two results: kernels make one for each.
    """
    faked = _Faked(device)
    given = tree_map(faked, args), {name: tree_map(faked, value) for name, value in kwargs.items()}
    if device is not None and ("device" in kwargs or not faked.storages):
        given[1]["device"] = torch.device(device)
    results = [each for each in tree_leaves(func(*given[0], **given[1])) if isinstance(each, torch.Tensor)]
    made: dict[tuple[int, int], int] = {}
    for number, each in enumerate(results):
        storage = each.untyped_storage()
        if call.kind.resizes or storage._cdata not in faked.storages:
            is_more = number and each.is_floating_point() and each.element_size() == 2
            before = sum(other is each for other in results[:number])
            made[storage._cdata, before] = storage.nbytes() * (2 if is_more else 1)
    return sum(made.values())


class _Faked:
    """Replaces tensors by some without memory. `storages`: theirs, by address."""

    def __init__(self, device: str | None) -> None:
        self._device = device
        self.storages: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Generator):
            return None  # such results have no values
        if not isinstance(value, torch.Tensor):
            return value
        device = self._device or value.device
        fake = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
        storage = fake.untyped_storage()
        self.storages[storage._cdata] = storage
        return fake


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _indexed(tensor: torch.Tensor, indices: Any, *_: Any) -> int | None:
    """The result of indexing by one mask, with all elements chosen."""
    masks = [each for each in indices if each is not None]
    if len(masks) != 1 or masks[0].dtype not in (torch.bool, torch.uint8):
        return None
    return _bytes(tensor)


def _unique(tensor: torch.Tensor, *_: Any) -> int:
    return _bytes(tensor) + 16 * tensor.numel()


BOUNDS: dict[str, Callable[..., int | None]] = {
    "nonzero": lambda tensor: 8 * tensor.dim() * tensor.numel(),
    "masked_select": lambda tensor, mask: tensor.element_size() * prod(np.broadcast_shapes(tensor.shape, mask.shape)),
    "index": _indexed,
    "_unique2": _unique,
    "unique_consecutive": _unique,
}
"""The most bytes of results whose sizes depend on data, by operation."""
