"""A GPU that is not there: torch's operations run on the CPU, and kernels in the interpreter of TTIR.

Every step of a day can be tried so, on small sizes. Times are the host's, and mean nothing.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.runtime.gpu.fakes import FakeDriver, OnGpu, RunningDriver, function_in, parsed, use
from vkernels.compiler.default_session import set_default_session
from vkernels.compiler.session import CompilerSession
from vkernels.ir.interpret.ttir import RuntimeMemory, TensorRegion, run_ttir
from vkernels.ir.lowering.ttir.state import SLOT_BYTES
from vkernels.runtime.interpret import memory_of

from .gpu import Gpu, Run

PATIENCE = 600.0
BLOCKS = 2


class SimulatedTensor(OnGpu):
    """Its operations run on its memory, and what they return is on the GPU too.

    To torch's C++ code it is on the CPU, as there is no code for other devices.
    """

    place: torch.device

    live: ClassVar[defaultdict[int, list[weakref.ref[SimulatedTensor]]]] = defaultdict(list)
    """By address, the tensors that there are."""

    captured: ClassVar[list[SimulatedTensor] | None] = None
    """What a graph that is captured just now has made: its memory is the graph's."""

    @staticmethod
    def __new__(cls, memory: torch.Tensor, device: str = "cuda:0") -> SimulatedTensor:
        made = OnGpu.__new__(cls, memory, "cpu")
        made.place = torch.device(device)
        there = cls.live[memory.data_ptr()]
        there[:] = [each for each in there if each() is not None]
        there.append(weakref.ref(made))
        if cls.captured is not None:
            cls.captured.append(made)
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {**(kwargs or {})}
        if given.get("device") is not None:
            given["device"] = torch.device("cpu")
        own: dict[int, SimulatedTensor] = {}

        def inner(value: Any) -> Any:
            if isinstance(value, OnGpu):
                own[id(value.memory)] = value
                return value.memory
            return value

        def outer(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
                return value
            return own.get(id(value)) if id(value) in own else SimulatedTensor(value)

        return tree_map(outer, function(*tree_map(inner, args), **tree_map(inner, given)))

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.place

    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]

    def cpu(self, *given: Any) -> torch.Tensor:
        return self.memory.clone()

    def tolist(self) -> Any:
        return self.memory.tolist()

    def record_stream(self, stream: Any) -> None:
        """Nothing runs later than it is started."""


