"""Keep tensors that autograd saves on the host until backward needs them, by its own hooks instead of every operation.

A storage is copied when it is saved, once for all tensors that share it, and is free on the device as soon as the
program drops it. Backward gets a copy on the device with the same strides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch._C import _len_torch_dispatch_stack
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from .device import MemoryDevice
from .host_heap import Block, HostHeap
from .op_tracer import OpTracer
from .saved_uses import SavedUse, tree_of
from .tiers import storage_of


def _leaves(tensor: torch.Tensor, live: int) -> bool:
    return True


@dataclass(eq=False, slots=True)
class SavedStorage:
    """A storage on the host. `reference`: to the one that was saved, whose address is not used again meanwhile.
    `state`: it is written in others. `number`: in order of saving. `back`: to its last copy on the device."""

    reference: StorageWeakRef
    state: int
    size: int
    block: Block
    number: int
    back: StorageWeakRef | None = None


class SavedView(NamedTuple):
    """A tensor of such a storage."""

    of: SavedStorage
    dtype: torch.dtype
    shape: torch.Size
    strides: tuple[int, ...]
    offset: int
    device: torch.device


class SavedTensors:
    """Runs calls with some of their saved tensors on the host, as `calls` of each call of a period say: what it may
    save, which is one sequence, or one for each kind of call.

    `changed`: how the last call's saved tensors differed from these; from there on all leave that can, or none if the
    call is watched instead.
    """

    def __init__(self, device: MemoryDevice, heap: HostHeap, calls: Sequence[Sequence[Sequence[SavedUse]]]):
        self.out_bytes = self.back_bytes = 0
        self.changed = ""
        self._trees = [tree_of(each) for each in calls]
        self._device, self._heap = device, heap
        self._count = 0
        self._storages: dict[int, SavedStorage] = {}

    @contextmanager
    def running(self, part: int, leaves: Callable[[torch.Tensor, int], bool] = _leaves) -> Iterator[None]:
        """Run a call of the period; `part` counts on from period to period. `leaves`: asked where a tensor differs,
        with the bytes live there, whether it and all later ones leave."""
        tree, at, live = self._trees[part % len(self._trees)], 0, 0
        self._count, self.changed = 0, ""

        def pack(tensor: torch.Tensor) -> Any:
            nonlocal tree, at, live
            at += 1
            if tree and not self.changed:
                is_odd = -1 in tree
                storage = self.storage_of(tensor) if is_odd and len(tree) > 1 else None
                if not is_odd:
                    storage = tensor.untyped_storage()
                found = tree.get(-1 if storage is None else storage.nbytes())
                if found is not None:
                    (size, is_away, state, live), tree = found
                    if storage is None or not is_away:
                        return _staying(tensor)
                    if state < 0 and tensor.nbytes == size and tensor.is_contiguous():
                        return self._saved_whole(tensor, size) or _staying(tensor)
                    return self._saved(tensor, storage, state)
                live = max(use.live for use, _ in tree.values())
            self.changed = self.changed or f"saved tensor {at - 1} has another size"
            return self._saved_any(tensor) if leaves(tensor, live) else _staying(tensor)

        with self._hooked(pack, self._unpack):
            yield

    @contextmanager
    def _hooked(self, pack: Callable[[torch.Tensor], Any], unpack: Callable[[Any], torch.Tensor]) -> Iterator[None]:
        def packed(tensor: torch.Tensor) -> Any:
            with without_modes():  # of functions: in backward they see what hooks call
                return pack(tensor)

        def unpacked(saved: Any) -> torch.Tensor:
            with without_modes():
                return unpack(saved)

        without_modes = torch._C.DisableTorchFunction
        try:
            with torch.autograd.graph.saved_tensors_hooks(packed, unpacked):
                yield
        finally:
            self._storages = {}

    def _saved_whole(self, tensor: torch.Tensor, size: int) -> tuple[Any, ...] | None:
        """Copy a tensor that is all of a storage."""
        block = self._taken(size)
        if block is None:
            return None
        self._device.copy(block.address, tensor.data_ptr(), size)
        return block, size, tensor.dtype, tensor.shape, tensor.stride(), tensor.device

    def _saved_any(self, tensor: torch.Tensor) -> Any:
        storage = self.storage_of(tensor)
        return _staying(tensor) if storage is None or not storage.nbytes() else self._saved(tensor, storage, -1)

    def _saved(self, tensor: torch.Tensor, storage: torch.UntypedStorage, state: int) -> Any:
        """Copy a storage, unless that was done for another tensor in the same state."""
        key, size = storage._cdata, storage.nbytes()
        saved = self._storages.get(key)
        if saved is None or state < 0 or saved.state != state:
            block = self._taken(size)
            if block is None:
                return _staying(tensor)
            self._device.copy(block.address, storage.data_ptr(), size)
            saved = SavedStorage(StorageWeakRef(storage), state, size, block, self._count)
            self._storages[key], self._count = saved, self._count + 1
        return SavedView(
            saved, tensor.dtype, tensor.shape, tensor.stride(), int(tensor.storage_offset()), tensor.device
        )

    def _taken(self, size: int) -> Block | None:
        """Take memory of the host to copy to."""
        block = self._heap.take(size)
        if block is None:
            self.changed = self.changed or "the host has no room for saved tensors"
            return None
        self._device.turn()
        self.out_bytes += size
        return block

    def _unpack(self, saved: Any) -> torch.Tensor:
        if isinstance(saved, torch.Tensor):
            return saved
        if isinstance(saved, SavedView):
            return self._view(saved)
        block, size, dtype, shape, strides, device = saved
        fresh = torch.empty_strided(shape, strides, dtype=dtype, device=device)
        self._device.turn()
        self._device.copy(fresh.data_ptr(), block.address, size)
        self.back_bytes += size
        return fresh

    def _view(self, saved: SavedView) -> torch.Tensor:
        of = saved.of
        storage = None if of.back is None else storage_of(of.back)
        if storage is None:
            storage = torch.empty(of.size, dtype=torch.uint8, device=saved.device).untyped_storage()
            of.back = StorageWeakRef(storage)
            self._device.turn()
            self._device.copy(storage.data_ptr(), of.block.address, of.size)
            self.back_bytes += of.size
        with _disable_current_modes() if _len_torch_dispatch_stack() else nullcontext():  # a view needs no memory
            view = torch.empty(0, dtype=saved.dtype, device=saved.device)
            return view.set_(storage, saved.offset, saved.shape, saved.strides)

    def storage_of(self, tensor: torch.Tensor) -> torch.UntypedStorage | None:
        """The storage of an ordinary tensor on the device."""
        is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
        is_plain = is_plain and tensor.device.type == self._device.kind and not tensor.is_inference()
        return tensor.untyped_storage() if is_plain else None


def _staying(tensor: torch.Tensor) -> torch.Tensor:
    """What is kept for a tensor that stays: without its node, which would keep itself alive by a tensor that it has
    made, and all before it, until backward runs."""
    return tensor if tensor.grad_fn is None else tensor.detach()


@dataclass
class RecordedUse:
    """A saved tensor of a watched call. `storage`: its number in the call, -1 where it cannot leave. `start`, `end`:
    operations before which it was saved and last used again."""

    size: int
    storage: int
    start: int
    end: int


class SavedRecorder(SavedTensors):
    """Runs watched calls with all saved tensors on the host that the call has made, and records them.

    `tracer`: of the same calls.
    """

    def __init__(self, device: MemoryDevice, heap: HostHeap, tracer: OpTracer):
        super().__init__(device, heap, [])
        self._tracer = tracer
        self.calls: list[list[RecordedUse]] = []

    @contextmanager
    def running(self, part: int, leaves: Callable[[torch.Tensor, int], bool] = _leaves) -> Iterator[None]:
        uses: list[RecordedUse] = []
        self.calls.append(uses)
        self._count, self.changed = 0, ""

        def pack(tensor: torch.Tensor) -> Any:
            storage, now = self.storage_of(tensor), self._tracer.now
            size = -1 if storage is None else storage.nbytes()
            leaves = storage is not None and size > 0 and self._tracer.is_made(storage._cdata)
            if storage is not None and leaves:
                packed = self._saved(tensor, storage, self._tracer.writes(storage._cdata))
            else:
                packed = _staying(tensor)
            number = packed.of.number if isinstance(packed, SavedView) else -1
            uses.append(RecordedUse(size, number, now, now))
            return packed, uses[-1]

        def unpack(packed: Any) -> torch.Tensor:
            saved, use = packed
            use.end = max(use.end, self._tracer.now)
            return self._unpack(saved)

        with self._hooked(pack, unpack):
            yield

    def chosen(self, period: int, begins: Sequence[int], live: Sequence[int], limit: int) -> list[list[SavedUse]]:
        """Return for each saved tensor of the last `period` calls whether it has to leave the device.

        Small storages stay first: for their bytes they cost the most to move. `begins`: the first operation of each
        call; `live`: bytes on the device at each operation with all on the host.
        """
        calls, most = self.calls[-period:], [*live]
        spans: dict[tuple[int, int], list[int]] = {}
        for call, (uses, begin) in enumerate(zip(calls, begins, strict=True)):
            for each in uses:
                if each.storage >= 0:
                    span = spans.setdefault((call, each.storage), [each.size, begin + each.start, begin + each.end])
                    span[2] = max(span[2], begin + each.end)
        staying = set()
        for key, (size, start, end) in sorted(spans.items(), key=lambda item: item[1][0]):
            moments = range(max(0, start - 1), min(len(most), end + 2))
            if all(most[at] + size <= limit for at in moments):
                staying.add(key)
                for at in moments:
                    most[at] += size
        return self._uses(calls, staying, begins, most)

    def all(self, period: int, begins: Sequence[int], live: Sequence[int]) -> list[list[SavedUse]]:
        """Return the saved tensors of the last `period` calls, as they were."""
        return self._uses(self.calls[-period:], set(), begins, live)

    @staticmethod
    def _uses(
        calls: list[list[RecordedUse]], staying: set[tuple[int, int]], begins: Sequence[int], live: Sequence[int]
    ) -> list[list[SavedUse]]:  # fmt: skip
        found = []
        for call, (uses, begin) in enumerate(zip(calls, begins, strict=True)):
            shared = Counter(each.storage for each in uses)
            found.append([
                SavedUse(
                    each.size, each.storage >= 0 and (call, each.storage) not in staying,
                    each.storage if shared[each.storage] > 1 else -1, live[min(begin + each.start, len(live) - 1)],
                ) for each in uses
            ])  # fmt: skip
        return found
