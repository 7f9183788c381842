"""All calls of torch for moving tensors on a GPU, and memories of it: arenas, and pinned ones on the host."""

from __future__ import annotations

import contextlib
import mmap
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from vkernels.ir.errors import OutOfMemoryError, SetupError

from .cpu_device import Arena
from .device import DeviceMemory

PORTABLE, MAPPED = 1, 2
"""Flags of cudaHostRegister: pinned for every GPU, and accessible to kernels."""


P = ParamSpec("P")
R = TypeVar("R")


def unseen(method: Callable[P, R]) -> Callable[P, R]:
    """Hide a method's operations of torch from the modes of its caller, such as one that records a program: they are
    none of the program's."""

    @wraps(method)
    def hidden(*args: P.args, **kwargs: P.kwargs) -> R:
        with _disable_current_modes():
            return method(*args, **kwargs)

    return hidden


class Cuda:
    """A GPU. Streams and events are torch's. Raises `SetupError` without a GPU."""

    def __init__(self, device: torch.device):
        if not torch.cuda.is_available():
            raise SetupError(f"memory on {device} cannot be limited: torch {torch.__version__} finds no GPU here")
        self.device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)

    def takes(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage is on this GPU and from torch's allocator; others cannot be resized."""
        return storage.device == self.device and storage.resizable()

    def program(self) -> Any:
        """The current stream of the calling thread."""
        return torch.cuda.current_stream(self.device)

    def stream(self) -> Any:
        """A new stream."""
        return torch.cuda.Stream(self.device)

    def event(self) -> Any:
        """A new event with blocking waits on the host."""
        return torch.cuda.Event(blocking=True)

    def timed_event(self) -> Any:
        """A new event that knows when it was reached."""
        return torch.cuda.Event(enable_timing=True, blocking=True)

    def copy(self, stream: Any, to: torch.Tensor, source: torch.Tensor) -> None:
        """Enqueue a copy on a stream."""
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)

    def allocate(self, size: int) -> torch.Tensor:
        """Allocate bytes on the GPU. Raises `OutOfMemoryError`."""
        try:
            with torch.inference_mode(False):
                return torch.empty(size, dtype=torch.uint8, device=self.device)
        except torch.OutOfMemoryError as error:
            raise OutOfMemoryError(f"no memory for an arena of {size} bytes on {self.device}") from error

    def allocated(self, anew: bool = False) -> tuple[int, int] | None:
        """Bytes that torch's allocator was asked for, now and the most since a reset; `anew`: reset it."""
        if anew:
            torch.cuda.reset_peak_memory_stats(self.device)
        found = torch.cuda.memory_stats_as_nested_dict(self.device)
        bytes = found["requested_bytes"]["all"] if found else {"current": 0, "peak": 0}
        return int(bytes["current"]), int(bytes["peak"])

    def storage(self, size: int) -> torch.UntypedStorage:
        """Allocate GPU memory as torch does; operations of the program's stream may use it immediately."""
        return torch.UntypedStorage(size, device=self.device)

    def pinned(self, size: int) -> torch.Tensor:
        """Allocate host bytes that the GPU can access in place. Raises `OutOfMemoryError`."""
        try:
            with torch.inference_mode(False):
                return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
        except RuntimeError as error:  # torch has no class for it
            raise OutOfMemoryError(f"{size} bytes of the host cannot be pinned: {error}") from error

    def pin(self, address: int, size: int) -> None:
        """Pin pages of the host. Raises `OutOfMemoryError`. (torch's own allocator rounds up to a power of two.)"""
        with torch.cuda.device(self.device):
            error = int(torch.cuda.cudart().cudaHostRegister(address, size, PORTABLE | MAPPED))
            if error:
                with contextlib.suppress(RuntimeError):  # clear the error: a later kernel would raise it
                    torch.zeros(1, device=self.device)
                raise OutOfMemoryError(f"{size} bytes of the host cannot be pinned: CUDA's error {error}")

    def unpin(self, address: int) -> None:
        """Undo `pin`, before the pages are freed."""
        torch.cuda.cudart().cudaHostUnregister(address)

    def at(self, address: int, size: int, owner: object) -> torch.Tensor:
        """Return bytes at an address that this GPU can access, as `tensor_at`."""
        return tensor_at(address, size, owner, self.device)


@dataclass(frozen=True)
class Pointer:
    """Bytes at an address, in the interface by which torch takes memory of a GPU."""

    address: int
    size: int
    owner: object

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.size,), "typestr": "|u1", "strides": None, "version": 3}


def tensor_at(address: int, size: int, owner: object, device: torch.device) -> torch.Tensor:
    """Return bytes at an address as a tensor of a GPU, also pinned host memory. The tensor keeps `owner` alive.

    Raises `SetupError` if torch cannot do that.
    """
    try:
        found = torch.as_tensor(Pointer(address, size, owner), device=device)
    except (RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise SetupError(
            f"torch {torch.__version__} does not take memory at an address on {device}: {reason}"
        ) from error
    if found.data_ptr() != address:
        raise SetupError(f"torch {torch.__version__} copies memory at an address: it is not on {device}")
    return found


class DeviceArena(DeviceMemory):
    """Contiguous memory of a GPU. Raises `OutOfMemoryError`."""

    def __init__(self, cuda: Cuda, size: int):
        self.size, self._cuda = size, cuda
        self.bytes = cuda.allocate(max(1, size))
        self.address = self.bytes.data_ptr()
        cuda.at(self.address, 1, None)  # raises now if torch cannot do it

    @unseen
    def view(self, offset: int, size: int, owner: object = None) -> torch.UntypedStorage:
        return self._cuda.at(self.address + offset, size, (self, owner)).untyped_storage()


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