class OnSimulated(TorchFunctionMode):
    """What torch is to make on a GPU, or to move there, is made on the CPU, and says that it is there."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {**(kwargs or {})}
        if function is torch.Tensor.cuda:
            return SimulatedTensor(args[0].clone())
        comes_back = function is torch.Tensor.to and isinstance(args[0], OnGpu)
        if comes_back and any(_is_cpu(each) for each in (*args[1:], given.get("device"))):
            return torch.Tensor.to(args[0].memory.clone(), *args[1:], **given)
        devices = [each for each in (*args[1:], given.get("device")) if _is_cuda(each)]
        if not devices:
            return function(*args, **given)
        args = tuple(torch.device("cpu") if _is_cuda(each) else each for each in args)
        if "device" in given:
            given["device"] = torch.device("cpu")
        made = function(*args, **given)
        if isinstance(made, SimulatedTensor):
            return made
        return SimulatedTensor(made.clone() if any(made is each for each in args) else made)


def _is_cuda(value: Any) -> bool:
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, torch.device) and value.type == "cuda"


def _is_cpu(value: Any) -> bool:
    return value == "cpu" or (isinstance(value, torch.device) and value.type == "cpu")


class SimulatedDriver(RunningDriver):
    """Runs launches on whatever tensors there are; while a graph is captured, it keeps them."""

    def __init__(self) -> None:
        super().__init__((), BLOCKS)
        self.kept: list[Run] = []
        self.current_stream = 0x57EA
        self._lock = threading.RLock()

    def stream(self, device: int) -> int:
        return self.current_stream

    def load(self, code: bytes, name: str, shared: int) -> int:
        with self._lock:
            return super().load(code, name, shared)

    def launch(self, function: int, grid: int, threads: int, shared: int, stream: int, arguments: int) -> None:
        with self._lock:
            FakeDriver.launch(self, function, grid, threads, shared, stream, arguments)
            slots = self.launches[-1].slots
            module = parsed(self.loaded[function - 1][0])

            def run() -> None:
                types = function_in(module).body.block.arg_types
                values = [self._value(type_, slot) for type_, slot in zip(types, slots, strict=False)]
                run_ttir(module, grid, values, shared, slot_bytes=SLOT_BYTES if shared else 0)

            if self.captures:
                self.kept.append(run)
            else:
                run()

    def _value(self, type_: Any, slot: bytes) -> Any:
        address = int.from_bytes(slot, "little")
        there = [each() for each in SimulatedTensor.live.get(address, ())]
        pointed = re.search(r"ptr<\w*?(\d+)", str(type_))
        if pointed is None or not any(each is not None for each in there):
            return super()._value(type_, slot)
        size = max(8, int(pointed[1])) // 8
        fitting = [each for each in there if each is not None and each.element_size() == size]
        return TensorRegion(memory_of(max(fitting, key=lambda each: each.numel()).memory))

    def _pointed(self, address: int) -> TensorRegion | RuntimeMemory:
        for own in reversed(self.allocations):
            if own.data_ptr() <= address < own.data_ptr() + own.bytes.size:
                if address not in self.spaces:
                    self.spaces[address] = RuntimeMemory("own", own.data_ptr() + own.bytes.size - address)
                return self.spaces[address]
        raise LookupError(f"there is no memory at {address:#x}")


class SimulatedGpu(Gpu):
    is_simulated = True

    def __init__(self, records: Path):
        super().__init__(records)
        os.environ["XDG_DATA_HOME"] = os.devnull
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        torch.manual_seed(0)
        set_default_session(CompilerSession(patience=PATIENCE))
        self.driver = SimulatedDriver()
        patches = pytest.MonkeyPatch()
        self.found = use(patches, self.driver)
        nothing: Callable[..., None] = lambda *given: None  # noqa: E731
        for name, value in {
            "synchronize": nothing, "current_stream": nothing,
            "is_current_stream_capturing": self.driver.is_capturing,
        }.items():  # fmt: skip
            patches.setattr(torch.cuda, name, value)
        OnSimulated().__enter__()

    def device(self) -> dict[str, Any]:
        found = self.found
        return {
            "device": f"simulated {found.target.name}", "architecture": found.architecture,
            "memory": found.target.memory, "multiprocessors": found.limits.multiprocessors, "like": found.target.key,
            "driver": "none", "runtime": "none", "limits": asdict(found.limits),
        }  # fmt: skip

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        return SimulatedTensor(tensor.clone())

    def plain(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.memory if isinstance(tensor, OnGpu) else tensor

    def synchronize(self) -> None:
        """Nothing runs later than it is started."""

    def works(self) -> bool:
        return True

    def release(self) -> None:
        """Nothing is spared."""

    @contextmanager
    def stream(self) -> Iterator[None]:
        before, self.driver.current_stream = self.driver.current_stream, self.driver.current_stream + 16
        try:
            yield
        finally:
            self.driver.current_stream = before

    def captured(self, run: Run) -> Run:
        driver, kept, tensors = self.driver, [], []
        driver.kept, driver.captures, SimulatedTensor.captured = kept, True, tensors
        try:
            run()
        finally:
            driver.captures, SimulatedTensor.captured = False, None

        def replay(made: list[SimulatedTensor] = tensors) -> None:
            for each in kept:
                each()

        return replay

    def microseconds(self, run: Run) -> float:
        begun = time.perf_counter()
        run()
        return 1e6 * (time.perf_counter() - begun)
