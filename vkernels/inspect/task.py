"""A task: a kernel for certain sizes, dtypes and constants. Plain data, so that it can go to workers and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from vkernels.compiler.protocols import Constant, ParameterLike, Signature, size_name
from vkernels.ir.errors import ArgumentError, FileError, OptionError

from .cases import KernelSource
from .kernel_files import is_vk_kernel, kernel_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vkernels.language.kernel import Kernel

MAX_TEXT = 4096
"""Characters of a text, at most."""
MAX_NAMES = 200
"""Entries of a mapping, at most."""


@dataclass(frozen=True)
class Task:
    """`kernel`: where the kernel is, MODULE:NAME or FILE.py:NAME. `shape`: sizes by name; `dtypes`: of each tensor, as
    torch names them; `constants`: values of those that do not have their defaults."""

    kernel: str
    shape: Mapping[str, int]
    dtypes: Mapping[str, str]
    constants: Mapping[str, Constant] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.kernel, *(tuple(sorted(m.items(), key=str)) for m in (self.shape, self.dtypes))))

    def __str__(self) -> str:
        """For people: `softmax_rows M=4096 N=1024 float32`."""
        sizes = " ".join(f"{name}={size}" for name, size in self.shape.items())
        constants = " ".join(f"{name}={value}" for name, value in self.constants.items())
        return " ".join(part for part in (self.name, sizes, self.dtype, constants) if part)

    @property
    def source(self) -> KernelSource:
        """The kernel's name, and the module or file that it is in."""
        where, _, name = self.kernel.rpartition(":")
        return KernelSource(name, file=where) if where.endswith(".py") else KernelSource(name, where)

    @property
    def name(self) -> str:
        """The kernel's name for people and databases: NAME of a module's, FILE.py:NAME of a file's."""
        return self.source.shown

    @property
    def dtype(self) -> str:
        """What to call the dtypes: the first tensor of floats', or the first's."""
        names = list(self.dtypes.values())
        return next((name for name in names if "float" in name), names[0] if names else "")

    def to_json(self) -> dict[str, Any]:
        """The task as results show it."""
        return {**self.to_request(), "kernel": self.name}

    def to_request(self) -> dict[str, Any]:
        """The task as `task_from_json` reads it."""
        return {
            "kernel": self.kernel, "shape": dict(self.shape), "dtypes": dict(self.dtypes),
            "constants": dict(self.constants),
        }  # fmt: skip


def task_from_json(data: object, where: str = "the task") -> Task:
    """The task that `to_request` wrote. Raises `FileError` that names the wrong field. No file is executed."""
    if not isinstance(data, dict) or not data.keys() <= {"kernel", "shape", "dtypes", "constants"}:
        raise FileError(f"{where}: expected an object of kernel, shape, dtypes and constants")
    kernel = data.get("kernel")
    if not _is_name(kernel):
        raise FileError(f"{where}: kernel: expected a name")
    return Task(
        str(kernel),
        _mapping(data, "shape", where, lambda value: type(value) is int and 0 <= value < 1 << 62, "sizes"),
        _mapping(data, "dtypes", where, _is_name, "names of dtypes"),
        _mapping(data, "constants", where, _is_constant, "numbers, texts, booleans or null"),
    )


def kernel_of(task: Task) -> Kernel:
    """The kernel of a task: its module is imported, its file executed.

    Raises `OptionError` for a kernel that does not exist, and `FileError` for a file that does not run.
    """
    return _kernel_of(task.source)


def signature_of(task: Task, scalars: Mapping[str, bool | int | float]) -> Signature:
    """What the kernel's IR is built for. `scalars`: values, of which the kinds matter."""
    kernel = kernel_of(task)
    kinds = {bool: "i1", int: "i64", float: "f64"}
    constants = {p.name: p.default for p in kernel.parameters if p.kind == "constant"} | dict(task.constants)
    missing = [p.name for p in kernel.parameters if p.kind == "constant" and constants[p.name] is p.MISSING]
    if missing:
        raise ArgumentError(f"{task.name}: the constant {missing[0]} has no default: it must be given")
    return Signature(
        tuple((p.name, task.dtypes[p.name]) for p in kernel.parameters if p.kind == "tensor"),
        tuple((p.name, kinds[type(scalars[p.name])]) for p in kernel.parameters if p.kind == "scalar"),
        tuple((p.name, constants[p.name]) for p in kernel.parameters if p.kind == "constant"),
    )


def sizes_of(parameters: Sequence[ParameterLike]) -> tuple[str, ...]:
    """The names of all sizes of tensors, those that the author left unnamed too."""
    named = (size_name(p.name, number, declared) for p in parameters for number, declared in enumerate(p.dimensions))
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))


def shape_of(task: Task, parameter: ParameterLike) -> tuple[int, ...]:
    """A tensor's shape. Raises `ArgumentError` for a size that the task does not give."""
    names = [size_name(parameter.name, number, declared) for number, declared in enumerate(parameter.dimensions)]
    missing = [name for name in names if isinstance(name, str) and name not in task.shape]
    if missing:
        raise ArgumentError(f"{task.name}: the size {missing[0]} is not given")
    return tuple(task.shape[name] if isinstance(name, str) else name for name in names)


def strides_of(task: Task) -> dict[str, tuple[int, ...]]:
    """Strides of all tensors, in elements."""
    kernel = kernel_of(task)
    return {
        parameter.name: _strides(shape_of(task, parameter), memory_order(kernel, parameter))
        for parameter in kernel.parameters
        if parameter.kind == "tensor"
    }


def memory_order(kernel: Kernel, parameter: ParameterLike) -> tuple[int, ...]:
    """A tensor's dimensions from the slowest to the fastest in memory."""
    layout = kernel.samples.layout.get(parameter.name)
    names = list(parameter.dimensions)
    if layout is None or sorted(layout.split()) != sorted(map(str, names)):
        return tuple(range(len(names)))
    return tuple(names.index(name) for name in layout.split())


def _strides(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    strides, reach = [0] * len(shape), 1
    for dimension in reversed(order):
        strides[dimension] = reach
        reach *= shape[dimension]
    return tuple(strides)


@cache
def _kernel_of(source: KernelSource) -> Kernel:
    if not source.file and not source.module:
        raise OptionError(f"there is no kernel {source.name!r}; expected MODULE:KERNEL or FILE.py:KERNEL")
    found = kernel_at(source)
    if not is_vk_kernel(found):
        raise OptionError(
            f"{source.shown} is a plain Triton kernel: its configurations are its author's, and not planned"
        )
    kernel: Kernel = found
    return kernel


def _mapping(data: Mapping[str, Any], name: str, where: str, is_right: Any, expected: str) -> dict[str, Any]:
    found = data.get(name, {})
    if not isinstance(found, dict) or len(found) > MAX_NAMES or not all(map(_is_name, found)):
        raise FileError(f"{where}: {name}: expected an object of at most {MAX_NAMES} names")
    wrong = next((key for key, value in found.items() if not is_right(value)), None)
    if wrong is not None:
        raise FileError(f"{where}: {name}: {wrong[:60]}: expected {expected}")
    return dict(found)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable()


def _is_constant(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, str):
        return len(value) <= MAX_TEXT and value.isprintable()
    return value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 62)
