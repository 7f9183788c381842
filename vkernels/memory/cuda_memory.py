"""Memories of a GPU: arenas on it and in pinned host memory, and spare pieces of the host."""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from typing import Any

import torch

from .cpu_device import Arena
from .cuda_api import Cuda
from .device import DeviceMemory


class DeviceArena(DeviceMemory):
    """Contiguous memory of a GPU. Raises `OutOfMemoryError`."""

    def __init__(self, cuda: Cuda, size: int):
        self.size, self._cuda = size, cuda
        self.bytes = cuda.allocate(max(1, size))
        self.address = self.bytes.data_ptr()
        cuda.at(self.address, 1, None)  # raises now if torch cannot do it

    def view(self, offset: int, size: int) -> torch.UntypedStorage:
        return self._cuda.at(self.address + offset, size, self).untyped_storage()


class HostArena(DeviceArena):
    """Contiguous pinned host memory; its views are storages of the *GPU*. Raises `OutOfMemoryError`."""

    def __init__(self, cuda: Cuda, size: int):
        self.size, self._cuda = size, cuda
        pages = -(-max(1, size) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = Arena(pages)
        self.address = memory.address
        self.bytes = torch.empty(0, dtype=torch.uint8).set_(memory.view(0, pages))
        cuda.pin(self.address, pages)
        weakref.finalize(self, cuda.unpin, self.address).atexit = False
        cuda.at(self.address, 1, None)


class Spares:
    """Pinned pieces of the host, with a storage each.

    When a storage dies, operations may still be using its memory: it is freed after the events given to `bury`.
    """

    def __init__(self, cuda: Cuda):
        self._cuda = cuda
        self._living: dict[int, torch.Tensor] = {}
        self._dead: deque[torch.Tensor] = deque()
        self._buried: list[tuple[torch.Tensor, list[Any]]] = []

    def make(self, size: int) -> torch.UntypedStorage:
        """Return a GPU storage in host memory. Raises `OutOfMemoryError`."""
        piece = self._cuda.pinned(size)
        owner = _Owner()
        weakref.finalize(owner, _die, self._living, self._dead, piece.data_ptr()).atexit = False
        self._living[piece.data_ptr()] = piece
        return self._cuda.at(piece.data_ptr(), size, owner).untyped_storage()

    def at(self, address: int) -> torch.Tensor | None:
        """The piece at an address, as a tensor of the host."""
        return self._living.get(address)

    @property
    def has_dead(self) -> bool:
        """Whether there are pieces to free."""
        return bool(self._dead or self._buried)

    def bury(self, events: list[Any]) -> None:
        """`events`: just recorded on every stream that may use the memory of pieces that died since the last call."""
        while self._dead:
            self._buried.append((self._dead.popleft(), events))
        self._buried = [each for each in self._buried if not all(event.query() for event in each[1])]


class _Owner:
    """An object with the lifetime of a storage."""


def _die(living: dict[int, torch.Tensor], dead: deque[torch.Tensor], address: int) -> None:
    dead.append(living.pop(address))
