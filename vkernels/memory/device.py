"""The device interface of the schedule executor: memories, copies in program order, and asynchronous transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from .tiers import Flash


class Lane(Enum):
    """A link and direction: a queue of transfers, one at a time."""

    TO_HOST = "to host"
    FROM_HOST = "from host"
    TO_FLASH = "to flash"
    FROM_FLASH = "from flash"


class DeviceMemory(Protocol):
    """A contiguous memory of fixed size."""

    size: int
    address: int

    def view(self, offset: int, size: int) -> torch.UntypedStorage:
        """Return a storage of the device's type in this memory, which it keeps alive."""

    def holds(self, address: int) -> bool:
        """Whether an address is in this memory."""


class TransferDone(Protocol):
    """The end of a transfer."""

    def done(self) -> bool:
        """Whether the transfer has ended; does not wait."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes for a lane to carry, from an address to another. To flash `to` is an offset in it, from flash `source`."""

    source: int
    to: int
    size: int
    flash: Flash | None = None


class MemoryDevice(Protocol):
    """One device. *In the program's order*: after all that the program's thread has asked of the device, and before
    what it asks next."""

    name: str
    kind: str
    """As torch names it: `cuda`, of whatever number."""
    alignment: int
    """Of sizes and offsets, in bytes."""
    in_step: bool
    """Whether operations are synchronous, so that the program's own time adds to theirs."""

    def takes(self, storage: torch.UntypedStorage) -> bool:
        """Whether its memory is this device's, and may be exchanged: nobody else shares it."""

    def arena(self, size: int) -> DeviceMemory:
        """Allocate an arena on the device. Raises `OutOfMemoryError`."""

    def host(self, size: int) -> DeviceMemory:
        """Allocate a host arena that device operations can access in place. Raises `OutOfMemoryError`."""

    def nowhere(self, size: int) -> DeviceMemory:
        """Reserve addresses for tensors on flash; they are never accessed and need no memory."""

    def flash(self, folder: Path, size: int) -> Flash:
        """Create a swap file in a folder. Raises `FileError`."""

    def fresh(self, size: int) -> torch.UntypedStorage:
        """Memory of its own, as the program's own tensors have."""

    def spare(self, size: int) -> torch.UntypedStorage:
        """Memory of its own that takes no room on the device, and that operations can use, for what was on flash."""

    def turn(self) -> None:
        """Called before each operation while calls are followed: it may be the first of another of the program's
        streams."""

    def copy(self, to: int, source: int, size: int) -> None:
        """Between two addresses that operations can use, in the program's order."""

    def read(self, flash: Flash, offset: int, to: int, size: int) -> None:
        """From flash to an address, in the program's order. Raises `OSError`."""

    def carry(self, lane: Lane, alive: object, work: Transfer, after: Sequence[TransferDone] = ()) -> TransferDone:
        """Have a lane do it: what the program has asked of the device is done before, and so is all that it is to come
        `after`; what the program asks next does not wait. `alive` is kept until then."""

    def wait(self, done: TransferDone) -> BaseException | None:
        """What the program asks of the device from now on comes after a transfer; what went wrong with that."""

    def settle(self) -> None:
        """Wait until the device is idle."""

    def close(self) -> None:
        """Stop background work of the device."""
