"""A task: a kernel with sizes, dtypes and constants. It is plain data, for worker processes and files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePath
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, structs

from vkernels.compiler.arguments import dense_strides
from vkernels.compiler.protocols import Constant, ParameterLike, Signature, size_name
from vkernels.ir.errors import ArgumentError, FileError, OptionError
from vkernels.language.kernel import Kernel

from .cases import KernelSource, is_vk_kernel, kernel_at

MAX_TEXT, MAX_NAMES = 4096, 200
"""Characters of a text, and entries of a mapping, at most."""


Name = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
JsonConstant = (
    bool
    | Annotated[int, Meta(gt=-(1 << 62), lt=1 << 62)]
    | Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
    | Annotated[str, Meta(max_length=MAX_TEXT)]
    | None
)


@dataclass(frozen=True)
class Task:
    """A kernel with sizes, dtypes and constants.

    `kernel`: MODULE:NAME or FILE.py:NAME. `shape`: sizes by name; `dtypes`: torch's dtype of each tensor; `constants`:
    values that differ from the defaults.
    """

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
        """The kernel's name, and its module or file."""
        where, _, name = self.kernel.rpartition(":")
        return KernelSource(name, file=where) if where.endswith(".py") else KernelSource(name, where)

    @property
    def name(self) -> str:
        """The kernel's name for people: NAME, or FILE.py:NAME."""
        return self.source.shown

    @property
    def stored_name(self) -> str:
        """The name in databases: NAME, or FILE.py:NAME without the file's folder, however its path is spelt."""
        source = self.source
        return f"{PurePath(source.file).name}:{source.name}" if source.file else source.name

    @property
    def dtype(self) -> str:
        """The dtype of the first tensor of floats, or else of the first tensor."""
        names = list(self.dtypes.values())
        return next((name for name in names if "float" in name), names[0] if names else "")

    def to_json(self) -> dict[str, Any]:
        """The task in results."""
        return {**self.to_request(), "kernel": self.name}

    def to_request(self) -> dict[str, Any]:
        """The task as `task_from_json` reads it."""
        return {
            "kernel": self.kernel, "shape": dict(self.shape), "dtypes": dict(self.dtypes),
            "constants": dict(self.constants),
        }  # fmt: skip


class _TaskRecord(Struct, forbid_unknown_fields=True):
    kernel: Name
    shape: Annotated[dict[Name, Annotated[int, Meta(ge=0, lt=1 << 62)]], Meta(max_length=MAX_NAMES)] = {}
    dtypes: Annotated[dict[Name, Name], Meta(max_length=MAX_NAMES)] = {}
    constants: Annotated[dict[Name, JsonConstant], Meta(max_length=MAX_NAMES)] = {}


def task_from_json(data: object, where: str = "the task") -> Task:
    """Inverse of `to_request`. Raises `FileError` with the invalid field. No file is executed."""
    try:
        task = Task(**structs.asdict(convert(data, _TaskRecord)))
    except ValidationError as error:
        raise FileError(f"{where}: {error}") from None
    texts = [task.kernel, *task.shape, *task.dtypes, *task.dtypes.values(), *task.constants, *task.constants.values()]
    if not all(text.isprintable() for text in texts if isinstance(text, str)):
        raise FileError(f"{where}: expected printable text")
    return task


def kernel_of(task: Task) -> Kernel:
    """The kernel of a task: its module is imported, its file executed.

    Raises `OptionError` for a kernel that does not exist, and `FileError` for a file that does not run.
    """
    return _kernel_of(task.source)


def signature_of(task: Task, scalars: Mapping[str, bool | int | float]) -> Signature:
    """The signature that the kernel's IR is built for. `scalars`: only the types of the values matter."""
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
    """The names of all tensor sizes, including those that the author left unnamed."""
    named = (size_name(p.name, number, declared) for p in parameters for number, declared in enumerate(p.dimensions))
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))


def shape_of(task: Task, parameter: ParameterLike) -> tuple[int, ...]:
    """A tensor's shape. Raises `ArgumentError` for a missing size."""
    names = [size_name(parameter.name, number, declared) for number, declared in enumerate(parameter.dimensions)]
    missing = [name for name in names if isinstance(name, str) and name not in task.shape]
    if missing:
        raise ArgumentError(f"{task.name}: the size {missing[0]} is not given")
    return tuple(task.shape[name] if isinstance(name, str) else name for name in names)


def strides_of(task: Task) -> dict[str, tuple[int, ...]]:
    """Strides of all tensors in elements."""
    kernel = kernel_of(task)
    return {
        parameter.name: dense_strides(shape_of(task, parameter), memory_order(kernel, parameter))
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
