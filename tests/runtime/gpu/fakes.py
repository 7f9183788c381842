"""A GPU that is not there: tensors that say they are on it, a driver that notes what it is told, and one that obeys.

The addresses are of this machine's memory, and what is "loaded" is TTIR, which the interpreter runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from vkernels.compiler.backends.triton_adapter import Binary
from vkernels.compiler.default_session import default_session
from vkernels.compiler.workers.jobs import CompileJob
from vkernels.ir.dialect import context, tt
from vkernels.ir.interpret.ttir import RuntimeMemory, TensorRegion, run_ttir
from vkernels.ir.lowering.ttir.state import SLOT_BYTES
from vkernels.runtime.coordinator import gap_filling
from vkernels.runtime.gpu.device import GpuDevice
from vkernels.runtime.gpu.loading import HIDDEN
from vkernels.runtime.interpret import memory_of
from vkernels.targets import Target, limits_of, target_named

STREAM = 0x57EA
LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *(ctypes.c_uint,) * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
"""A driver's function that launches."""
ALIGNMENT = 512


class OnGpu(torch.Tensor):
    """A tensor that says it is on a GPU; its memory is that of a tensor on the CPU."""

    memory: torch.Tensor

    @staticmethod
    def __new__(cls, memory: torch.Tensor, device: str = "cuda:0") -> OnGpu:
        made = torch.Tensor._make_wrapper_subclass(
            cls, memory.shape, strides=memory.stride(), dtype=memory.dtype, device=torch.device(device)
        )
        made.memory = memory
        return made

    def data_ptr(self) -> int:
        return self.memory.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.memory.untyped_storage()

    def storage_offset(self) -> int:
        return self.memory.storage_offset()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"a launch has no business with {function}")


