"""Host memory for evicted storages, in blocks that are free again when nothing uses them any more."""

from __future__ import annotations

from collections import defaultdict, deque

import torch

from .device import DeviceMemory, MemoryDevice
from .replay import Chunks, rounded

SLAB = 1 << 26
"""The least bytes that are allocated at once, unless the capacity is smaller."""


class Block:
    """Bytes of the heap. They are given back when the block and all storages in it are gone."""

    def __init__(self, slab: Slab, offset: int, size: int, room: int):
        self._slab, self._offset, self.size, self._room = slab, offset, size, room

    @property
    def address(self) -> int:
        return self._slab.memory.address + self._offset

    def view(self) -> torch.UntypedStorage:
        """Return a storage of the device's type in it, which keeps it alive."""
        return self._slab.memory.view(self._offset, self.size, self)

    def __del__(self) -> None:
        self._slab.dropped.append((self._offset, self._room))  # in any thread


class Slab:
    """A piece of host memory, cut into blocks. Free ones wait for one of the same size, until others need them."""

    def __init__(self, memory: DeviceMemory):
        self.memory = memory
        self.chunks = Chunks()
        self.chunks.add(0, memory.size)
        self.dropped: deque[tuple[int, int]] = deque()
        """Offsets and bytes."""
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)
        """Offsets by bytes."""

    def take_again(self, size: int, room: int) -> Block | None:
        """Return a block of `room` bytes that was free, for `size` bytes."""
        while self.dropped:
            offset, bytes = self.dropped.popleft()
            self._waiting[bytes].append(offset)
        waiting = self._waiting.get(room)
        return Block(self, waiting.pop(), size, room) if waiting else None

    def take(self, size: int, room: int, unit: int) -> Block | None:
        """Return a new block."""
        offset = self.chunks.take(room, unit)
        if offset is None and self._waiting:
            for each in [each for offsets in self._waiting.values() for each in offsets]:
                self.chunks.give(each)
            self._waiting.clear()
            offset = self.chunks.take(room, unit)
        return None if offset is None else Block(self, offset, size, room)


class HostHeap:
    """Blocks of at most `capacity` bytes together."""

    def __init__(self, device: MemoryDevice, capacity: float):
        self._device, self._capacity = device, capacity
        self._slabs: list[Slab] = []

    @property
    def bytes(self) -> int:
        """Bytes allocated."""
        return sum(each.memory.size for each in self._slabs)

    def holds(self, address: int) -> bool:
        """Whether an address is in the heap."""
        return any(each.memory.holds(address) for each in self._slabs)

    def take(self, size: int) -> Block | None:
        """Return a block; None if there is no room within the capacity. Raises `OutOfMemoryError`."""
        unit = self._device.alignment
        room = rounded(size, unit)
        for each in self._slabs:
            block = each.take_again(size, room)
            if block is not None:
                return block
        for each in self._slabs:
            block = each.take(size, room, unit)
            if block is not None:
                return block
        left = self._capacity - self.bytes
        if room > left:
            return None
        self._slabs.append(Slab(self._device.host(int(min(left, max(room, SLAB))) // unit * unit)))
        return self._slabs[-1].take(size, room, unit)
