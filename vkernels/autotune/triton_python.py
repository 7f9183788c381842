"""`vk.tune` of plain Triton kernels: for devices that are not here by their binaries, or by measuring on a GPU here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vkernels.compiler.arguments import CPU
from vkernels.compiler.backends.triton_kernels import (
    has_prune,
    jit_configurations,
    jit_function,
    jit_parameters,
)
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.cases import JitSignature, KernelSource
from vkernels.inspect.check.check import triton_version
from vkernels.inspect.worker_client import InspectPool
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import ArgumentError, OptionError

from .arguments import is_array
from .asked_task import place_of_kernel
from .drive import Stop
from .expressions import Expression
from .result import MEASURED
from .slice_names import is_here, place_of, target_of, whole_device
from .triton_bounds import BoundTools, StaticBounds, TritonTask, compile_seconds
from .triton_configs import ConfigSpace, around, block_names, grid_from, listed
from .triton_online import compiled_ahead, launch_inputs, measured_launch
from .triton_tuning import TritonTrial, TritonTuned, tune_triton, with_usual

TYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "i1",
}  # fmt: skip
"""Triton's names of element types, by torch's."""
ALIGNED = 16
PRUNE = "the prune function of its autotune needs the arguments of a launch, so it was not applied"


@dataclass(frozen=True)
class PlainLaunch:
    """A plain Triton kernel and the arguments of a launch, by name. `grid`: of constants and integers among them."""

    kernel: Any
    arguments: Mapping[str, Any]
    grid: Expression

    @staticmethod
    def of(kernel: Any, inputs: Any, grid: str | None) -> PlainLaunch:
        """Check the arguments of `vk.tune`. Raises `OptionError` without a grid, and `ArgumentError` for arguments that
        do not fit."""
        if grid is None:
            raise OptionError(
                "tune: a plain Triton kernel needs its grid, as grid='cdiv(M, BLOCK_M), cdiv(N, BLOCK_N)'"
            )
        names = [parameter.name for parameter in jit_parameters(kernel)]
        return PlainLaunch(kernel, launch_inputs(names, inputs, "inputs"), grid_from(grid, "grid"))

    @property
    def device(self) -> str:
        """Where the tensors are: `cpu`, or a GPU by its number."""
        tensors = [value for value in self.arguments.values() if is_array(value)]
        devices = dict.fromkeys(str(getattr(value, "device", "cpu")) for value in tensors)
        return next(iter(devices), "cpu")

    def source(self) -> KernelSource:
        """Where other processes find the kernel. Raises `FileError` for one in no file."""
        function = jit_function(self.kernel)
        where, _, name = place_of_kernel(function.__code__.co_filename, function.__name__).rpartition(":")
        return KernelSource(name, file=where) if where.endswith(".py") else KernelSource(name, where)

    def space(self) -> ConfigSpace:
        """The configurations of the autotune list, or block sizes around those among the arguments.

        Raises `OptionError` if there is nothing to try.
        """
        found = jit_configurations(self.kernel)
        if len(found) > 1:
            return listed([with_usual(asdict(each), {}) for each in found])
        constants = {p.name: self.arguments[p.name] for p in self._given() if p.constant}
        first = with_usual(asdict(found[0]), constants)
        return around(first, block_names(first, self.grid))

    def signature(self, configured: Mapping[str, Any]) -> JitSignature:
        """The types of the arguments. `configured`: constants that the configurations give. Raises `ArgumentError`."""
        types, constants, divisible = [], {}, []
        for parameter in self._given():
            name, value = parameter.name, self.arguments[parameter.name]
            if parameter.constant or value is None:
                constants[name] = value
                continue
            kind, is_divisible = _type_of(name, value)
            if value is not True and not is_array(value) and value == 1 and isinstance(value, int):
                constants[name] = 1  # Triton specialises on it
                continue
            types.append((name, kind))
            divisible += [name] if is_divisible else []
        missing = [p.name for p in jit_parameters(self.kernel) if p.name not in {**self.arguments, **configured}]
        if missing:
            raise ArgumentError(f"inputs: {missing[0]} is missing")
        return JitSignature(tuple(types), tuple({**constants, **configured}.items()), tuple(divisible))

    @property
    def numbers(self) -> dict[str, int]:
        """The integers among the arguments, by name."""
        return {n: v for n, v in self.arguments.items() if isinstance(v, int) and not isinstance(v, bool)}

    def _given(self) -> list[Any]:
        return [parameter for parameter in jit_parameters(self.kernel) if parameter.name in self.arguments]


def tune_plain_kernel(
    kernel: Any, inputs: Any, grid: str | None, slices: Sequence[str] | None, stop: Stop, seed: int,
    on_trial: Callable[[Any], object] | None,
) -> TritonTuned | dict[str, TritonTuned]:  # fmt: skip
    """`vk.tune` of a plain Triton kernel. Raises `OptionError` for options that are missing or do not fit."""
    launch = PlainLaunch.of(kernel, inputs, grid)
    if slices is None and launch.device == CPU:
        raise OptionError("tune: a plain Triton kernel runs on GPUs: pass tensors of one, or slices=['h100-sxm5-80']")
    if isinstance(slices, str) or (slices is not None and not slices):
        raise OptionError(f"slices: expected a list of devices and slices, as ['h100-sxm5-80'], got {slices!r}")
    names = [launch.device] if slices is None else list(dict.fromkeys(slices))
    for name in names:
        if whole_device(name) == CPU or (not is_here(name) and target_of(name).vendor == CPU):
            raise OptionError(f"slices: a plain Triton kernel runs on GPUs, not on {name}")
        if is_here(name) and launch.device == CPU:
            raise OptionError(f"inputs: {name} is measured with tensors on it; these are on the CPU")
    found = tune_plain(launch, names, stop, seed, on_trial or (lambda trial: None))
    return found if slices is not None else next(iter(found.values()))


def tune_plain(
    launch: PlainLaunch, slices: Sequence[str], stop: Stop, seed: int, on_trial: Callable[[TritonTrial], object]
) -> dict[str, TritonTuned]:  # fmt: skip
    """Tune a plain Triton kernel for each device or slice, by name. Raises what is wrong with kernel and arguments."""
    triton_version()
    source, space = launch.source(), launch.space()
    configured = space.configs[space.given].constants
    results: dict[str, TritonTuned] = {}
    with InspectPool() as preparing, CompilePool(seconds=compile_seconds(stop)) as compiling:
        for name in slices:
            if is_here(name):
                measured = measured_launch(launch.kernel, launch.arguments, launch.grid, place_of(name).device)
                task = TritonTask(source, JitSignature(()), launch.numbers, launch.grid)
                with compiled_ahead(measured, source, stop) as ahead:
                    results[name] = tune_triton(
                        task, name, space, measured.seconds, stop, seed=seed, ranked_by=MEASURED, ahead=ahead,
                        compare=measured.compared, on_trial=on_trial,
                    )  # fmt: skip
            else:
                task = TritonTask(source, launch.signature(configured), launch.numbers, launch.grid)
                tools = BoundTools(preparing, compiling, DiskCache())
                with StaticBounds(task, target_of(name), tools, stop) as bounds:
                    results[name] = tune_triton(
                        task, name, space, bounds.seconds, stop, seed=seed, ahead=bounds.ahead, on_trial=on_trial,
                        notes=[PRUNE] if has_prune(launch.kernel) else [],
                    )  # fmt: skip
            if results[name].stopped == "interrupted":
                break
    return results


def _type_of(name: str, value: Any) -> tuple[str, bool]:
    """Triton's type of an argument, and whether it is a multiple of 16."""
    if is_array(value):
        element = str(value.dtype).rpartition(".")[2]
        if element not in TYPES:
            raise ArgumentError(f"inputs: {name} has dtype {element}, which Triton does not have")
        return f"*{TYPES[element]}", _address(value) % ALIGNED == 0
    if isinstance(value, bool):
        return "i1", False
    if isinstance(value, int):
        return ("i32" if -(1 << 31) <= value < 1 << 31 else "i64"), value % ALIGNED == 0
    if isinstance(value, float):
        return "fp32", False
    raise ArgumentError(f"inputs: {name} is {type(value).__name__}; expected a tensor or a number")


def _address(value: Any) -> int:
    return int(value.data_ptr() if hasattr(value, "data_ptr") else value.ctypes.data)
