"""Where each storage of a program is, and moving it: on the device, on the host, on flash, or in memory of its own.

A storage moves by having its bytes copied and its pointer changed, so that every view of it moves with it. Pointers are
only changed by the program's own thread, between operations; threads carry nothing but bytes. What a place is needed
for never depends on the plan being right: whoever still lies there is moved out of the way first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from vkernels.ir.errors import FileError

from .device import Lane, MemoryDevice, Transfer, TransferDone
from .links import Tier
from .tiers import Flash, storage_of

DEVICE = "device"


class StorageResidency(NamedTuple):
    """Bytes of the device (`DEVICE`) or of a tier."""

    memory: str
    offset: int
    size: int

    def meets(self, other: StorageResidency) -> bool:
        """Whether they share a byte."""
        apart = self.offset + self.size <= other.offset or other.offset + other.size <= self.offset
        return self.memory == other.memory and not apart


@dataclass(eq=False)
class Held:
    """A storage that is known here. `key`: its address in torch, which no other has while it is referred to.

    `place`: None is memory of its own. `copy`: where a copy is that is right, and when it is complete. `coming`: where
    it is being fetched to. What others share (NumPy, other processes) never `moves`.
    `is_spare`: the memory of its own is not as the program's tensors have it.
    """

    key: int
    size: int
    reference: StorageWeakRef
    moves: bool
    place: StorageResidency | None = None
    copy: tuple[StorageResidency, TransferDone] | None = None
    coming: tuple[StorageResidency, TransferDone] | None = None
    is_spare: bool = False

    @property
    def storage(self) -> torch.UntypedStorage | None:
        """None where it lives no more, or was resized, which gave it other memory."""
        found = storage_of(self.reference)
        return found if found is not None and found.nbytes() == self.size else None


class Busy(NamedTuple):
    """A place that a transfer reads or writes, until it is done."""

    place: StorageResidency
    done: TransferDone
    lane: Lane


class Shelf:
    """Who lies where in one memory: places that do not meet, in order. Who has left since may still stand here."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._there: dict[int, tuple[StorageResidency, Held]] = {}

    def put(self, place: StorageResidency, held: Held) -> None:
        """Note a storage, or its copy, at a place where nobody is."""
        if place.offset not in self._there:
            insort(self._offsets, place.offset)
        self._there[place.offset] = place, held

    def take(self, place: StorageResidency) -> list[tuple[StorageResidency, Held]]:
        """All that meet a place; they stand here no more."""
        begin = bisect_right(self._offsets, place.offset)
        begin -= bool(begin and place.meets(self._there[self._offsets[begin - 1]][0]))
        end = bisect_left(self._offsets, place.offset + place.size, begin)
        found = [self._there.pop(offset) for offset in self._offsets[begin:end]]
        del self._offsets[begin:end]
        return found


@dataclass
class TransferCounts:
    """Bytes copied from the device and to it, and how often a storage got memory of its own, being in the way."""

    out_bytes: int = 0
    back_bytes: int = 0
    escapes: int = 0


