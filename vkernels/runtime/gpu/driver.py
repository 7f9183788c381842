"""A GPU's driver: its interface, and the part that torch implements for every vendor."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import OutOfMemoryError, SetupError

from ..coordinator.launch_profile import Mark

if TYPE_CHECKING:
    from torch import Tensor

    from vkernels.targets import Target

RELAXED = 2
"""The mode of captures in which nothing is forbidden to a thread, with both vendors."""

Signatures = Mapping[str, Sequence[Any]]
"""Functions of a driver's library, all of which return an error code, and the types of their parameters."""


class Driver(ABC):
    """One vendor's driver. Devices are counted as torch counts them; functions and streams are the driver's handles.

    All but `target` works on the current device, and nothing waits for a device. Raises `SetupError` with the
    driver's own name of an error, `OutOfMemoryError` where memory is short. `on(device)`: within, a device is the
    calling thread's current one; `is_capturing()`: whether work on the current stream goes into a graph, so that
    nothing can be loaded; `current_device()`: the calling thread's; `stream(device)`: the stream of torch's work.
    """

    _launch: Callable[..., int]
    _exchange_capture_mode: Callable[..., int]

    def __init__(self) -> None:
        import torch

        self._torch = torch
        # The last two cost a microsecond less without torch's Python around them.
        self.on: Callable[[int], AbstractContextManager[object]] = torch.cuda.device
        self.is_capturing: Callable[[], bool] = torch.cuda.is_current_stream_capturing
        self.current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
        self.stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", self._stream)

    @abstractmethod
    def target(self, device: int) -> Target:
        """A device, with the sizes that its driver reports."""

    @abstractmethod
    def load(self, code: bytes, name: str, shared: int) -> int:
        """The function called `name` of a cubin or hsaco, to be launched with `shared` bytes of shared memory. It stays
        loaded as long as the process lives."""

    @abstractmethod
    def resident(self, function: int, threads: int, shared: int) -> int:
        """Programs of a function that one multiprocessor holds at once; 0 where not even one can run."""

    def launch(self, function: int, grid: int, threads: int, shared: int, stream: int, arguments: int) -> None:
        """Start `grid` programs. `arguments`: the address of an array of pointers to each argument."""
        code = self._launch(function, grid, 1, 1, threads, 1, 1, shared, stream, arguments, None)
        if code:
            self._check(code, "launching a kernel")

    @cached_property
    def launch_address(self) -> int | None:
        """The address of the library's function that launches; None where that is no native code."""
        function: Any = self._launch
        try:
            return ctypes.cast(function, ctypes.c_void_p).value
        except ctypes.ArgumentError:
            return None

    @contextmanager
    def beside_captures(self) -> Iterator[None]:
        """Within, what cannot be captured does not break a graph that another thread captures just now."""
        mode = ctypes.c_int(RELAXED)  # each exchange puts what was set before into it
        self._check(self._exchange_capture_mode(ctypes.byref(mode)), "letting other threads' graphs alone")
        try:
            yield
        finally:
            self._exchange_capture_mode(ctypes.byref(mode))

    @abstractmethod
    def _check(self, code: int, doing: str) -> None: ...

    def allocate(self, device: int, size: int) -> Tensor:
        """Memory for the current stream, aligned to 256 bytes or more by torch; once given back it is reused in that
        order."""
        torch = self._torch
        try:
            memory: Tensor = torch.empty(size, dtype=torch.uint8, device=torch.device("cuda", device))
            return memory
        except torch.OutOfMemoryError as error:
            raise OutOfMemoryError(f"cuda:{device} has no {size} bytes left for a kernel's own memory") from error

    def mark(self) -> Mark:
        """A mark in the current stream, behind all work that is in it."""
        made = self._torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        made.record()
        return made

    def identity(self, device: int) -> str:
        """What tells a device from all others of the machine, in every process. Raises `SetupError`."""
        found = getattr(self._torch.cuda.get_device_properties(device), "uuid", None)
        if found is None:
            raise SetupError("this torch does not tell devices apart by their UUID")
        return str(found)

    def _stream(self, device: int) -> int:
        stream: int = self._torch.cuda.current_stream(device).cuda_stream
        return stream


def open_library(names: Sequence[str], what: str) -> ctypes.CDLL:
    """The first library that there is. Raises `SetupError`."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SetupError(f"{what} is not installed: there is no {names[0]}")


def declare(library: Any, signatures: Signatures) -> None:
    """Tell ctypes the types of a library's functions. Raises `SetupError` for a driver too old to have one of them."""
    for name, types in signatures.items():
        function = getattr(library, name, None)
        if function is None:
            raise SetupError(f"the GPU's driver has no function {name}; a newer one does")
        function.argtypes, function.restype = list(types), ctypes.c_int


def failure(doing: str, code: int, name: str, text: str, out_of_memory: int) -> SetupError:
    """The exception for an error code; `name` and `text` are the driver's own."""
    kind = OutOfMemoryError if code == out_of_memory else SetupError
    return kind(f"{doing}: {name or f'error {code}'}" + (f": {text}" if text else ""))
