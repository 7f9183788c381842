"""Loaded GPU code bound to the layout of a call's arguments: functions, slots, and pointers to them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from vkernels.compiler.call_profiles import CallKey
from vkernels.compiler.protocols import KernelLike
from vkernels.ir.plan import Plan

from ..coordinator import gap_filling
from ..events import LaunchRecord
from .device import GpuDevice
from .native_launch import can_launch_natively, native_launch, split_code
from .packing import Packed


class BoundGpuExecutable:
    """Loaded code for arguments of one shape; may be called from several threads at once.

    A call starts its launches on the device's current stream and waits for nothing. It is one call of native code,
    where the driver gives the address of its function; what that refuses goes through the driver's `launch`.
    `kernel`: for traces; `call_key`: gives what calls are known by where they are profiled; `divided`: gives the same
    code with launches that can be started in ranges of programs; None until it is there.
    """

    def __init__(self, device: GpuDevice, packed: Packed, plan: Plan, rung: str):
        self.device, self.packed, self.plan, self.rung = device, packed, plan, rung
        self.kernel: KernelLike | None = None
        self.call_key: Callable[[], CallKey] | None = None
        self.divided: Callable[[], BoundGpuExecutable | None] | None = None
        driver = device.driver
        self._number, self._own_bytes = device.number, packed.own_bytes
        self._current_device, self._stream = driver.current_device, driver.stream
        self._launch: Callable[..., int] | None = None
        if packed.starts and (address := driver.launch_address) and can_launch_natively():
            self._launch, self._kept = native_launch(packed, address)

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Start the kernel on tensors at these addresses, with these scalars, both in the order of the parameters."""
        if gap_filling.in_use and self.packed.starts:
            from .calls_by_priority import run_by_priority  # which most processes need not

            run_by_priority(self, addresses, scalars)
        else:
            self.start(addresses, scalars)

    def start(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """The same at once, whatever the thread's priority."""
        number = self._number
        if self._current_device() == number:
            if self._launch is None or self._own_bytes:
                self._run(addresses, scalars)
            elif result := self._launch(*addresses, *scalars, self._stream(number)):
                self._go_on(result, addresses, scalars)
        elif self.packed.starts:
            with self.device.driver.on(number):
                self._run(addresses, scalars)

    def launch_record(self) -> LaunchRecord:
        """How calls are run, on the stream that is current now."""
        device, number, packed = self.device, self.device.number, self.packed
        stream = device.driver.stream(number)
        return LaunchRecord(
            self.plan, f"cuda:{number}", device.slice, stream, len(packed.starts), packed.own_bytes, self.rung
        )  # fmt: skip

    def _run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Start the launches on the device, which is the current one."""
        if not self.packed.starts:
            return
        # Given back when the last launch is in the stream: its next user comes later in that stream.
        memory = self.device.driver.allocate(self._number, self._own_bytes) if self._own_bytes else None
        start = 0 if memory is None else memory.data_ptr()
        if self._launch is None:
            self._start(0, addresses, scalars, start)
            return
        own = () if memory is None else (start,)
        if result := self._launch(*addresses, *scalars, *own, self._stream(self._number)):
            self._go_on(result, addresses, scalars, start)

    def _go_on(
        self, result: int, addresses: Sequence[int], scalars: Sequence[bool | int | float], start: int = 0
    ) -> None:
        """Start the launch that failed, and those behind it, as the driver does where a thread has no context; else it
        raises its error."""
        _, failed = split_code(result)
        self._start(failed, addresses, scalars, start)

    def _start(self, first: int, addresses: Sequence[int], scalars: Sequence[bool | int | float], start: int) -> None:
        """Start launches through the driver's `launch`, from number `first` on. `start`: of the call's own memory."""
        self.start_parts(
            [(number, None) for number in range(first, len(self.packed.starts))], addresses, scalars, start
        )

    def start_parts(
        self,
        parts: Sequence[tuple[int, range | None]],
        addresses: Sequence[int],
        scalars: Sequence[bool | int | float],
        start: int,
    ) -> None:
        """Start some launches by their numbers, each with all its programs or a range of them, in this order, on the
        device, which is the current one. `start`: of the call's own memory."""
        packed, driver = self.packed, self.device.driver
        words = (ctypes.c_int64 * max(1, len(packed.template)))(*packed.template)
        floats = (ctypes.c_double * len(words)).from_buffer(words)
        for slot, tensor in packed.pointers:
            words[slot] = addresses[tensor]
        for slot, scalar, is_float in packed.scalars:
            if is_float:
                floats[slot] = scalars[scalar]
            else:
                words[slot] = int(scalars[scalar])
        for slot, offset in packed.own:
            words[slot] = start + offset
        base = ctypes.addressof(words)
        pointers = (ctypes.c_void_p * len(words))(*(base + 8 * slot for slot in range(len(words))))
        stream = driver.stream(self._number)
        for number, programs in parts:
            each, grid = packed.starts[number], packed.starts[number].grid
            if programs is not None and each.range_slots is not None:
                begin, end = each.range_slots
                words[begin], words[end], grid = programs.start, programs.stop, min(grid, len(programs))
            driver.launch(
                each.function, grid, each.threads, each.shared, stream, ctypes.addressof(pointers) + 8 * each.first
            )
