"""The CPU as a device: an arena for the device, one for the host, and a thread for each lane."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import torch

from vkernels.ir.errors import OutOfMemoryError
from vkernels.ir.system_resources import ThreadPool
from vkernels.runtime.memory_blocks import ALIGNMENT

from .device import Lane, Transfer, TransferDone
from .tiers import Flash, copy_bytes

AT_ONCE = {Lane.TO_HOST: 1 << 19, Lane.FROM_HOST: 1 << 19, Lane.TO_FLASH: 1 << 18, Lane.FROM_FLASH: 1 << 18}
"""Bytes that the program's thread carries by itself: another would take longer to wake. Files are written and read by
way of the system's own memory."""


class Arena:
    """A contiguous memory of fixed size. Raises `OutOfMemoryError`."""

    def __init__(self, size: int):
        self.size = size
        try:
            self._memory = mmap.mmap(-1, max(size, mmap.PAGESIZE))
        except (OSError, OverflowError) as error:
            raise OutOfMemoryError(f"no memory for an arena of {size} bytes") from error
        self.address = self.view(0, 1).data_ptr()

    def view(self, offset: int, size: int) -> torch.UntypedStorage:
        """Return a storage in this arena, which it keeps alive."""
        return torch.frombuffer(self._memory, dtype=torch.uint8, offset=offset, count=size).untyped_storage()

    def holds(self, address: int) -> bool:
        """Whether an address is in this memory."""
        return self.address <= address < self.address + self.size


class Carried:
    """A completed transfer. `error`: its failure, if any."""

    def __init__(self, error: BaseException | None):
        self.error = error

    def done(self) -> bool:
        return True


class CpuDevice:
    """Implements `device.Device`, which documents the methods."""

    name = kind = "cpu"
    alignment = ALIGNMENT
    in_step = True

    def __init__(self) -> None:
        self._threads: dict[Lane, ThreadPool] = {}

    def takes(self, storage: torch.UntypedStorage) -> bool:
        return storage.device.type == "cpu" and storage.resizable() and not storage.is_shared()

    def arena(self, size: int) -> Arena:
        return Arena(size)

    host = nowhere = arena

    def flash(self, folder: Path, size: int) -> Flash:
        return Flash(folder, size)

    def fresh(self, size: int) -> torch.UntypedStorage:
        return torch.UntypedStorage(size)  # type: ignore[no-untyped-call]

    spare = fresh

    def turn(self) -> None:
        pass

    def copy(self, to: int, source: int, size: int) -> None:
        copy_bytes(to, source, size)

    def read(self, flash: Flash, offset: int, to: int, size: int) -> None:
        flash.read(offset, to, size)

    def carry(self, lane: Lane, alive: object, work: Transfer, after: Sequence[TransferDone] = ()) -> TransferDone:
        if work.size <= AT_ONCE[lane] and all(each.done() for each in after):
            try:
                do(lane, work)
            except OSError as error:
                return Carried(error)
            return Carried(None)

        def run() -> None:
            for each in after:
                self.wait(each)  # asked for before this, so it does not wait for this
            do(lane, work)
            _ = alive

        if lane not in self._threads:
            self._threads[lane] = ThreadPool(1, f"vkernels {lane.value}")
        return self._threads[lane].submit(run)

    def wait(self, done: TransferDone) -> BaseException | None:
        if isinstance(done, Future):
            return done.exception()
        return done.error if isinstance(done, Carried) else None

    def settle(self) -> None:
        pass  # all that is asked of a CPU is done when the call returns, but for transfers, which are waited for

    def close(self) -> None:
        for each in self._threads.values():
            each.shutdown(wait=True)
        self._threads.clear()


def do(lane: Lane, work: Transfer) -> None:
    """Run the transfer now."""
    if work.flash is None:
        copy_bytes(work.to, work.source, work.size)
    elif lane is Lane.TO_FLASH:
        work.flash.write(work.to, work.source, work.size)
    else:
        work.flash.read(work.source, work.to, work.size)
