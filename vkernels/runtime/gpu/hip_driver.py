"""AMD's driver: HIP, in the very library that torch uses, since two of them in a process do not know each other."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import SetupError

from .driver import Driver, Signatures, declare, failure, open_library

if TYPE_CHECKING:
    from vkernels.targets import Target

SIGNATURES: Signatures = {
    "hipModuleLoadData": (POINTER(c_void_p), c_char_p),
    "hipModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "hipThreadExchangeStreamCaptureMode": (POINTER(c_int),),
    "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), c_void_p, c_int, c_size_t),
    "hipModuleLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
}
"""Of hip_runtime_api.h; handles are pointers."""

NAMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6")
OUT_OF_MEMORY = 2


class HipDriver(Driver):
    """The driver of AMD's devices. `library`: the one that torch uses unless given."""

    def __init__(self, library: Any = None):
        super().__init__()
        self._library = self._find() if library is None else library
        declare(self._library, SIGNATURES)
        for name in ("hipGetErrorName", "hipGetErrorString"):
            getattr(self._library, name).argtypes, getattr(self._library, name).restype = [c_int], c_char_p
        self._launch = self._library.hipModuleLaunchKernel
        self._exchange_capture_mode = self._library.hipThreadExchangeStreamCaptureMode

    def _find(self) -> ctypes.CDLL:
        for name in NAMES:
            try:
                return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LOCAL)
            except OSError:
                continue
        beside = Path(str(self._torch.__file__)).parent / "lib" / NAMES[0]
        return open_library([str(beside), *NAMES], "AMD's HIP")

    def target(self, device: int) -> Target:
        """A device, queried in another process, which opens its own library."""
        from vkernels.targets import present_targets

        found = next((target for target in present_targets() if target.key == f"amd:{device}"), None)
        if found is None:
            raise SetupError(f"cuda:{device}: AMD's driver does not say what this device is")
        return found

    def load(self, code: bytes, name: str, shared: int) -> int:
        """A launch may have all of the device's shared memory: HIP has no function that asks for it."""
        library, module, function = self._library, c_void_p(), c_void_p()
        with self.beside_captures():
            self._check(library.hipModuleLoadData(byref(module), code), f"loading {name}")
            self._check(library.hipModuleGetFunction(byref(function), module, name.encode()), f"loading {name}")
        return function.value or 0

    def resident(self, function: int, threads: int, shared: int) -> int:
        count = c_int()
        counted = self._library.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
        self._check(counted(byref(count), function, threads, shared), "counting a kernel's resident programs")
        return count.value

    def _check(self, code: int, doing: str) -> None:
        if code:
            name, text = self._library.hipGetErrorName(code), self._library.hipGetErrorString(code)
            raise failure(doing, code, (name or b"").decode(), (text or b"").decode(), OUT_OF_MEMORY)
