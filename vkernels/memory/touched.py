"""All tensors that a step's operations use or return, and that outlive it."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .op_storages import kind_of
from .tiers import storage_of

UNWRITTEN = ("empty", "new_empty")
"""Prefixes of operations that return uninitialised tensors."""


class View(NamedTuple):
    """The part of a storage that an operation used or returned."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class Touched(TorchDispatchMode):
    """Records, while it is entered, the tensors that operations read and write, without keeping them alive."""

    def __init__(self) -> None:
        super().__init__()
        self._references: dict[int, StorageWeakRef] = {}
        """By the storage's address in torch, in order of first use; references keep addresses from being reused."""
        self._views: defaultdict[int, dict[View, None]] = defaultdict(dict)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        kind = kind_of(func)
        if not kind.only_views:
            made = () if kind.name.startswith(UNWRITTEN) else out
            for leaf in tree_leaves((args, kwargs, made)):
                if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                    self._note(leaf)
        return out

    def contents(self, but: frozenset[int] = frozenset()) -> Iterator[torch.Tensor]:
        """Yield the tensors that still live, by storage in order of first use, without the storages at addresses `but`.

        None is kept alive after the next is requested.
        """
        gc.collect()
        for key, reference in self._references.items():
            storage = None if key in but else storage_of(reference)
            if storage is None:
                continue
            for view in self._views[key]:
                whole = torch.empty(0, dtype=view.dtype, device=storage.device)
                if _last(view) <= storage.nbytes():
                    yield whole.set_(storage, view.offset, view.shape, view.strides)

    def _note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._references:
            self._references[key] = StorageWeakRef(storage)
        view = View(tensor.dtype, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))
        self._views[key][view] = None


def _last(view: View) -> int:
    """Bytes up to the end of the last element."""
    if 0 in view.shape:
        return 0
    reach = sum((length - 1) * stride for length, stride in zip(view.shape, view.strides, strict=True))
    return (view.offset + reach + 1) * view.dtype.itemsize
