"""Loaded GPU code bound to the layout of a call's arguments: functions, slots, and pointers to them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from vkernels.ir.plan import Plan

from ..events import LaunchRecord
from .device import GpuDevice
from .packing import Packed


class BoundGpuExecutable:
    """Loaded code for arguments of one shape; may be called from several threads at once.

    A call starts its launches on the device's current stream and waits for nothing.
    """

    def __init__(self, device: GpuDevice, packed: Packed, plan: Plan, rung: str):
        self.device, self.packed, self.plan, self.rung = device, packed, plan, rung
        self._frames: list[_Frame] = []

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Start the kernel on tensors at these addresses, with these scalars, both in the order of the parameters."""
        if not self.packed.starts:
            return
        number, driver = self.device.number, self.device.driver
        if driver.current_device() == number:
            self._run(addresses, scalars)
        else:
            with driver.on(number):
                self._run(addresses, scalars)

    def launch_record(self) -> LaunchRecord:
        """How calls are run, on the stream that is current now."""
        device, number, packed = self.device, self.device.number, self.packed
        stream = device.driver.stream(number)
        return LaunchRecord(
            self.plan, f"cuda:{number}", device.slice, stream, len(packed.starts), packed.own_bytes, self.rung
        )  # fmt: skip

    def _run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        packed, number, driver = self.packed, self.device.number, self.device.driver
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(packed)
        words = frame.words
        for slot, tensor in packed.pointers:
            words[slot] = addresses[tensor]
        for slot, scalar, is_float in packed.scalars:
            if is_float:
                frame.floats[slot] = scalars[scalar]
            else:
                words[slot] = int(scalars[scalar])
        # Given back when the last launch is in the stream: its next user comes later in that stream.
        memory = driver.allocate(number, packed.own_bytes) if packed.own_bytes else None
        if memory is not None:
            start = memory.data_ptr()
            for slot, offset in packed.own:
                words[slot] = start + offset
        stream = driver.stream(number)
        for function, grid, threads, shared, arguments in frame.launches:
            driver.launch(function, grid, threads, shared, stream, arguments)
        self._frames.append(frame)


class _Frame:
    """The memory of one call at a time. Drivers copy the arguments during the launch, so it is free again
    afterwards."""

    __slots__ = ("floats", "launches", "pointers", "words")

    def __init__(self, packed: Packed):
        count = max(1, len(packed.template))
        self.words = (ctypes.c_int64 * count)(*packed.template)
        self.floats = (ctypes.c_double * count).from_buffer(self.words)
        start = ctypes.addressof(self.words)
        self.pointers = (ctypes.c_void_p * count)(*(start + 8 * slot for slot in range(count)))
        pointers = ctypes.addressof(self.pointers)
        self.launches = [
            (each.function, each.grid, each.threads, each.shared, pointers + 8 * each.first) for each in packed.starts
        ]
