"""NVIDIA's driver. Contexts are torch's: each device's primary one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import SetupError

from .driver import Driver, Signatures, declare, failure, open_library

if TYPE_CHECKING:
    from vkernels.targets import Target

SIGNATURES: Signatures = {
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuCtxGetCurrent": (POINTER(c_void_p),),
    "cuCtxSetCurrent": (c_void_p,),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuFuncSetCacheConfig": (c_void_p, c_int),
    "cuThreadExchangeStreamCaptureMode": (POINTER(c_int),),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), c_void_p, c_int, c_size_t),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
}
"""Of cuda.h; handles are pointers, enumerations are int."""

OUT_OF_MEMORY = 2
INVALID_CONTEXT = 201
INVALID_HANDLE = 400
CONTEXT_IS_DESTROYED = 709
OF_ANOTHER_CONTEXT = frozenset((INVALID_CONTEXT, INVALID_HANDLE, CONTEXT_IS_DESTROYED))
"""What a launch may answer where the calling thread has no context, or another library's."""
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
PREFER_SHARED = 1
SHARED_UNASKED = 48 << 10
"""Bytes of shared memory that a launch can have without asking, on every device so far."""


class CudaDriver(Driver):
    """The driver of NVIDIA's devices. `library`: libcuda unless given."""

    def __init__(self, library: Any = None):
        super().__init__()
        self._library = open_library(["libcuda.so.1"], "NVIDIA's driver") if library is None else library
        declare(self._library, SIGNATURES)
        self._launch = self._library.cuLaunchKernel
        self._exchange_capture_mode = self._library.cuThreadExchangeStreamCaptureMode
        self._primary: dict[int, int | None] = {}

    def target(self, device: int) -> Target:
        from vkernels.targets.present import gpu_target
        from vkernels.targets.probe import nvidia_devices

        try:
            return gpu_target("nvidia", f"nvidia:{device}", nvidia_devices()[device])
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise SetupError(f"cuda:{device}: NVIDIA's driver does not say what this device is") from error

    def load(self, code: bytes, name: str, shared: int) -> int:
        library, doing = self._library, f"loading {name}"
        module, function = c_void_p(), c_void_p()
        with self._primary_context(), self.beside_captures():
            self._check(library.cuModuleLoadData(byref(module), code), doing)
            self._check(library.cuModuleGetFunction(byref(function), module, name.encode()), doing)
            if shared > SHARED_UNASKED:
                asked = library.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
                self._check(asked, f"{doing}, which asks for {shared} bytes of shared memory a program")
                self._check(library.cuFuncSetCacheConfig(function, PREFER_SHARED), doing)
        return function.value or 0

    def resident(self, function: int, threads: int, shared: int) -> int:
        count = c_int()
        with self._primary_context():
            found = self._library.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(count), function, threads, shared)
            self._check(found, "counting a kernel's resident programs")
        return count.value

    def launch(self, function: int, grid: int, threads: int, shared: int, stream: int, arguments: int) -> None:
        code = self._launch(function, grid, 1, 1, threads, 1, 1, shared, stream, arguments, None)
        if code in OF_ANOTHER_CONTEXT:
            with self._primary_context():
                super().launch(function, grid, threads, shared, stream, arguments)
        elif code:
            self._check(code, "launching a kernel")

    @contextmanager
    def _primary_context(self) -> Iterator[None]:
        """Within, the current device's primary context is the calling thread's. A thread without one keeps it; where
        another library has made its own current, that comes back."""
        library, before, number = self._library, c_void_p(), self.current_device()
        self._check(library.cuCtxGetCurrent(byref(before)), "finding the context")
        primary = self._primary.get(number) or self._retain(number)
        if before.value == primary:
            yield
            return
        self._check(library.cuCtxSetCurrent(primary), "finding the context")
        try:
            yield
        finally:
            if before.value:
                library.cuCtxSetCurrent(before)

    def _retain(self, number: int) -> int | None:
        """A device's primary context, which lives as long as the process from now on."""
        context, device = c_void_p(), c_int()
        self._check(self._library.cuDeviceGet(byref(device), number), "finding the device")
        self._check(self._library.cuDevicePrimaryCtxRetain(byref(context), device), "finding the context")
        return self._primary.setdefault(number, context.value)

    def _check(self, code: int, doing: str) -> None:
        if code:
            name, text = (
                self._said(function, code)
                for function in (self._library.cuGetErrorName, self._library.cuGetErrorString)
            )
            raise failure(doing, code, name, text, OUT_OF_MEMORY)

    @staticmethod
    def _said(function: Any, code: int) -> str:
        found = c_char_p()
        return "" if function(code, byref(found)) or not found.value else ctypes.string_at(found).decode()
