"""The device interface of the schedule executor: memories, copies in program order, and asynchronous transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

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

    def view(self, offset: int, size: int, owner: object = None) -> torch.UntypedStorage:
        """Return a storage of the device's type in this memory, which it keeps alive, and `owner` too."""
        ...

    def holds(self, address: int) -> bool:
        """Whether an address is in this memory."""
        return self.address <= address < self.address + self.size


class TransferDone(Protocol):
    """The end of a transfer."""

    def done(self) -> bool:
        """Whether the transfer has ended; does not wait."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes to copy between addresses; for a transfer to or from `flash`, `to` or `source` is an offset in it."""

    source: int
    to: int
    size: int
    flash: Flash | None = None


class MemoryDevice(Protocol):
    """One device. *In program order*: after the work that the program's thread has submitted, and before its next work.

    `name`: with its number; `kind`: without. `alignment`: of sizes and offsets, in bytes. `in_step`: operations are
    synchronous, so that the program's own time adds to theirs.
    """

    name: str
    kind: str
    alignment: int
    in_step: bool

    def takes(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage is on this device, and its memory can be exchanged: nothing else shares it."""

    def arena(self, size: int) -> DeviceMemory:
        """Allocate an arena on the device. Raises `OutOfMemoryError`."""

    def host(self, size: int) -> DeviceMemory:
        """Allocate a host arena that device operations can access in place. Raises `OutOfMemoryError`."""

    def nowhere(self, size: int) -> DeviceMemory:
        """Reserve addresses for tensors on flash; they are never accessed and need no memory."""

    def flash(self, folder: Path, size: int) -> Flash:
        """Create a swap file in a folder. Raises `FileError`."""

    def fresh(self, size: int) -> torch.UntypedStorage:
        """Allocate a storage as torch does."""

    def spare(self, size: int) -> torch.UntypedStorage:
        """Allocate a storage outside the device's memory that operations can access, for tensors from flash."""

    def turn(self) -> None:
        """Called before each operation under a plan: the program may have switched to another stream."""

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy between two addresses that operations can access, in program order."""

    def read(self, flash: Flash, offset: int, to: int, size: int) -> None:
        """Read from flash to an address, in program order. Raises `OSError`."""

    def carry(self, lane: Lane, alive: object, work: Transfer, after: Sequence[TransferDone] = ()) -> TransferDone:
        """Start a transfer on a lane, after the program's work so far and after the transfers `after`.

        The program's next work does not wait for it. `alive` is kept until the end.
        """
        ...

    def wait(self, done: TransferDone) -> BaseException | None:
        """Let the program's next work wait for a transfer; return the transfer's error, if any."""

    def allocated(self, anew: bool = False) -> tuple[int, int] | None:
        """Return the bytes that torch has allocated on the device, now and the most since `anew` was last set; None:
        it does not count them."""
        return None

    def settle(self) -> None:
        """Wait until the device is idle."""

    def close(self) -> None:
        """Stop background work of the device."""
