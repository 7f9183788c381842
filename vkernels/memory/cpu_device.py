"""The CPU as a device: an arena for the device, one for the host, and a thread for each lane."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import torch

from vkernels.compiler.timeline import moving
from vkernels.ir.errors import OutOfMemoryError
from vkernels.ir.system_resources import ThreadPool
from vkernels.runtime.memory_blocks import ALIGNMENT

from .device import DeviceMemory, Lane, MemoryDevice, Transfer, TransferDone
from .tiers import Flash, copy_bytes

AT_ONCE = {Lane.TO_HOST: 1 << 19, Lane.FROM_HOST: 1 << 19, Lane.TO_FLASH: 1 << 18, Lane.FROM_FLASH: 1 << 18}
"""Maximum bytes that the program's own thread copies, because waking another takes longer. Small file accesses stay in
the page cache."""


class Arena(DeviceMemory):
    """A contiguous memory of fixed size. Raises `OutOfMemoryError`."""

    def __init__(self, size: int):
        self.size = size
        try:
            self._memory = mmap.mmap(-1, max(size, mmap.PAGESIZE))
        except (OSError, OverflowError) as error:
            raise OutOfMemoryError(f"no memory for an arena of {size} bytes") from error
        self.address = self.view(0, 1).data_ptr()

    def view(self, offset: int, size: int, owner: object = None) -> torch.UntypedStorage:
        if owner is None:
            return torch.frombuffer(self._memory, dtype=torch.uint8, offset=offset, count=size).untyped_storage()
        memory = (ctypes.c_char * size).from_buffer(self._memory, offset)
        memory.owner = owner  # type: ignore[attr-defined]  # a storage keeps the buffer that it was made from
        return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()


class CpuDevice(MemoryDevice):
    """Operations are synchronous; transfers are futures of the lanes' threads."""

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
            ended: Future[None] = Future()
            try:
                do(lane, work)
                ended.set_result(None)
            except OSError as error:
                ended.set_exception(error)
            return ended

        def run() -> None:
            for each in after:
                self.wait(each)  # no deadlock: it was submitted before
            do(lane, work)
            _ = alive

        if lane not in self._threads:
            self._threads[lane] = ThreadPool(1, f"vkernels {lane.value}")
        return self._threads[lane].submit(run)

    def wait(self, done: TransferDone) -> BaseException | None:
        return done.exception() if isinstance(done, Future) else None

    def settle(self) -> None:
        pass  # operations are synchronous, and transfers are waited for

    def close(self) -> None:
        for each in self._threads.values():
            each.shutdown(wait=True)
        self._threads.clear()


def do(lane: Lane, work: Transfer) -> None:
    """Run a transfer now."""
    with moving(lane.value, work.size):
        if work.flash is None:
            copy_bytes(work.to, work.source, work.size)
        elif lane is Lane.TO_FLASH:
            work.flash.write(work.to, work.source, work.size)
        else:
            work.flash.read(work.source, work.to, work.size)
