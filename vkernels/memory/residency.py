"""Where each storage of a program is, and moving it: on the device, on the host, on flash, or in memory of its own.

A storage moves by copying its bytes and changing its pointer, so that all views of it move too. Only the program's own
thread changes pointers, between operations; other threads only copy bytes. Nothing depends on the plan being right:
what is in the way is moved away first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from vkernels.ir.errors import FileError

from .device import Lane, MemoryDevice, Transfer, TransferDone
from .host_heap import HostHeap
from .links import Tier
from .swap_storages import swap_storages
from .tiers import Flash, storage_of

DEVICE = "device"


class StorageResidency(NamedTuple):
    """A place: bytes of the device (`DEVICE`) or of a tier."""

    memory: str
    offset: int
    size: int

    def meets(self, other: StorageResidency) -> bool:
        """Whether they share a byte."""
        apart = self.offset + self.size <= other.offset or other.offset + other.size <= self.offset
        return self.memory == other.memory and not apart


class Moving(NamedTuple):
    """The destination of a transfer, and its end."""

    place: StorageResidency
    done: TransferDone


@dataclass(eq=False)
class Held:
    """A known storage. `key`: its address in torch, which is unique while it is referred to.

    `place`: None is memory of its own. `copy`: a valid copy, and when it is complete. `coming`: a fetch. A storage that
    is shared with NumPy or other processes never `moves`. `is_spare`: its own memory is not allocated as torch does.
    """

    key: int
    size: int
    reference: StorageWeakRef
    moves: bool
    place: StorageResidency | None = None
    copy: Moving | None = None
    coming: Moving | None = None
    is_spare: bool = False

    @property
    def storage(self) -> torch.UntypedStorage | None:
        """None if it has died, or was resized, which gave it other memory."""
        found = storage_of(self.reference)
        return found if found is not None and found.nbytes() == self.size else None

    def is_on(self, memory: str) -> bool:
        """Whether it is in a memory, and not in memory of its own."""
        return self.place is not None and self.place.memory == memory


class Busy(NamedTuple):
    """A place that a transfer accesses until it is done."""

    place: StorageResidency
    done: TransferDone
    lane: Lane


class Shelf:
    """The storages in one memory, by place, in order; places do not overlap. Storages may have left since."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._there: dict[int, tuple[StorageResidency, Held]] = {}

    def put(self, place: StorageResidency, held: Held) -> None:
        """Note a storage, or its copy, at a free place."""
        if place.offset not in self._there:
            insort(self._offsets, place.offset)
        self._there[place.offset] = place, held

    def take(self, place: StorageResidency) -> list[tuple[StorageResidency, Held]]:
        """Remove and return all that overlap a place."""
        begin = bisect_right(self._offsets, place.offset)
        begin -= bool(begin and place.meets(self._there[self._offsets[begin - 1]][0]))
        end = bisect_left(self._offsets, place.offset + place.size, begin)
        found = [self._there.pop(offset) for offset in self._offsets[begin:end]]
        del self._offsets[begin:end]
        return found


@dataclass
class TransferCounts:
    """Bytes copied from the device and to it; storages that were in the way and got memory of their own."""

    out_bytes: int = 0
    back_bytes: int = 0
    escapes: int = 0


