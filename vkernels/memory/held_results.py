"""Results of calls that the caller still holds: they use the device's memory, and nothing in the step leads to them."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from .tiers import storage_of

_has_died = torch.UntypedStorage._expired


class HeldResults:
    """Storages of results that still live, on devices of a `kind`."""

    def __init__(self, kind: str):
        self.kind = kind
        self._sizes: dict[int, tuple[int, StorageWeakRef]] = {}
        """By the storage's address in torch, which the reference keeps from being used again."""
        self._noted = 0
        """Bytes of them and of those that have died since the last search."""

    def note(self, result: Any) -> None:
        """Add what a call has returned."""
        for each in (result,) if isinstance(result, torch.Tensor) else tree_leaves(result):
            if isinstance(each, torch.Tensor) and each.layout == torch.strided and each.device.type == self.kind:
                storage = each.untyped_storage()
                if storage._cdata not in self._sizes:
                    self._sizes[storage._cdata] = storage.nbytes(), StorageWeakRef(storage)
                    self._noted += storage.nbytes()

    def exceed(self, bytes: int) -> bool:
        """Whether more bytes are held."""
        return self._noted > bytes and self.bytes() > bytes

    def bytes(self) -> int:
        """Return the bytes that are held."""
        self._sizes = {key: each for key, each in self._sizes.items() if not _has_died(each[1].cdata)}
        self._noted = sum(size for size, _ in self._sizes.values())
        return self._noted

    def storages(self) -> list[torch.UntypedStorage]:
        """Return what is held."""
        found = (storage_of(reference) for _, reference in self._sizes.values())
        return [each for each in found if each is not None]