def memory_at(size: int) -> np.ndarray:
    """Bytes at an aligned address, full of something."""
    block = np.full(size + ALIGNMENT, 0xA5, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


@dataclass(frozen=True)
class Allocation:
    bytes: np.ndarray

    def data_ptr(self) -> int:
        return int(self.bytes.ctypes.data)


@dataclass(frozen=True)
class Launched:
    """What a driver was told. `slots`: the eight bytes that each pointer to an argument points at."""

    function: int
    grid: int
    threads: int
    shared: int
    stream: int
    slots: tuple[bytes, ...]


class FakeDriver:
    """Notes launches. `blocks`: of any function, on a multiprocessor.

    Native code launches through `launch_address`, which calls `launch` unless `answers` has error codes to give first.
    """

    numbers = count()

    def __init__(self, blocks: int = 2, device: int = 0):
        self.number = next(self.numbers)  # no device remembers calls of low priority that others ran
        self.blocks, self.device, self.captures = blocks, device, False
        self.loaded: list[tuple[bytes, str, int]] = []
        self.launches: list[Launched] = []
        self.allocations: list[Allocation] = []
        self.entered: list[int] = []
        self.answers: list[int] = []
        self._native = LAUNCH(self._answer)
        self.launch_address = ctypes.cast(self._native, ctypes.c_void_p).value

    def _answer(self, function: int, grid: int, *rest: Any) -> int:
        (*_, threads, _, _, shared, stream, arguments, _) = rest
        if self.answers and (code := self.answers.pop(0)):
            return code
        try:
            self.launch(function, grid, threads, shared, stream or 0, arguments)
        except Exception:  # which `launch` raises once more where no native code is in between
            return 1
        return 0

    def target(self, device: int) -> Target:
        return target_named("h200-sxm-141")

    def load(self, code: bytes, name: str, shared: int) -> int:
        assert not self.captures, "a graph that is captured breaks off"
        self.loaded.append((code, name, shared))
        return len(self.loaded)

    def resident(self, function: int, threads: int, shared: int) -> int:
        return self.blocks

    def launch(self, function: int, grid: int, threads: int, shared: int, stream: int, arguments: int) -> None:
        count = self.parameters(function)
        pointers = (ctypes.c_void_p * count).from_address(arguments)
        slots = tuple(ctypes.string_at(pointer or 0, 8) for pointer in pointers)
        self.launches.append(Launched(function, grid, threads, shared, stream, slots))

    def parameters(self, function: int) -> int:
        """Of a function that `compile_fake` made."""
        return len(function_in(parsed(self.loaded[function - 1][0])).body.block.args) + HIDDEN

    def identity(self, device: int) -> str:
        return f"fake-{self.number}-{device}"

    def current_device(self) -> int:
        return self.device

    def is_capturing(self) -> bool:
        return self.captures

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        self.entered.append(device)
        before, self.device = self.device, device
        yield
        self.device = before

    def stream(self, device: int) -> int:
        return STREAM

    def allocate(self, device: int, size: int) -> Allocation:
        assert device == self.device
        self.allocations.append(Allocation(memory_at(size)))
        return self.allocations[-1]


class RunningDriver(FakeDriver):
    """Runs what is launched in the interpreter of TTIR. `tensors`: all that addresses may point to."""

    def __init__(self, tensors: Sequence[OnGpu], blocks: int = 2):
        super().__init__(blocks)
        self.arrays = {tensor.data_ptr(): memory_of(tensor.memory) for tensor in tensors}
        self.spaces: dict[int, RuntimeMemory] = {}

    def launch(self, function: int, grid: int, threads: int, shared: int, stream: int, arguments: int) -> None:
        super().launch(function, grid, threads, shared, stream, arguments)
        module = parsed(self.loaded[function - 1][0])
        types = function_in(module).body.block.arg_types
        if needed := grid * descriptor_bytes(function_in(module)):
            start = int.from_bytes(self.launches[-1].slots[len(types)], "little")
            memory = self.allocations[-1]
            assert start % 128 == 0, "hardware reads descriptors at aligned addresses"
            own = range(memory.data_ptr(), memory.data_ptr() + memory.bytes.size + 1)
            assert {start, start + needed} <= {*own}, "each program has room for its descriptors"
        values = [self._value(type_, slot) for type_, slot in zip(types, self.launches[-1].slots, strict=False)]
        run_ttir(module, grid, values, shared, slot_bytes=SLOT_BYTES if shared else 0)

    def _value(self, type_: Any, slot: bytes) -> Any:
        if isinstance(type_, tt.PointerType):
            return self._pointed(int.from_bytes(slot, "little"))
        kinds = {"i1": np.bool_, "i32": np.int32, "i64": np.int64, "f64": np.float64}
        return np.frombuffer(slot, kinds[str(type_)], 1)[0]

    def _pointed(self, address: int) -> TensorRegion | RuntimeMemory:
        if address in self.arrays:
            return TensorRegion(self.arrays[address])
        (end,) = (a.data_ptr() + a.bytes.size for a in self.allocations[-1:])
        if address not in self.spaces:
            self.spaces[address] = RuntimeMemory("own", end - address)
        return self.spaces[address]


@lru_cache(maxsize=32)
def parsed(code: bytes) -> ModuleOp:
    """A module, which nobody changes."""
    dialects = context()
    dialects.load_dialect(tt.TT)
    dialects.load_dialect(tt.GPU)
    dialects.load_dialect(tt.LLVM)
    return Parser(dialects, code.decode()).parse_module()


def function_in(module: ModuleOp) -> tt.FuncOp:
    (function,) = (op for op in module.ops if isinstance(op, tt.FuncOp))
    return function


def compile_fake(jobs: Sequence[CompileJob]) -> tuple[Binary, ...]:
    """ "Binaries" that hold their text, with the parameters that Triton adds."""
    return tuple(_binary(job) for job in jobs)


def _binary(job: CompileJob) -> Binary:
    function = function_in(parsed(job.text.encode()))
    name, count = function.sym_name.data, len(function.body.block.args) + HIDDEN
    assembly = f".entry {name}(\n" + ",\n".join(f".param .u64 p{n}" for n in range(count)) + "\n)"
    warps, scratch = job.options.warps, job.options.scratch_bytes
    return Binary(
        job.architecture, name, job.text.encode(), assembly, scratch, warps, 32 * warps, 0, descriptor_bytes(function),
        "", "3.9.0",
    )  # fmt: skip


def descriptor_bytes(function: tt.FuncOp) -> int:
    """Scratch memory that a program has for its tensor descriptors: 128 bytes each."""
    return 128 * sum(isinstance(op, tt.MakeTensorDescriptorOp) for op in function.walk())


def use(monkeypatch: Any, driver: FakeDriver, compile_jobs: Callable[..., Any] = compile_fake) -> GpuDevice:
    """Let launches find this driver for every device, and compile so; code that was loaded on others is dropped."""
    default_session()._kernels.clear()
    gap_filling.FILLINGS.clear()
    target = driver.target(0)
    device = GpuDevice(0, driver, target, limits_of(target))
    devices = {"cuda:0": device, "cuda:1": replace(device, number=1)}
    for name in ("gpu_device", "present_gpu"):
        monkeypatch.setattr(f"vkernels.runtime.gpu.device.{name}", devices.__getitem__)
    monkeypatch.setattr("vkernels.compiler.gpu_binaries.BinaryCompiler.compile", lambda self, jobs: compile_jobs(jobs))
    monkeypatch.setattr("vkernels.library.gpu_arrays._made_aside", lambda device, make: make())  # torch has no streams
    return device
