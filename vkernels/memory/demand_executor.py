"""Run operations within a limit without a plan: before each, evict what is needed last until its tensors fit.

Storages stay in memory of their own on the device, as torch allocates it, or are in a block of the host. A storage
moves by copying its bytes and changing its pointer, between operations and in program order, so that all its views
move too and nothing that is submitted accesses memory of others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from vkernels.ir.errors import OutOfMemoryError, TraceError

from .device import DeviceMemory, MemoryDevice
from .host_heap import Block, HostHeap
from .op_storages import OpCall, kind_of
from .result_sizes import ResultSizes
from .reuse import ReuseOrder, Use
from .swap_storages import swap_storages
from .tiers import storage_of

YOUNG = 64
"""Storages that are looked through for dead ones before all are."""
_has_died = torch.UntypedStorage._expired


@dataclass(eq=False, slots=True)
class Resident:
    """A known storage. `is_here`: on the device. `block`: its bytes on the host, also a valid copy of one that is here.

    `used`, `stamp`, `use`, `alike`: of `ReuseOrder`.
    """

    key: int
    size: int
    reference: StorageWeakRef
    is_here: bool
    block: Block | None = None
    used: int = 0
    stamp: int = 0
    use: Use = ()
    alike: Use = ()


@dataclass
class DemandCounts:
    """`over`: operations that ran above the limit; `why` the first did. `peak`: the most bytes on the device."""

    out_bytes: int = 0
    back_bytes: int = 0
    over: int = 0
    why: str = ""
    peak: int = 0

    def moves(self) -> tuple[int, int, int]:
        """What changes if an iteration does not fit as it is."""
        return self.out_bytes, self.back_bytes, self.over


class DemandExecutor(TorchDispatchMode):
    """Keeps the storages of a program's operations within `limit` bytes. `begin` is called before each iteration.

    An operation whose own tensors exceed the limit raises `OutOfMemoryError` if `strict`, before it runs; otherwise it
    runs, and is counted. `moved`: called with each storage that is moved, and whether it is on the device now. `arena`:
    memory of the device that a plan has given storages to. `sizes`: of operations' results, exact once they have run.
    """

    def __init__(self, device: MemoryDevice, limit: int, heap: HostHeap, strict: bool = False):
        super().__init__()
        self.device, self.limit, self.heap, self.strict = device, limit, heap, strict
        self.counts = DemandCounts()
        self.moved: Callable[[int, bool], None] | None = None
        self.arena: DeviceMemory | None = None
        self.sizes = ResultSizes()
        self._order = ReuseOrder()
        self._known: dict[int, Resident] = {}
        """By the storage's address in torch, the last used last; references keep addresses from being reused."""
        self._used = 0
        """Bytes on the device, those of storages that have died since the last search included."""
        self._unseen = 0
        """Of them, bytes of storages that no operation has used yet, so that they are not known."""

    def begin(self, storages: Iterable[torch.UntypedStorage] = (), live: int = 0) -> None:
        """Before an iteration: know the program's storages, and evict what exceeds the limit.

        `live`: bytes on the device, if the iteration has begun already. Those of unknown storages count until
        operations use as many.
        """
        self._order.begin()
        self.device.turn()
        for storage in storages:
            self._know(storage)
        if live:
            self._unseen = max(0, live - self.live())
            self._used += self._unseen
        self._make_room(0, {}, "the step")

    def adopt(self, storage: torch.UntypedStorage, is_here: bool) -> None:
        """Know a storage that is on the device, or in other memory of the host."""
        each = self._know(storage, is_here)
        self._used -= each.size if each.is_here else 0
        each.is_here, each.size, each.block = is_here, storage.nbytes(), None
        self._used += each.size if is_here else 0
        self._order.push(each)

    def end(self) -> None:
        """After an iteration: the program may write its tensors unnoticed, so that copies become invalid."""
        self._used -= self._unseen
        self._unseen = 0
        for each in self._known.values():
            each.block = None

    def live(self) -> int:
        """Return the bytes on the device."""
        self._sweep(len(self._known), 0)
        return self._used

    def evict_all(self, but: Container[int] = ()) -> None:
        """Move storages to the host that can be moved, without those at addresses `but` and those of the arena."""
        self.device.turn()
        self._sweep(len(self._known), 0)
        for each in [*self._known.values()]:
            storage = storage_of(each.reference) if each.is_here and each.key not in but else None
            if storage is not None and not (self.arena is not None and self.arena.holds(storage.data_ptr())):
                self._evict(each)

    def away(self) -> frozenset[int]:
        """Return the storages on the host, by their addresses in torch."""
        return frozenset(each.key for each in self._known.values() if not each.is_here)

    def send_away(self, keys: Container[int]) -> None:
        """Move storages at these addresses in torch to the host, those that are on the device."""
        self.device.turn()
        for each in [each for each in self._known.values() if each.is_here and each.key in keys]:
            self._evict(each)

    def bring_back(self, but: Container[int]) -> None:
        """Move storages back to the device, without those at addresses `but`, as far as there is room."""
        self.device.turn()
        for each in [*self._known.values()]:
            storage = None if each.is_here or each.key in but else storage_of(each.reference)
            if storage is not None and self.live() + each.size <= self.limit:
                self._fetch(each, storage)

    def close(self) -> None:
        """Give all storages memory of their own on the device, and forget them."""
        self.device.turn()
        for each in [*self._known.values()]:
            storage = storage_of(each.reference)
            if storage is not None and self.heap.holds(storage.data_ptr()):
                self._fetch(each, storage)
        self._known.clear()
        self._used = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kind_of(func).decomposes:
            with self:
                return func.decompose(*args, **(kwargs or {}))
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run one operation within the limit."""
        kind = kind_of(func)
        if kind.only_views:
            if kind.name == "lift_fresh":  # a constant, made outside of any operation
                self._meet(args[0])
            return func(*args, **kwargs)
        self.device.turn()
        try:
            call = OpCall(func, args, kwargs)
        except TraceError:  # sparse tensors: their parts are made and used by other operations
            return func(*args, **kwargs)
        given, predicted = self._prepare(func, call, args, kwargs)
        out = func(*args, **kwargs)
        call.end(out)
        if call.written:
            self._measure_again(call)
        made = [self._know(storage) for storage in call.made.values() if self._is_on_device(storage)]
        size = sum([each.size for each in made])
        if predicted is None or size != predicted:
            self.sizes.correct(func, call, args, kwargs, size)
            self._make_room(0, given | {each.key: each for each in made}, kind.name)
        self.counts.peak = max(self.counts.peak, self._used)
        used = [*given.values(), *made]
        self._order.note(kind.name, used, [each.size for each in used])
        return out

    def _prepare(self, func: Any, call: OpCall, args: Any, kwargs: Any) -> tuple[dict[int, Resident], int | None]:
        """Bring an operation's tensors to the device, and make room for its results; return the predicted size."""
        given: dict[int, Resident] = {}
        missing = []
        for key, storage in call.given.items():
            if self._is_on_device(storage):
                if self._unseen and key not in self._known:
                    seen = min(self._unseen, storage.nbytes())
                    self._unseen, self._used = self._unseen - seen, self._used - seen
                each = given[key] = self._know(storage)
                if not each.is_here:
                    missing.append((each, storage))
        predicted = self.sizes.predict(func, call, args, kwargs)
        if predicted is None:
            self._make_room(self.limit, given, "")  # whatever can leave
        need = sum([each.size for each, _ in missing]) + (predicted or 0)
        if need + self._used > self.limit:
            self._make_room(need, given, call.kind.name)
        for each, storage in missing:
            self._fetch(each, storage)
        for key in call.written:
            if key in given:
                given[key].block = None
        return given, predicted

    def _meet(self, constant: torch.Tensor) -> None:
        if constant.layout == torch.strided and self._is_on_device(storage := constant.untyped_storage()):
            self.device.turn()
            self._make_room(0, {storage._cdata: self._know(storage)}, "lift_fresh")

    def _know(self, storage: torch.UntypedStorage, is_here: bool = True) -> Resident:
        key = storage._cdata
        each = self._known.pop(key, None)
        if each is None:
            each = Resident(key, storage.nbytes(), StorageWeakRef(storage), is_here)
            each.used = self._order.now
            self._used += each.size if is_here else 0
            self._order.push(each)
        self._known[key] = each
        return each

    def _is_on_device(self, storage: torch.UntypedStorage) -> bool:
        return storage.device.type == self.device.kind

    def _measure_again(self, call: OpCall) -> None:
        """Note the sizes of storages that an operation may have resized, which are on the device."""
        for key in call.written:
            each = self._known.get(key)
            if each is not None and each.size != (size := call.given[key].nbytes()):
                self._used += size - each.size
                each.size = size

    def _make_room(self, size: int, keep: dict[int, Resident], name: str) -> None:
        """Free `size` bytes of the device for an operation, without moving `keep`. No name: as far as possible."""
        if self._used + size <= self.limit or self._sweep(YOUNG, size) or self._sweep(len(self._known), size):
            return
        kept = []
        while self._used + size > self.limit:
            each = self._order.pop()
            if each is None:
                break
            if each.key in keep:
                kept.append(each)
            elif each.is_here:
                self._evict(each)
        for each in kept:
            self._order.push(each)
        if name and self._used + size > self.limit:
            self._exceed(name, sum(each.size for each in keep.values() if each.is_here) + size)

    def _sweep(self, count: int, size: int) -> bool:
        """Forget the dead of the last used storages; return whether there is room for `size` then."""
        for each in [each for each in islice(reversed(self._known.values()), count) if _has_died(each.reference.cdata)]:
            del self._known[each.key]
            each.stamp, each.block = 0, None
            self._used -= each.size if each.is_here else 0
        return self._used + size <= self.limit

    def _evict(self, each: Resident) -> bool:
        """Move a storage to the host, if it can be moved and there is room."""
        storage = storage_of(each.reference)
        if storage is None or each.size == 0 or not self._takes(storage):
            return False
        if each.block is None:
            each.block = self._block(each.size)
            if each.block is None:
                return False
            self.device.copy(each.block.address, storage.data_ptr(), each.size)
            self.counts.out_bytes += each.size
        swap_storages(storage, each.block.view())
        each.is_here = False
        self._used -= each.size
        if self.moved is not None:
            self.moved(each.key, False)
        return True

    def _takes(self, storage: torch.UntypedStorage) -> bool:
        if self.arena is not None and self.arena.holds(storage.data_ptr()):
            return True
        return self.device.takes(storage)

    def _block(self, size: int) -> Block | None:
        block = self.heap.take(size)
        if block is None:
            for each in self._known.values():
                if each.is_here:
                    each.block = None
            block = self.heap.take(size)
        return block

    def _fetch(self, each: Resident, storage: torch.UntypedStorage) -> None:
        fresh = self.device.fresh(each.size)
        self.device.copy(fresh.data_ptr(), storage.data_ptr(), each.size)
        swap_storages(storage, fresh)
        each.is_here = True
        self._used += each.size
        self.counts.back_bytes += each.size
        if self.moved is not None:
            self.moved(each.key, True)

    def _exceed(self, name: str, size: int) -> None:
        self.counts.over += 1
        movable = "" if size > self.limit else "; the rest cannot be moved, or the host has no room for it"
        message = (
            f"{name} has to have {size} bytes on {self.device.name} at once, with {self._used} bytes in use there, "
            f"and the limit is {self.limit}{movable}"
        )
        if self.strict:
            raise OutOfMemoryError(message)
        self.counts.why = self.counts.why or message