class Whereabouts:
    """The memories, and what is in them. `failed`: the first transfer that went wrong; nothing is lost by that."""

    def __init__(self, on: MemoryDevice, device_bytes: int, host_bytes: int, flash_bytes: int, folder: Path):
        self._on = on
        self.device, self.host = on.arena(device_bytes), on.host(host_bytes)
        self.flash = on.flash(folder, flash_bytes) if flash_bytes else None
        self._nowhere = on.nowhere(flash_bytes)
        self.counts = TransferCounts()
        self.failed: FileError | None = None
        self._held: dict[int, Held] = {}
        self._shelves = {memory: Shelf() for memory in (DEVICE, *map(str, Tier))}
        self._busy: list[Busy] = []

    def meet(self, storage: torch.UntypedStorage) -> Held:
        """Begin to know a storage, where it is."""
        known = self._held.get(storage._cdata)
        if known is not None and known.size == storage.nbytes():
            return known
        size = storage.nbytes()
        held = Held(storage._cdata, size, StorageWeakRef(storage), size > 0 and self._on.takes(storage))
        self._held[held.key] = held
        return held

    def bring(self, held: Held, offset: int) -> None:
        """Have it on the device, there and now."""
        place = StorageResidency(DEVICE, offset, held.size)
        if held.place == place or not held.moves:
            return
        storage = held.storage
        if storage is None:
            return
        self.arrive(held)
        self.make_room(place)
        self.make_readable(held)  # which it may not have been, or not be after making room
        self._point(held, storage, place, filled=False)

    def put(self, held: Held, storage: torch.UntypedStorage, place: StorageResidency) -> None:
        """Have what an operation just made at a place, for which room was made."""
        if held.moves:
            self._point(held, storage, place, filled=False)

    def copy_out(self, held: Held, tier: Tier, offset: int) -> None:
        """Begin to copy it to a tier, if no copy is there that is right."""
        storage, place = held.storage, StorageResidency(tier.value, offset, held.size)
        if storage is None or held.place is None or held.place.memory != DEVICE:
            return
        if held.copy is not None and held.copy[0] == place:
            return
        held.copy = None
        self._clear(place)
        source, after = self.device.address + held.place.offset, self._until_free(place)
        if tier is Tier.HOST:
            lane, work = Lane.TO_HOST, Transfer(source, self.host.address + offset, held.size)
        else:
            lane, work = Lane.TO_FLASH, Transfer(source, offset, held.size, self._flash)
        done = self._on.carry(lane, storage, work, after)
        held.copy = place, done
        self._shelves[tier].put(place, held)
        self._note_busy(lane, done, place, held.place)
        self.counts.out_bytes += held.size

    def leave(self, held: Held) -> None:
        """Give its place on the device up; where its copy went wrong it gets memory of its own.

        A copy to the host cannot go wrong, and is not waited for: who comes to the place, or reads the copy, does.
        """
        storage = held.storage
        if storage is None or held.place is None or held.place.memory != DEVICE:
            return
        if held.copy is None or (held.copy[0].memory == Tier.FLASH and not self._is_right(held.copy)):
            held.copy = None
            self._own(held, storage)
            return
        self._point(held, storage, held.copy[0], filled=True)

    def fetch(self, held: Held, offset: int, wait: bool) -> bool:
        """Begin to bring it back; False where that has to wait for what is written to flash, and `wait` is not said."""
        storage, place = held.storage, StorageResidency(DEVICE, offset, held.size)
        if storage is None or not held.moves or held.coming is not None or held.place == place:
            return True
        self._forget_done()
        if not wait and self._waits_for_flash(held, place):
            return False
        self.leave(held)
        self._clear(place)
        to, source = self.device.address + offset, held.place
        after = [*self._until_free(place), *(() if source is None else self._until_free(source))]
        if source is None:
            lane, work = Lane.FROM_HOST, Transfer(storage.data_ptr(), to, held.size)
        elif source.memory == Tier.FLASH:
            lane, work = Lane.FROM_FLASH, Transfer(source.offset, to, held.size, self._flash)
        else:
            lane, work = Lane.FROM_HOST, Transfer(self.host.address + source.offset, to, held.size)
        done = self._on.carry(lane, storage, work, after)
        held.coming = place, done
        self._shelves[DEVICE].put(place, held)
        self._note_busy(lane, done, place, *(() if source is None else (source,)))
        self.counts.back_bytes += held.size
        return True

    def _waits_for_flash(self, held: Held, place: StorageResidency) -> bool:
        """Whether it, or what lies at a place, has not been written to flash yet, as far as that is asked for."""
        places = [place] if held.place is None else [place, held.place]
        return any(each.lane is Lane.TO_FLASH and any(map(each.place.meets, places)) for each in self._busy)

    def arrive(self, held: Held) -> None:
        """Wait until it is back, if it is on its way."""
        if held.coming is None:
            return
        place, done = held.coming
        held.coming = None
        storage, error = held.storage, self._on.wait(done)
        if isinstance(error, OSError):
            raise FileError(f"what was on flash cannot be read back: {error.strerror or error}") from error
        if error is not None:
            raise error
        if storage is not None:
            self._point(held, storage, place, filled=True)

    def make_readable(self, held: Held) -> None:
        """Have its bytes where an operation can use them."""
        if held.coming is not None:
            self.arrive(held)
        if held.place is None or held.place.memory == DEVICE:
            return
        storage = held.storage
        if storage is not None and held.place.memory == Tier.FLASH:
            self._own(held, storage)
        elif held.copy is not None:
            self._on.wait(held.copy[1])  # what is at its place on the host

    def will_change(self, held: Held) -> None:
        """An operation is about to write it: copies are no longer right, and those under way are waited for."""
        self.make_readable(held)
        if held.copy is not None:
            self._is_right(held.copy)
            held.copy = None

    def release(self, held: Held) -> None:
        """Give it memory of its own, that torch may resize."""
        self.will_change(held)
        storage = held.storage
        if storage is not None and (held.place is not None or held.is_spare):
            self._own(held, storage)

    def make_room(self, place: StorageResidency) -> None:
        """Move away whatever has any byte of a place; what the program asks next may use it."""
        for done in self._until_free(place):
            self._on.wait(done)
        self._clear(place)

    def _note_busy(self, lane: Lane, done: TransferDone, *places: StorageResidency) -> None:
        """A transfer uses these places; small ones are done already."""
        if not done.done():
            self._busy += [Busy(each, done, lane) for each in places]

    def _until_free(self, place: StorageResidency) -> list[TransferDone]:
        """The transfers that use a place still."""
        return [each.done for each in self._busy if place.meets(each.place)]

    def _forget_done(self) -> None:
        if self._busy:
            self._busy = [each for each in self._busy if not each.done.done()]

    def _clear(self, place: StorageResidency) -> None:
        """Have nothing at a place any more but what transfers are reading or writing there."""
        self._forget_done()
        for other, held in self._shelves[place.memory].take(place):
            self._give_way(held, other)

    def _give_way(self, held: Held, place: StorageResidency) -> None:
        """Have nothing of a storage at a place any more."""
        if held.coming is not None and held.coming[0] == place:
            self.arrive(held)
            self._shelves[place.memory].take(place)
        storage = held.storage
        if storage is None:
            self._held.pop(held.key, None)
        elif held.place == place and place.memory == DEVICE and held.copy is not None:
            self.leave(held)
        elif held.place == place:
            self.counts.escapes += 1
            self._own(held, storage)
        if held.copy is not None and held.copy[0] == place:
            held.copy = None  # who comes there waits for it to be complete

    def settle(self) -> None:
        """Finish every transfer, and have all bytes in memory: the program may do with its tensors what it likes."""
        for each in self._busy:
            self._on.wait(each.done)
        self._busy.clear()
        for held in [*self._held.values()]:
            if held.storage is None:
                self._held.pop(held.key, None)
                continue
            self.make_readable(held)
            if held.copy is not None:
                self._is_right(held.copy)
            if held.copy is not None and held.copy[0] != held.place:
                held.copy = None  # the program may write the tensor before the next iteration
        self._on.settle()

    def close(self) -> None:
        """Give all storages memory of their own, and the memories back."""
        self.settle()
        for held in self._held.values():
            self.release(held)
        self._held.clear()
        self._on.close()
        if self.flash is not None:
            self.flash.close()

    @property
    def _flash(self) -> Flash:
        if self.flash is None:
            raise ValueError("a plan for flash, where there is none")
        return self.flash

    def _own(self, held: Held, storage: torch.UntypedStorage) -> None:
        from_flash = held.place is not None and held.place.memory == Tier.FLASH
        fresh = (self._on.spare if from_flash else self._on.fresh)(held.size)
        if held.place is not None and from_flash:
            try:
                self._on.read(self._flash, held.place.offset, fresh.data_ptr(), held.size)
            except OSError as error:
                raise FileError(f"what was on flash cannot be read back: {error.strerror or error}") from error
        else:
            self._copy(held, fresh.data_ptr(), storage)
        swap(storage, fresh)
        held.place, held.is_spare = None, from_flash

    def _point(self, held: Held, storage: torch.UntypedStorage, place: StorageResidency, filled: bool) -> None:
        """Change its pointer to a place, which has its bytes already (`filled`) or gets them now."""
        if place.memory == Tier.FLASH:
            swap(storage, self._nowhere.view(0, place.size))
        else:
            view = (self.device if place.memory == DEVICE else self.host).view(place.offset, place.size)
            if not filled:
                self._copy(held, view.data_ptr(), storage)
            swap(storage, view)
        held.place, held.is_spare = place, False
        self._shelves[place.memory].put(place, held)

    def _copy(self, held: Held, to: int, storage: torch.UntypedStorage) -> None:
        if held.copy is not None and held.copy[0] == held.place:
            self._on.wait(held.copy[1])
        self._on.copy(to, storage.data_ptr(), held.size)

    def _is_right(self, copy: tuple[StorageResidency, TransferDone]) -> bool:
        """Wait for a copy; whether it was made."""
        error = self._on.wait(copy[1])
        if error is not None and self.failed is None:
            said = getattr(error, "strerror", None) or error
            self.failed = FileError(f"{self._flash.folder}: flash cannot be written: {said}")
        return error is None


def swap(storage: torch.UntypedStorage, other: Any) -> None:
    """Exchange the memory of two storages."""
    storage._swap_data_ptr_(other)  # type: ignore[attr-defined]
