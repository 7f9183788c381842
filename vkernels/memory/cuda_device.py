"""A GPU as a device: an arena on it, pinned memory on the host, a stream for each lane, and events between them.

The GPU runs work later than the program's thread submits it. The program's next work waits on its stream, by events,
and not on the host, except for files.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch

from vkernels.compiler.timeline import moving
from vkernels.ir.system_resources import ThreadPool

from .cuda_api import Cuda, DeviceArena, HostArena, Spares, unseen
from .device import Lane, MemoryDevice, Transfer, TransferDone
from .stream_spans import StreamSpans
from .tiers import Flash

PIECE, HALVES = 1 << 24, 2
"""Bytes of one piece of a transfer with flash, and pieces of the pinned buffer: one is copied while the file is
accessed for the other."""


class OnStream:
    """A transfer on a stream. `event`: its end."""

    def __init__(self, event: Any):
        self.event = event

    def done(self) -> bool:
        return bool(self.event.query())


class OnThread:
    """A transfer by a thread, piece by piece. `asked`: the event after its last copy, once that is submitted; `ended`:
    when the file has been accessed, too."""

    def __init__(self) -> None:
        self.asked: Future[Any] = Future()
        self.ended: Future[None] | None = None

    def done(self) -> bool:
        if self.ended is None or not self.ended.done():
            return False
        return self.ended.exception() is not None or bool(self.asked.result().query())

    def error(self) -> BaseException | None:
        """Waits until it has ended."""
        return None if self.ended is None else self.ended.exception()


class CudaDevice(MemoryDevice):
    """Operations and transfers are asynchronous. `cuda`: calls of torch. Raises `SetupError` without a GPU."""

    alignment = 512
    """As in torch's allocator: libraries choose kernels, and with them the result's bits, by alignment."""
    in_step = False

    def __init__(self, device: torch.device, cuda: Any = None):
        self._cuda: Cuda = Cuda(device) if cuda is None else cuda
        self.name, self.kind = str(self._cuda.device), self._cuda.device.type
        self._arenas: list[DeviceArena] = []
        self._spares = Spares(self._cuda)
        self._streams: dict[Lane, Any] = {}
        self._threads: dict[Lane, ThreadPool] = {}
        self._buffers: dict[Lane, HostArena] = {}
        self._used: list[Any] = [None] * HALVES
        """The event after the last copy of each half of the buffer for reading flash."""
        self._last: Any = None
        self._spans = StreamSpans(self._cuda, self.name)

    # Memories

    def takes(self, storage: torch.UntypedStorage) -> bool:
        return self._cuda.takes(storage)

    def allocated(self, anew: bool = False) -> tuple[int, int] | None:
        return self._cuda.allocated(anew)

    @unseen
    def arena(self, size: int) -> DeviceArena:
        self._arenas.append(made := DeviceArena(self._cuda, size))
        return made

    @unseen
    def host(self, size: int) -> HostArena:
        self._arenas.append(made := HostArena(self._cuda, size))
        return made

    @unseen
    def nowhere(self, size: int) -> HostArena:
        return HostArena(self._cuda, 1)  # an access beyond it is a bug, and a GPU error

    @unseen
    def flash(self, folder: Path, size: int) -> Flash:
        for lane in (Lane.TO_FLASH, Lane.FROM_FLASH):
            self._buffers[lane] = HostArena(self._cuda, HALVES * PIECE)
        return Flash(folder, size)

    @unseen
    def fresh(self, size: int) -> torch.UntypedStorage:
        self.turn()
        return self._cuda.storage(size)

    @unseen
    def spare(self, size: int) -> torch.UntypedStorage:
        self.turn()
        return self._spares.make(size)

    # The program's order

    def turn(self) -> Any:
        now = self._cuda.program()
        if self._last is not None and now != self._last:
            now.wait_event(self._record(self._last))
        self._last = now
        if self._spares.has_dead:
            self._spares.bury([self._record(stream) for stream in (now, *self._streams.values())])
        return now

    @unseen
    def copy(self, to: int, source: int, size: int) -> None:
        self._cuda.copy(self.turn(), self._bytes(to, size), self._bytes(source, size))

    @unseen
    def read(self, flash: Flash, offset: int, to: int, size: int) -> None:
        if self._spares.at(to) is not None:  # nothing on the GPU uses it yet
            flash.read(offset, to, size)
            return
        error = self.wait(self.carry(Lane.FROM_FLASH, None, Transfer(offset, to, size, flash)))
        if error is not None:
            raise error

    def wait(self, done: TransferDone) -> BaseException | None:
        if isinstance(done, OnThread):
            error = done.error()
            if error is None:
                self.turn().wait_event(done.asked.result())
            return error
        if isinstance(done, OnStream):
            self.turn().wait_event(done.event)
        return None

    def settle(self) -> None:
        program = self.turn()
        for stream in self._streams.values():
            program.wait_event(self._record(stream))

    def close(self) -> None:
        self._spans.tell_all()
        for each in self._threads.values():
            each.shutdown(wait=True)
        for stream in (self.turn(), *self._streams.values()):
            self._record(stream).synchronize()
        self._threads.clear()
        self._streams.clear()
        self._buffers.clear()
        self._arenas.clear()

    # Lanes

    @unseen
    def carry(self, lane: Lane, alive: object, work: Transfer, after: Sequence[TransferDone] = ()) -> TransferDone:
        # `alive` need not be kept: lanes use arenas, and torch reuses memory in program order.
        before, stream = self._record(self.turn()), self._stream(lane)
        if work.flash is None:
            stream.wait_event(before)
            for each in after:
                self._hold_back(stream, each)
            with self._spans.moving(lane, work.size, stream):
                self._cuda.copy(stream, self._bytes(work.to, work.size), self._bytes(work.source, work.size))
            return OnStream(self._record(stream))
        if lane not in self._threads:
            self._threads[lane] = ThreadPool(1, f"vkernels {lane.value}")
        transfer, go = OnThread(), self._write if lane is Lane.TO_FLASH else self._read

        def run() -> None:
            try:
                stream.wait_event(before)
                for each in after:
                    if isinstance(each, OnThread):
                        each.error()  # the file's part of it
                    self._hold_back(stream, each)
                with moving(lane.value, work.size):
                    go(stream, transfer, work)
            except BaseException as error:
                self._give_up(stream, transfer, error)
                raise

        transfer.ended = self._threads[lane].submit(run)
        return transfer

    def _hold_back(self, stream: Any, done: TransferDone) -> None:
        """Let the next work of a stream wait for a transfer's copies."""
        if isinstance(done, OnStream):
            stream.wait_event(done.event)
        elif isinstance(done, OnThread) and done.asked.exception() is None:
            stream.wait_event(done.asked.result())

    def _give_up(self, stream: Any, transfer: OnThread, error: BaseException) -> None:
        """Release those that wait for a failed transfer, once none of its copies is running."""
        try:
            self._record(stream).synchronize()
        finally:
            if not transfer.asked.done():
                transfer.asked.set_exception(error)

    def _write(self, stream: Any, transfer: OnThread, work: Transfer) -> None:
        """Write to flash; while a piece is written to the file, the next is copied to the other half of the buffer."""
        buffer, flash = self._buffers[Lane.TO_FLASH], _flash_of(work)

        def ask(at: int) -> Any:
            begin, size = at // PIECE % HALVES * PIECE, min(PIECE, work.size - at)
            self._cuda.copy(stream, buffer.bytes[begin : begin + size], self._bytes(work.source + at, size))
            return self._record(stream)

        copied = ask(0)
        for at in range(0, work.size, PIECE):
            following = ask(at + PIECE) if at + PIECE < work.size else None
            if following is None:
                transfer.asked.set_result(copied)
            copied.synchronize()
            address = buffer.address + at // PIECE % HALVES * PIECE
            flash.write(work.to + at, address, min(PIECE, work.size - at))
            copied = following

    def _read(self, stream: Any, transfer: OnThread, work: Transfer) -> None:
        """Read from flash; a half of the buffer is filled when its previous piece has been copied."""
        buffer, flash = self._buffers[Lane.FROM_FLASH], _flash_of(work)
        for at in range(0, work.size, PIECE):
            half, size = at // PIECE % HALVES, min(PIECE, work.size - at)
            if self._used[half] is not None:
                self._used[half].synchronize()
            flash.read(work.source + at, buffer.address + half * PIECE, size)
            held = buffer.bytes[half * PIECE : half * PIECE + size]
            self._cuda.copy(stream, self._bytes(work.to + at, size), held)
            copied = self._used[half] = self._record(stream)
        transfer.asked.set_result(copied)

    def _stream(self, lane: Lane) -> Any:
        if lane not in self._streams:
            self._streams[lane] = self._cuda.stream()
        return self._streams[lane]

    def _record(self, stream: Any) -> Any:
        event = self._cuda.event()
        event.record(stream)
        return event

    def _bytes(self, address: int, size: int) -> torch.Tensor:
        """Bytes at an address as a tensor of the device that they are on, for copies between host and device."""
        for each in self._arenas:
            if each.holds(address):
                return each.bytes[address - each.address : address - each.address + size]
        spare = self._spares.at(address)
        return self._cuda.at(address, size, None) if spare is None else spare[:size]


def _flash_of(work: Transfer) -> Flash:
    if work.flash is None:
        raise ValueError("a transfer to or from flash, without it")
    return work.flash
