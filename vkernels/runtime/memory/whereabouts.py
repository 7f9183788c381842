"""Where each storage of a program is, and moving it: on the device, on the host, on flash, or in memory of its own.

A storage moves by having its bytes copied and its pointer changed, so that every view of it moves with it. Pointers are
only changed by the program's own thread, between operations; threads carry nothing but bytes. What a place is needed
for never depends on the plan being right: whoever still lies there is moved out of the way first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from vkernels.ir.errors import FileError

from .links import Tier
from .tiers import Arena, Flash, Lane, Lanes, copy_bytes, storage_of

DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of the device (`DEVICE`) or of a tier."""

    memory: str
    offset: int
    size: int

    def meets(self, other: Place) -> bool:
        """Whether they share a byte."""
        apart = self.offset + self.size <= other.offset or other.offset + other.size <= self.offset
        return self.memory == other.memory and not apart


@dataclass(eq=False)
class Held:
    """A storage that is known here. `key`: its address in torch, which no other has while it is referred to.

    `place`: None is memory of its own. `copy`: where a copy is that is right, and when it is complete. `coming`: where
    it is being fetched to. What others share (NumPy, other processes) never `moves`.
    """

    key: int
    size: int
    reference: StorageWeakRef
    moves: bool
    place: Place | None = None
    copy: tuple[Place, Future[None]] | None = None
    coming: tuple[Place, Future[None]] | None = None

    @property
    def storage(self) -> torch.UntypedStorage | None:
        """None where it lives no more, or was resized, which gave it other memory."""
        found = storage_of(self.reference)
        return found if found is not None and found.nbytes() == self.size else None


