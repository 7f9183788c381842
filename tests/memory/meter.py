"""An independent meter of device memory: it follows every storage of a program's operations."""

from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Meter(TorchDispatchMode):
    """Bytes of the living storages that operations used or made, results that no one has placed yet included.

    `peak`: the most at the end of any operation, without those whose address is `on_host`. `known`: tensors from
    before. It is entered before the step under test runs, so that it sees operations after all moves for them.
    """

    def __init__(self, known=(), on_host=lambda address: False):
        super().__init__()
        self.peak, self.on_host = 0, on_host
        self._references = {}
        for each in known:
            self._note(each)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, out)):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                self._note(leaf)
        self.peak = max(self.peak, self.now())
        return out

    def now(self):
        """Bytes on the device now."""
        total = 0
        for key, reference in [*self._references.items()]:
            storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is None:
                del self._references[key]
            elif not self.on_host(storage.data_ptr()):
                total += storage.nbytes()
        return total

    def _note(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self._references:
            self._references[storage._cdata] = StorageWeakRef(storage)
