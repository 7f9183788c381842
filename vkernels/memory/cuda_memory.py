"""Memories of a GPU: an arena on it, pinned ones on the host, and spare pieces there."""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from typing import Any

import torch

from .cpu_device import Arena


class DeviceArena:
    """Memory of the GPU, in one piece. `cuda`: a `cuda_api.Cuda`. Raises `OutOfMemoryError`."""

    def __init__(self, cuda: Any, size: int):
        self.size, self._cuda = size, cuda
        self.bytes: torch.Tensor = cuda.allocate(max(1, size))
        self.address = self.bytes.data_ptr()
        cuda.at(self.address, 1, None)  # so that what cannot be is said now

    def view(self, offset: int, size: int) -> torch.UntypedStorage:
        """Return a GPU storage in this arena, which it keeps alive."""
        return storage_at(self._cuda, self.address + offset, size, self)

    def holds(self, address: int) -> bool:
        """Whether an address is in this memory."""
        return bool(self.address <= address < self.address + self.size)


class HostArena:
    """Contiguous pinned host memory. Raises `OutOfMemoryError`."""

    def __init__(self, cuda: Any, size: int):
        self.size, self._cuda = size, cuda
        pages = -(-max(1, size) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = Arena(pages)
        self.address, self.bytes = memory.address, bytes_of(memory.view(0, pages))
        cuda.pin(self.address, pages)
        weakref.finalize(self, cuda.unpin, self.address).atexit = False
        cuda.at(self.address, 1, None)

    def view(self, offset: int, size: int) -> torch.UntypedStorage:
        """Return a *GPU* storage in this arena, which its kernels can use, and which keeps the arena alive."""
        return storage_at(self._cuda, self.address + offset, size, self)

    def holds(self, address: int) -> bool:
        """Whether an address is in this memory."""
        return self.address <= address < self.address + self.size


class Spares:
    """Pinned pieces of the host with a storage each. When that is no more, operations may still be using the memory:
    it is given back once the events that `bury` is given have come."""

    def __init__(self, cuda: Any):
        self._cuda = cuda
        self._living: dict[int, torch.Tensor] = {}
        self._dead: deque[torch.Tensor] = deque()
        self._buried: list[tuple[torch.Tensor, list[Any]]] = []

    def make(self, size: int) -> torch.UntypedStorage:
        """Return a GPU storage in host memory. Raises `OutOfMemoryError`."""
        piece: torch.Tensor = self._cuda.pinned(size)
        owner = _Owner()
        weakref.finalize(owner, _die, self._living, self._dead, piece.data_ptr()).atexit = False
        self._living[piece.data_ptr()] = piece
        return storage_at(self._cuda, piece.data_ptr(), size, owner)

    def at(self, address: int) -> torch.Tensor | None:
        """The bytes that begin at an address, as the host's."""
        return self._living.get(address)

    @property
    def has_dead(self) -> bool:
        """Whether there are some to bury, or buried."""
        return bool(self._dead or self._buried)

    def bury(self, events: list[Any]) -> None:
        """`events`: recorded now on every stream that may use the memory of those that died since."""
        while self._dead:
            self._buried.append((self._dead.popleft(), events))
        self._buried = [each for each in self._buried if not all(event.query() for event in each[1])]


class _Owner:
    """An object with the lifetime of a storage."""


def _die(living: dict[int, torch.Tensor], dead: deque[torch.Tensor], address: int) -> None:
    dead.append(living.pop(address))


def storage_at(cuda: Any, address: int, size: int, owner: object) -> torch.UntypedStorage:
    """Return a GPU storage at an address."""
    found: torch.UntypedStorage = cuda.at(address, size, owner).untyped_storage()
    return found


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a storage's bytes as a tensor."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
