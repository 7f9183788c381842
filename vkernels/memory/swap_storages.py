"""Exchange the memory of two of torch's storages, of which tensors and views notice nothing."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from vkernels.ir.errors import UnsupportedError

DATA, SIZE, END = 16, 48, 56
"""Bytes from the beginning of a `c10::StorageImpl` at which its `DataPtr` and its size stand, and at which the size
ends: after a virtual table and the counts of references (c10/core/StorageImpl.h, intrusive_ptr.h, UniqueVoidPtr.h)."""


def swap_storages(storage: torch.UntypedStorage, other: torch.UntypedStorage) -> None:
    """Exchange their memory: addresses, what frees them, and devices. Their sizes stay, and should be the same.

    Raises `UnsupportedError` where torch has no function for it, and keeps storages otherwise than is known.
    """
    own: Any = getattr(storage, "_swap_data_ptr_", None)
    if own is None:
        swap_where_they_stand(storage, other)
    else:
        own(other)


def swap_where_they_stand(storage: torch.UntypedStorage, other: torch.UntypedStorage) -> None:
    """The same without torch's function, which versions before 2.13 may lack: the two `DataPtr` are exchanged."""
    for each in (storage, other):
        if not _is_as_known(each):
            raise UnsupportedError(
                f"torch {torch.__version__} keeps storages otherwise than is known here, and has no function to "
                "exchange their memory, which moving tensors between memories needs; torch 2.13 has one"
            )
    one, two, size = storage._cdata + DATA, other._cdata + DATA, SIZE - DATA
    kept = ctypes.string_at(one, size)
    ctypes.memmove(one, two, size)
    ctypes.memmove(two, kept, size)


def _is_as_known(storage: torch.UntypedStorage) -> bool:
    """Whether its address and its size stand where they are expected."""
    words = (ctypes.c_uint64 * (END // 8)).from_address(storage._cdata)
    return words[DATA // 8] == storage.data_ptr() and words[SIZE // 8] == storage.nbytes()
