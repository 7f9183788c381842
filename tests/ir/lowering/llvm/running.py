"""Compile mapped IR from text and run it on NumPy arrays, as the runtime does but on one thread."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from vkernels.compiler.backends.llvm import NativeKernel, compile_cpu
from vkernels.ir.text import parse_module

Argument = np.ndarray | float | int | bool

PREPARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
LAUNCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def compiled(text: str, register_bytes: int | None = None) -> NativeKernel:
    """Native code of the one `vk.mapped` in the text."""
    return compile_cpu(parse_module(text), register_bytes=register_bytes)


def aligned(size: int, poison: int = 0xCD) -> np.ndarray:
    """`size` bytes at a 64-byte boundary, poisoned."""
    raw = np.full(size + 64, poison, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


class Call:
    """One kernel with its arguments in slots; `run` may be called again and again."""

    def __init__(self, code: NativeKernel, arguments: Sequence[Argument], sizes: dict[str, int]):
        self.code, self.arguments = code, arguments
        words = [word for argument in arguments for word in _words(argument)]
        words += [sizes[name] for name in code.sizes]
        assert len(words) + code.buffers == code.slots
        self.slots = np.array(words + [0] * code.buffers, np.int64)
        out = np.zeros(code.buffers + len(code.launches) + 1, np.int64)
        PREPARE(code.prepare)(self.slots.ctypes.data, out.ctypes.data)
        self.buffers = [aligned(int(size)) for size in out[: code.buffers]]
        for number, buffer in enumerate(self.buffers):
            self.slots[len(words) + number] = buffer.ctypes.data
        self.programs = [int(n) for n in out[code.buffers : -1]]
        self.workspace_bytes = code.workspace + int(out[-1])
        self.workspace = aligned(self.workspace_bytes + 64)
        self.functions = [LAUNCH(address) for address in code.launches]

    def run(self) -> None:
        guard = self.workspace[self.workspace_bytes :]
        guard[:] = 0xAB
        for function, programs in zip(self.functions, self.programs, strict=True):
            middle = programs // 2
            for begin, end in ((middle, programs), (0, middle)):
                function(self.slots.ctypes.data, begin, end, self.workspace.ctypes.data)
        assert (guard == 0xAB).all(), "wrote past the workspace"


def _words(argument: Argument) -> list[int]:
    if isinstance(argument, np.ndarray):
        return [argument.ctypes.data, *(stride // argument.itemsize for stride in argument.strides)]
    if isinstance(argument, float):
        return [int(np.float64(argument).view(np.int64))]
    return [int(argument)]


def run(text: str, arguments: Sequence[Argument], sizes: dict[str, int], register_bytes: int | None = None) -> None:
    """Compile, and run once."""
    Call(compiled(text, register_bytes), arguments, sizes).run()
