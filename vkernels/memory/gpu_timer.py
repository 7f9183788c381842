"""Time copies and accesses on a GPU by torch's kernels, also on memory that torch did not allocate."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from vkernels.ir.errors import OutOfMemoryError, SetupError

from .calibrate_gpu import GpuTimer, MemoryKind
from .cuda_api import tensor_at

LINE = 8
"""Adjacent float32 elements of one scattered access."""
SEED = 1
ATTACH_GLOBAL = 1
"""Managed memory accessible to the host and all devices: CU_MEM_ATTACH_GLOBAL, hipMemAttachGlobal."""
CUDA = (("libcuda.so.1", "libcuda.so"), "cuMemAllocManaged", "cuMemFree_v2", "cuMemPrefetchAsync")
HIP = (("libamdhip64.so",), "hipMallocManaged", "hipFree", "hipMemPrefetchAsync")
"""Libraries, and their functions to allocate, free and prefetch managed memory, with the same arguments."""


class _Managed:
    """Managed memory, freed with this object."""

    def __init__(self, driver: _Driver, size: int):
        self.driver, pointer = driver, ctypes.c_void_p()
        if driver.allocate(ctypes.byref(pointer), ctypes.c_size_t(size), ATTACH_GLOBAL) != 0 or not pointer.value:
            raise OutOfMemoryError(f"no managed memory for {size} bytes")
        self.address, self.size = pointer.value, size

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self.driver.free(ctypes.c_void_p(self.address))


@dataclass(frozen=True)
class _Driver:
    allocate: Callable[..., int]
    free: Callable[..., int]
    prefetch: Callable[..., int] | None


def mapped(pinned: Any, device: Any) -> Any:
    """Return the bytes of a pinned host tensor as a tensor of a GPU, if the driver gives both the same address.

    Raises `SetupError` otherwise.
    """
    return tensor_at(pinned.data_ptr(), pinned.numel() * pinned.element_size(), pinned, device)


class TorchTimer(GpuTimer):
    """Times operations of torch. Raises `SetupError` if torch finds no such device."""

    def __init__(self, number: int):
        if not torch.cuda.is_available() or number >= torch.cuda.device_count():
            raise SetupError(f"torch {torch.__version__} reaches no GPU number {number} here")
        self.device = torch.device("cuda", number)
        torch.cuda.set_device(self.device)
        torch.zeros(1, device=self.device)  # creates the context that the driver's calls need
        self._driver = _driver(HIP if torch.version.hip else CUDA)
        properties = torch.cuda.get_device_properties(self.device)
        self.integrated = bool(getattr(properties, "is_integrated", False))
        self.has_managed = self._driver is not None
        self.has_prefetch = self._can_prefetch()
        self._kept: dict[tuple[Any, ...], Any] = {}

    def copy(self, size: int, to_device: bool) -> float:
        host, there = self._host(size, pinned=True), self._on(MemoryKind.DEVICE, size)
        to, source = (there, host) if to_device else (host, there)
        return self._timed(lambda: to.copy_(source, non_blocking=True))

    def kernel(
        self, memory: MemoryKind, size: int, writes: bool = False, scattered: bool = False, often: int = 1
    ) -> float:
        buffer = self._on(memory, size)
        if scattered:
            lines, order = buffer.view(-1, LINE), self._order(size)
            own = self._once(("own", size), lambda: torch.ones(size // 4, device=self.device)).view(-1, LINE)
            if writes:
                return self._timed(lambda: lines.index_copy_(0, order, own))
            return self._timed(lambda: torch.index_select(lines, 0, order, out=own))
        if writes:
            return self._timed(lambda: buffer.fill_(1.0))
        if often > 1:
            return self._timed(lambda: buffer.expand(often, -1).sum(0))
        return self._timed(buffer.sum)

    def first_touch(self, size: int, by_device: bool) -> float:
        memory = self._managed(size)
        on_host = _host_view(memory)
        there = tensor_at(memory.address, size, memory, self.device).view(torch.float32)
        if by_device:
            on_host.fill_(1.0)
            return self._timed(there.sum)
        there.fill_(1.0)
        torch.cuda.synchronize(self.device)
        begun = time.perf_counter()
        on_host.sum()
        return time.perf_counter() - begun

    def prefetch(self, size: int) -> float:
        memory = self._managed(size)
        _host_view(memory).fill_(1.0)
        return self._timed(lambda: self._prefetch(memory.address, size))

    def launch(self) -> float:
        tiny, often = self._on(MemoryKind.DEVICE, 4096), 100

        def row() -> None:
            for _ in range(often):
                tiny.fill_(1.0)

        return self._timed(row) / often

    def by_host(self, size: int, pinned: bool) -> float:
        buffer = self._host(size, pinned)
        begun = time.perf_counter()
        buffer.sum()
        return time.perf_counter() - begun

    def _timed(self, run: Callable[[], object]) -> float:
        torch.cuda.synchronize(self.device)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def _on(self, memory: MemoryKind, size: int) -> Any:
        if memory is MemoryKind.DEVICE:
            return self._once((memory, size), lambda: torch.ones(size // 4, device=self.device))
        pinned = self._host(size, pinned=True)
        return self._once((memory, size), lambda: mapped(pinned, self.device).view(torch.float32))

    def _host(self, size: int, pinned: bool) -> Any:
        return self._once(("host", size, pinned), lambda: torch.ones(size // 4, pin_memory=pinned))

    def _order(self, size: int) -> Any:
        seeded = torch.Generator().manual_seed(SEED)
        lines = size // (4 * LINE)
        return self._once(("order", size), lambda: torch.randperm(lines, generator=seeded).to(self.device))

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def _managed(self, size: int) -> _Managed:
        if self._driver is None:
            raise SetupError("the driver has no managed memory")
        return _Managed(self._driver, size)

    def _can_prefetch(self) -> bool:
        if self._driver is None or self._driver.prefetch is None:
            return False
        memory = self._managed(4096)
        try:
            self._prefetch(memory.address, 4096)
        except SetupError:
            return False
        torch.cuda.synchronize(self.device)
        return True

    def _prefetch(self, address: int, size: int) -> None:
        assert self._driver is not None
        assert self._driver.prefetch is not None
        stream = torch.cuda.current_stream(self.device).cuda_stream
        pointer, length = ctypes.c_void_p(address), ctypes.c_size_t(size)
        if self._driver.prefetch(pointer, length, self.device.index, ctypes.c_void_p(stream)):
            raise SetupError("the driver does not prefetch managed memory")


def _host_view(memory: _Managed) -> Any:
    """The same bytes as a host tensor."""
    numbers = (ctypes.c_float * (memory.size // 4)).from_address(memory.address)
    return torch.frombuffer(numbers, dtype=torch.float32)


def _driver(names: tuple[tuple[str, ...], str, str, str]) -> _Driver | None:
    """Load the driver's functions; None if its library is missing or lacks them."""
    libraries, allocate, free, prefetch = names
    for name in libraries:
        try:
            library = ctypes.CDLL(name)
            return _Driver(getattr(library, allocate), getattr(library, free), getattr(library, prefetch, None))
        except (OSError, AttributeError):
            continue
    return None
