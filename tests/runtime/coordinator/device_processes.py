"""Processes that call on one device, whose time is a number that they share."""

from __future__ import annotations

import ctypes
import mmap

from tests.runtime.coordinator.test_gap_filling import profile
from tests.runtime.coordinator.test_processes import Peer
from vkernels.runtime.coordinator import device_board
from vkernels.runtime.coordinator.device_board import board_of
from vkernels.runtime.coordinator.filling_calls import Waiting
from vkernels.runtime.coordinator.gap_filling import GapFilling


class SharedDevice:
    """Runs launches in order, in the memory of all processes. `now`: the clock; `free`: when the last launch ends."""

    def __init__(self):
        self._memory = mmap.mmap(-1, 4096)
        self._words = (ctypes.c_double * 2).from_buffer(self._memory)
        self.now = 1.0

    @property
    def now(self):
        return self._words[0]

    @now.setter
    def now(self, value):
        self._words[0] = value

    def launch(self, seconds):
        begin = max(self.now, self._words[1])
        self._words[1] = begin + seconds
        return Passed(self, begin), Passed(self, begin + seconds)


class Passed:
    def __init__(self, device, at):
        self.device, self.at = device, at

    def query(self):
        return self.device.now >= self.at

    def elapsed_time(self, end_event):
        return 1e3 * (end_event.at - self.at)


class Process:
    """A process's calls on the device. Peers do the same in another process, as they are told."""

    def __init__(self, device):
        self.device, self.board = device, board_of("some device")
        self.filling = GapFilling(lambda: device.now, self.board)
        self.high = self.filling.enter()
        self.waiting = {}

    def begin(self):
        self.filling.begin_upper(self.high)

    def end(self, seconds=1e-3, gap=1e-3):
        self.filling.end_upper(self.high, profile(seconds, gap), *self.device.launch(seconds))

    def call(self, seconds=1e-3, gap=1e-3):
        self.begin()
        self.end(seconds, gap)

    def wait(self, name="low", seconds=1e-4, units=1):
        """A call of low priority begins to wait."""
        call = self.waiting[name] = Waiting(profile(seconds), units, units > 1, self.device.now)
        self.filling._queue.append(call)

    def take(self, name="low"):
        """How many units of it may start now."""
        return self.filling._take_units(self.waiting[name], self.device.now)

    def start(self, name="low", units=1, seconds=1e-4):
        """It starts, and waits no longer."""
        call = self.waiting.pop(name)
        self.filling._leave_queue(call)
        self.filling.started(call, units, *self.device.launch(seconds))

    def look(self):
        with self.filling._changed:
            self.filling._look(self.device.now)

    def has_low(self):
        return self.filling.has_low

    def lock(self):
        return self.board._board.try_lock(device_board.STARTING)


class Other(Peer):
    """A process that does what it is told, and answers."""

    def __init__(self, device):
        def work(pipe):
            process = Process(device)
            while (told := pipe.recv()) is not None:
                name, given = told
                pipe.send(getattr(process, name)(**given))

        super().__init__(work)

    def tell(self, method, /, **given):
        self.pipe.send((method, given))
        return self.receive()

    def end(self):
        self.pipe.send(None)
        super().end()