class Shelf:
    """Who lies where in one memory: places that do not meet, in order. Who has left since may still stand here."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._there: dict[int, tuple[Place, Held]] = {}

    def put(self, place: Place, held: Held) -> None:
        """Note a storage, or its copy, at a place where nobody is."""
        if place.offset not in self._there:
            insort(self._offsets, place.offset)
        self._there[place.offset] = place, held

    def take(self, place: Place) -> list[tuple[Place, Held]]:
        """All that meet a place; they stand here no more."""
        begin = bisect_right(self._offsets, place.offset)
        begin -= bool(begin and place.meets(self._there[self._offsets[begin - 1]][0]))
        end = bisect_left(self._offsets, place.offset + place.size, begin)
        found = [self._there.pop(offset) for offset in self._offsets[begin:end]]
        del self._offsets[begin:end]
        return found


@dataclass
class Counts:
    """Bytes copied from the device and to it, and how often a storage got memory of its own, being in the way."""

    out_bytes: int = 0
    back_bytes: int = 0
    escapes: int = 0


class Whereabouts:
    """The memories, and what is in them. `failed`: the first transfer that went wrong; nothing is lost by that."""

    def __init__(self, device_bytes: int, host_bytes: int, flash_bytes: int, folder: Path):
        self.device, self.host = Arena(device_bytes), Arena(host_bytes)
        self.flash = Flash(folder, flash_bytes) if flash_bytes else None
        self._nowhere = Arena(flash_bytes)  # what is on flash points there; nobody touches it, so it takes no memory
        self.counts = Counts()
        self.failed: FileError | None = None
        self._lanes = Lanes()
        self._held: dict[int, Held] = {}
        self._shelves = {memory: Shelf() for memory in (DEVICE, *map(str, Tier))}
        self._busy: list[tuple[Place, Future[None]]] = []

    def meet(self, storage: torch.UntypedStorage) -> Held:
        """Begin to know a storage, where it is."""
        known = self._held.get(storage._cdata)
        if known is not None and known.size == storage.nbytes():
            return known
        moves = storage.resizable() and not storage.is_shared() and storage.device.type == "cpu"
        held = Held(storage._cdata, storage.nbytes(), StorageWeakRef(storage), moves and storage.nbytes() > 0)
        self._held[held.key] = held
        return held

    def bring(self, held: Held, offset: int) -> None:
        """Have it on the device, there and now."""
        storage, place = held.storage, Place(DEVICE, offset, held.size)
        if storage is None or not held.moves or held.place == place:
            return
        self.arrive(held)
        self.make_room(place)
        self.make_readable(held)  # which it may not have been, or not be after making room
        self._point(held, storage, place, filled=False)

    def copy_out(self, held: Held, tier: Tier, offset: int) -> None:
        """Begin to copy it to a tier, if no copy is there that is right."""
        storage, place = held.storage, Place(tier.value, offset, held.size)
        if storage is None or held.place is None or held.place.memory != DEVICE:
            return
        if held.copy is not None and held.copy[0] == place:
            return
        held.copy = None
        self.make_room(place)
        source = self.device.address + held.place.offset
        if tier is Tier.HOST:
            done = self._lanes.carry(
                Lane.TO_HOST, storage, copy_bytes, self.host.address + offset, source, held.size
            )  # fmt: skip
        else:
            done = self._lanes.carry(Lane.TO_FLASH, storage, self._flash.write, offset, source, held.size)
        held.copy = place, done
        self._shelves[tier].put(place, held)
        self._busy += [(place, done), (held.place, done)]
        self.counts.out_bytes += held.size

    def leave(self, held: Held) -> None:
        """Give its place on the device up; where its copy went wrong it gets memory of its own."""
        storage = held.storage
        if storage is None or held.place is None or held.place.memory != DEVICE:
            return
        if held.copy is None or not self._is_right(held.copy):
            held.copy = None
            self._own(held, storage)
            return
        self._point(held, storage, held.copy[0], filled=True)

    def fetch(self, held: Held, offset: int, wait: bool) -> bool:
        """Begin to bring it back; False where that has to wait for room, and `wait` is not said."""
        storage, place = held.storage, Place(DEVICE, offset, held.size)
        if storage is None or not held.moves or held.coming is not None or held.place == place:
            return True
        self._busy = [each for each in self._busy if not each[1].done()]
        if not wait and any(place.meets(other) for other, _ in self._busy):
            return False
        self.leave(held)
        self.make_room(place)
        to = self.device.address + offset
        if held.place is not None and held.place.memory == Tier.FLASH:
            done = self._lanes.carry(Lane.FROM_FLASH, storage, self._flash.read, held.place.offset, to, held.size)
        else:
            done = self._lanes.carry(Lane.FROM_HOST, storage, copy_bytes, to, storage.data_ptr(), held.size)
        held.coming = place, done
        self._shelves[DEVICE].put(place, held)
        self._busy.append(held.coming)
        if held.place is not None:
            self._busy.append((held.place, done))
        self.counts.back_bytes += held.size
        return True

    def arrive(self, held: Held) -> None:
        """Wait until it is back, if it is on its way."""
        if held.coming is None:
            return
        place, done = held.coming
        held.coming = None
        storage = held.storage
        try:
            done.result()
        except OSError as error:
            raise FileError(f"what was on flash cannot be read back: {error.strerror or error}") from error
        if storage is not None:
            self._point(held, storage, place, filled=True)

    def make_readable(self, held: Held) -> None:
        """Have its bytes where an operation can use them."""
        self.arrive(held)
        storage = held.storage
        if storage is not None and held.place is not None and held.place.memory == Tier.FLASH:
            self._own(held, storage)

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
        if storage is not None and held.place is not None:
            self._own(held, storage)

    def make_room(self, place: Place) -> None:
        """Move away whatever has any byte of a place."""
        for other, done in self._busy:
            if place.meets(other):
                _wait(done)
        self._busy = [each for each in self._busy if not each[1].done()]
        for other, held in self._shelves[place.memory].take(place):
            self._give_way(held, other)

    def _give_way(self, held: Held, place: Place) -> None:
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
            _wait(held.copy[1])
            held.copy = None

    def settle(self) -> None:
        """Finish every transfer, and have all bytes in memory: the program may do with its tensors what it likes."""
        for _, done in self._busy:
            _wait(done)
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

    def close(self) -> None:
        """Give all storages memory of their own, and the memories back."""
        self.settle()
        for held in self._held.values():
            self.release(held)
        self._held.clear()
        self._lanes.close()
        if self.flash is not None:
            self.flash.close()

    @property
    def _flash(self) -> Flash:
        if self.flash is None:
            raise ValueError("a plan for flash, where there is none")
        return self.flash

    def _own(self, held: Held, storage: torch.UntypedStorage) -> None:
        fresh = torch.UntypedStorage(held.size)
        if held.place is not None and held.place.memory == Tier.FLASH:
            try:
                self._flash.read(held.place.offset, fresh.data_ptr(), held.size)
            except OSError as error:
                raise FileError(f"what was on flash cannot be read back: {error.strerror or error}") from error
        else:
            copy_bytes(fresh.data_ptr(), storage.data_ptr(), held.size)
        swap(storage, fresh)
        held.place = None

    def _point(self, held: Held, storage: torch.UntypedStorage, place: Place, filled: bool) -> None:
        """Change its pointer to a place, which has its bytes already (`filled`) or gets them now."""
        if place.memory == Tier.FLASH:
            swap(storage, self._nowhere.view(0, place.size))
        else:
            view = (self.device if place.memory == DEVICE else self.host).view(place.offset, place.size)
            if not filled:
                copy_bytes(view.data_ptr(), storage.data_ptr(), held.size)
            swap(storage, view)
        held.place = place
        self._shelves[place.memory].put(place, held)

    def _is_right(self, copy: tuple[Place, Future[None]]) -> bool:
        """Wait for a copy; whether it was made."""
        error = _wait(copy[1])
        if error is not None and self.failed is None:
            said = getattr(error, "strerror", None) or error
            self.failed = FileError(f"{self._flash.folder}: flash cannot be written: {said}")
        return error is None


def swap(storage: torch.UntypedStorage, other: Any) -> None:
    """Exchange the memory of two storages."""
    storage._swap_data_ptr_(other)  # type: ignore[attr-defined]


def _wait(done: Future[None]) -> BaseException | None:
    return done.exception()