class Residency:
    """The memories and their contents. `failed`: the error of the first failed copy to flash, which loses no data.

    `heap`: host memory for what the layout has no place for; default: none, and it gets memory of its own.
    """

    def __init__(
        self, on: MemoryDevice, device_bytes: int, host_bytes: int, flash_bytes: int, folder: Path,
        heap: HostHeap | None = None,
    ):  # fmt: skip
        self._on, self._folder, self._heap = on, folder, heap
        self.device, self.host = on.arena(device_bytes), on.host(host_bytes)
        self.flash = on.flash(folder, flash_bytes) if flash_bytes else None
        self._nowhere = on.nowhere(flash_bytes)
        self.counts = TransferCounts()
        self.failed: FileError | None = None
        self._held: dict[int, Held] = {}
        self._shelves = {memory: Shelf() for memory in (DEVICE, *map(str, Tier))}
        self._busy: list[Busy] = []

    def meet(self, storage: torch.UntypedStorage) -> Held:
        """Return the record of a storage; make one where it is, if it is new."""
        size, known = storage.nbytes(), self._held.get(storage._cdata)
        if known is None or known.size != size:
            is_spare = self._heap is not None and self._heap.holds(storage.data_ptr())
            moves = size > 0 and (is_spare or self._on.takes(storage))
            known = Held(storage._cdata, size, StorageWeakRef(storage), moves, is_spare=is_spare)
            self._held[known.key] = known
        return known

    def bring(self, held: Held, offset: int) -> None:
        """Move it to a place on the device now."""
        place, storage = StorageResidency(DEVICE, offset, held.size), held.storage
        if held.place == place or not held.moves or storage is None:
            return
        self.arrive(held)
        self.make_room(place)
        self.make_readable(held)  # making room may have moved it
        self._point(held, storage, place, filled=False)

    def put(self, held: Held, storage: torch.UntypedStorage, place: StorageResidency) -> None:
        """Move the result of an operation to a place that is free."""
        if held.moves:
            self._point(held, storage, place, filled=False)

    def copy_out(self, held: Held, tier: Tier, offset: int) -> None:
        """Begin to copy it to a tier, unless a valid copy is there."""
        storage, place = held.storage, StorageResidency(tier.value, offset, held.size)
        if storage is None or held.place is None or not held.is_on(DEVICE):
            return
        if held.copy is not None and held.copy.place == place:
            return
        held.copy = None
        self._clear(place)
        source = self.device.address + held.place.offset
        if tier is Tier.HOST:
            lane, work = Lane.TO_HOST, Transfer(source, self.host.address + offset, held.size)
        else:
            lane, work = Lane.TO_FLASH, Transfer(source, offset, held.size, self._flash)
        held.copy = self._carry(held, lane, storage, work, place, held.place, self._until_free(place))
        self.counts.out_bytes += held.size

    def leave(self, held: Held) -> None:
        """Free its place on the device. If its copy to flash failed, it gets memory of its own.

        A copy to the host cannot fail, and is not waited for here but before its source or destination is used.
        """
        storage = held.storage
        if storage is None or not held.is_on(DEVICE):
            return
        if held.copy is None or (held.copy.place.memory == Tier.FLASH and not self._is_valid(held.copy)):
            held.copy = None
            self._own(held, storage)
            return
        self._point(held, storage, held.copy.place, filled=True)

    def fetch(self, held: Held, offset: int, wait: bool) -> bool:
        """Begin to fetch it. Return False without `wait`, if the fetch has to wait for a write to flash."""
        storage, place = held.storage, StorageResidency(DEVICE, offset, held.size)
        if storage is None or not held.moves or held.coming is not None or held.place == place:
            return True
        self._forget_done()
        used = [place] if held.place is None else [place, held.place]
        if not wait and any(each.lane is Lane.TO_FLASH and any(map(each.place.meets, used)) for each in self._busy):
            return False
        self.leave(held)
        self._clear(place)
        source, to = held.place, self.device.address + offset
        if source is not None and source.memory == Tier.FLASH:
            lane, work = Lane.FROM_FLASH, Transfer(source.offset, to, held.size, self._flash)
        else:
            lane, work = Lane.FROM_HOST, Transfer(storage.data_ptr(), to, held.size)
        after = [*self._until_free(place), *(() if source is None else self._until_free(source))]
        held.coming = self._carry(held, lane, storage, work, place, source, after)
        self.counts.back_bytes += held.size
        return True

    def arrive(self, held: Held) -> None:
        """Wait until it is back, if it is being fetched."""
        if held.coming is None:
            return
        place, done = held.coming
        held.coming = None
        storage, error = held.storage, self._on.wait(done)
        if error is not None:
            raise _unreadable(error) if isinstance(error, OSError) else error
        if storage is not None:
            self._point(held, storage, place, filled=True)

    def make_readable(self, held: Held) -> None:
        """Move its bytes to where operations can access them."""
        self.arrive(held)
        if held.is_on(DEVICE):
            return
        storage = held.storage
        if storage is not None and held.is_on(Tier.FLASH):
            self._own(held, storage)
        elif held.place is not None and held.copy is not None:
            self._on.wait(held.copy.done)  # its place on the host

    def will_change(self, held: Held) -> None:
        """Prepare for an operation that writes it: copies become invalid, and running ones are waited for."""
        self.make_readable(held)
        if held.copy is not None:
            self._is_valid(held.copy)
            held.copy = None

    def release(self, held: Held) -> None:
        """Give it memory of its own that torch may resize."""
        self.will_change(held)
        storage = held.storage
        if storage is not None and (held.place is not None or held.is_spare):
            self._own(held, storage)

    def make_room(self, place: StorageResidency) -> None:
        """Free a place for the program's next work."""
        for done in self._until_free(place):
            self._on.wait(done)
        self._clear(place)

    def settle(self) -> None:
        """End all transfers, and make all storages readable: the program may use its tensors in any way."""
        for each in self._busy:
            self._on.wait(each.done)
        self._busy.clear()
        for held in [*self._held.values()]:
            if held.storage is None:
                self._held.pop(held.key, None)
                continue
            self.make_readable(held)
            if held.copy is not None:
                self._is_valid(held.copy)
                if held.copy.place != held.place:  # the program may write the tensor before the next iteration
                    held.copy = None
        self._on.settle()

    def living(self) -> Iterator[torch.UntypedStorage]:
        """Yield the known storages that live."""
        yield from filter(None, (held.storage for held in self._held.values()))

    def held(self, key: int) -> Held | None:
        """Return the record of a known storage by its address in torch."""
        return self._held.get(key)

    def disown(self, key: int, is_here: bool) -> None:
        """Note that a storage, known or not, got other memory: its own on the device, or of the heap."""
        held = self._held.get(key)
        if held is not None:
            held.place = held.copy = None
            held.is_spare = not is_here

    def holds(self, address: int) -> bool:
        """Whether an address is in the host's arena."""
        return self.host.holds(address)

    def close(self, to_heap: bool = False) -> None:
        """Give all storages memory of their own, or of the heap, and free the memories."""
        self.settle()
        for held in self._held.values():
            storage = held.storage
            if not to_heap:
                self.release(held)
            elif storage is not None and held.place is not None:
                self._own(held, storage, to_heap=True)
        self._held.clear()
        self._on.close()
        if self.flash is not None:
            self.flash.close()

    def _carry(
        self, held: Held, lane: Lane, storage: torch.UntypedStorage, work: Transfer, place: StorageResidency,
        source: StorageResidency | None, after: list[TransferDone],
    ) -> Moving:  # fmt: skip
        done = self._on.carry(lane, storage, work, after)
        self._shelves[place.memory].put(place, held)
        if not done.done():
            self._busy += [Busy(each, done, lane) for each in (place, source) if each is not None]
        return Moving(place, done)

    def _until_free(self, place: StorageResidency) -> list[TransferDone]:
        return [each.done for each in self._busy if place.meets(each.place)]

    def _forget_done(self) -> None:
        self._busy = [each for each in self._busy if not each.done.done()]

    def _clear(self, place: StorageResidency) -> None:
        """Remove everything from a place, except for running transfers."""
        self._forget_done()
        for other, held in self._shelves[place.memory].take(place):
            self._give_way(held, other)

    def _give_way(self, held: Held, place: StorageResidency) -> None:
        """Remove a storage and its copies from a place."""
        if held.coming is not None and held.coming.place == place:
            self.arrive(held)
            self._shelves[place.memory].take(place)
        storage = held.storage
        if storage is None:
            self._held.pop(held.key, None)
        elif held.place == place and place.memory == DEVICE and held.copy is not None:
            self.leave(held)
        elif held.place == place:
            self.counts.escapes += 1
            self._own(held, storage, to_heap=True)
        if held.copy is not None and held.copy.place == place:
            held.copy = None  # the next user of the place waits for it

    @property
    def _flash(self) -> Flash:
        assert self.flash is not None
        return self.flash

    def _own(self, held: Held, storage: torch.UntypedStorage, to_heap: bool = False) -> None:
        """Move it to memory of its own; `to_heap`: to the heap, where there is one with room."""
        from_flash = held.is_on(Tier.FLASH)
        block = self._heap.take(held.size) if self._heap is not None and (to_heap or from_flash) else None
        make = self._on.spare if from_flash else self._on.fresh
        fresh = make(held.size) if block is None else block.view()
        if held.place is not None and from_flash:
            try:
                self._on.read(self._flash, held.place.offset, fresh.data_ptr(), held.size)
            except OSError as error:
                raise _unreadable(error) from error
        else:
            self._copy(held, fresh.data_ptr(), storage)
        swap_storages(storage, fresh)
        held.place, held.is_spare = None, from_flash or block is not None

    def _point(self, held: Held, storage: torch.UntypedStorage, place: StorageResidency, filled: bool) -> None:
        """Change its pointer to a place, which has its bytes already (`filled`) or gets them now."""
        if place.memory == Tier.FLASH:
            view = self._nowhere.view(0, place.size)
        else:
            view = (self.device if place.memory == DEVICE else self.host).view(place.offset, place.size)
        if not filled:
            self._copy(held, view.data_ptr(), storage)
        swap_storages(storage, view)
        held.place, held.is_spare = place, False
        self._shelves[place.memory].put(place, held)

    def _copy(self, held: Held, to: int, storage: torch.UntypedStorage) -> None:
        if held.copy is not None and held.copy.place == held.place:
            self._on.wait(held.copy.done)
        self._on.copy(to, storage.data_ptr(), held.size)

    def _is_valid(self, copy: Moving) -> bool:
        """Wait for a copy; whether it succeeded."""
        error = self._on.wait(copy.done)
        if error is not None and self.failed is None:
            reason = getattr(error, "strerror", None) or error
            self.failed = FileError(f"{self._folder}: flash cannot be written: {reason}")
        return error is None


def _unreadable(error: OSError) -> FileError:
    return FileError(f"what was on flash cannot be read back: {error.strerror or error}")
