"""What is tuned: a kernel for certain sizes, dtypes and constants. Plain data, so that workers and files take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import ArgumentError, FileError, OptionError
from vkernels.ir.nearest import meant
from vkernels.runtime.protocols import Constant, Signature, size_name

if TYPE_CHECKING:
    from vkernels.language.kernel import Kernel

CATALOGUE, RECIPES = "vkernels.library.catalogue", "vkernels.library.recipes"
"""Where the library says which kernels it has and what they are called with: asked by name, for the tuner knows no
library."""
LONGEST = 4096
"""Characters of a text, at most."""
MOST = 200
"""Entries of a mapping, at most."""


@dataclass(frozen=True)
class Task:
    """`kernel`: a library kernel's name, or FILE.py:NAME. `shape`: sizes by name; `dtypes`: of each tensor, as torch
    names them; `constants`: values of those that have not their defaults."""

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
        return " ".join(part for part in (self.kernel, sizes, self.dtype, constants) if part)

    @property
    def dtype(self) -> str:
        """What to call the dtypes: the first tensor of floats', or the first's."""
        names = list(self.dtypes.values())
        return next((name for name in names if "float" in name), names[0] if names else "")

    def to_json(self) -> dict[str, Any]:
        """As what JSON can hold."""
        return {
            "kernel": self.kernel, "shape": dict(self.shape), "dtypes": dict(self.dtypes),
            "constants": dict(self.constants),
        }  # fmt: skip


def task_from_json(data: object, where: str = "the task") -> Task:
    """The task that `to_json` took apart. Raises `FileError` that names what is odd. No file is executed."""
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
    """The kernel of a task; a file is executed to get it.

    Raises `OptionError` for a name that there is not, and `FileError` for a file that does not run.
    """
    return _kernel_named(task.kernel)


def signature_of(task: Task, scalars: Mapping[str, bool | int | float]) -> Signature:
    """What the kernel's IR is built for. `scalars`: values, of which the kinds matter."""
    kernel = kernel_of(task)
    kinds = {bool: "i1", int: "i64", float: "f64"}
    constants = {p.name: p.default for p in kernel.parameters if p.kind == "constant"} | dict(task.constants)
    missing = [name for name, value in constants.items() if value is _missing()]
    if missing:
        raise ArgumentError(f"{task.kernel}: the constant {missing[0]} has no default: it must be given")
    return Signature(
        tuple((p.name, task.dtypes[p.name]) for p in kernel.parameters if p.kind == "tensor"),
        tuple((p.name, kinds[type(scalars[p.name])]) for p in kernel.parameters if p.kind == "scalar"),
        tuple((p.name, constants[p.name]) for p in kernel.parameters if p.kind == "constant"),
    )


def sizes_of(kernel: Kernel) -> tuple[str, ...]:
    """The names of all sizes of a kernel's tensors, those that its author left unnamed too."""
    named = (
        size_name(p.name, number, declared) for p in kernel.parameters for number, declared in enumerate(p.dimensions)
    )
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))


def is_in_file(kernel: str) -> bool:
    """Whether a kernel is named as FILE.py:NAME."""
    return ".py:" in kernel


@cache
def _kernel_named(name: str) -> Kernel:
    from vkernels.runtime.checking.cases import Source
    from vkernels.runtime.checking.files import is_vk_kernel, kernel_at

    if is_in_file(name):
        path, _, inside = name.rpartition(":")
        source = Source(inside, file=path)
    else:
        catalogue = import_module(CATALOGUE)
        entry = next((entry for entry in catalogue.CATALOGUE if entry.name == name), None)
        if entry is None:
            known = [entry.name for entry in catalogue.CATALOGUE]
            raise OptionError(f"there is no kernel {name!r}; {meant(name, known)} One's own are FILE.py:NAME.")
        source = Source(entry.name, entry.module)
    found = kernel_at(source)
    if not is_vk_kernel(found):
        raise OptionError(f"{name} is a plain Triton kernel: its configurations are its author's, and not planned")
    kernel: Kernel = found
    return kernel


def _missing() -> Any:
    from inspect import Parameter

    return Parameter.empty


def _mapping(data: Mapping[str, Any], name: str, where: str, is_right: Any, expected: str) -> dict[str, Any]:
    found = data.get(name, {})
    if not isinstance(found, dict) or len(found) > MOST or not all(map(_is_name, found)):
        raise FileError(f"{where}: {name}: expected an object of at most {MOST} names")
    wrong = next((key for key, value in found.items() if not is_right(value)), None)
    if wrong is not None:
        raise FileError(f"{where}: {name}: {wrong[:60]}: expected {expected}")
    return dict(found)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable()


def _is_constant(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, str):
        return len(value) <= LONGEST and value.isprintable()
    return value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 62)
