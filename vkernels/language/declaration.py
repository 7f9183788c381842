"""Kernels and helper functions as authors declare them, and the signatures that kernels are specialised on."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from difflib import get_close_matches
from operator import attrgetter
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Self

from vkernels.compiler.default_dtypes import default_dtype
from vkernels.compiler.protocols import Signature
from vkernels.ir.errors import ArgumentError, UnsupportedError
from vkernels.ir.optional_packages import not_installed

from .annotations import COMPLEX, Parameter, parse_parameters
from .dtypes import DType

if TYPE_CHECKING:
    from .source import FunctionSource


class SourceFunction:
    """A Python function that the front end reads instead of calling it."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)  # type: ignore[arg-type]
        self.name: str = function.__name__
        self.function = function

    @functools.cached_property
    def source(self) -> FunctionSource:
        """The function's source. Raises `UnsupportedError` if Python does not have it."""
        try:
            from .source import read_source
        except ModuleNotFoundError as error:
            raise not_installed(error) from None
        return read_source(self.function)

    def __copy__(self) -> Self:
        """Itself, as Python's functions do."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        """By module and name, as functions are pickled. Raises `PicklingError` where these name something else."""
        if named(self.function) is self:
            return self.function.__qualname__
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        raise PicklingError(
            f"{self.name} is pickled by its name, but {name} is something else or is not found; "
            "define it at the top of a module"
        )


def named(function: Callable[..., Any]) -> object:
    """What a function's module has under its name; None where there is neither."""
    try:
        return attrgetter(function.__qualname__)(importlib.import_module(function.__module__))
    except (ImportError, AttributeError):
        return None


class Function(SourceFunction):
    """A helper function, inlined into kernels; its arguments are tiles, axes, tensors or constants."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise `UnsupportedError`: only kernels call helpers."""
        raise UnsupportedError(f"`{self.name}` is a helper function of kernels; only a kernel calls it")


class DeclaredKernel(SourceFunction):
    """A kernel's declaration: its name, source and parameters. `approximate`: see `Options`."""

    def __init__(self, function: Callable[..., Any], approximate: bool | None = None):
        super().__init__(function)
        self.approximate = approximate
        self.parameters: tuple[Parameter, ...] = parse_parameters(function)

    @functools.cached_property
    def sizes(self) -> tuple[str, ...]:
        """The names of the sizes that the parameters declare, in order."""
        named = (d for p in self.parameters for d in declared_dimensions(p) if isinstance(d, str))
        return tuple(dict.fromkeys(name for name in named if not name.startswith("_")))


def declared_dimensions(parameter: Parameter) -> tuple[str | int, ...]:
    """The dimensions of a tensor as its author counts them: in values where bytes hold two."""
    packed = parameter.packed
    return parameter.dimensions if packed is None else (*parameter.dimensions[:-1], packed.extent)


_KINDS = {float: "f64", int: "i64", bool: "i1"}


def make_signature(kernel: DeclaredKernel, given: dict[str, Any]) -> Signature:
    """Make a signature from a dtype or its name for each tensor, a type or f64, i64 or i1 for each scalar, and a value
    for each constant."""
    names = [parameter.name for parameter in kernel.parameters]
    for name in given:
        if name not in names:
            close = get_close_matches(name, names, 1)
            meant = f" Did you mean `{close[0]}`?" if close else ""
            raise ArgumentError(f"{kernel.name} has no parameter `{name}`.{meant}")
    by_kind: dict[str, list[tuple[str, Any]]] = {"tensor": [], "scalar": [], "constant": []}
    for parameter in kernel.parameters:
        if parameter.name in given:
            value = given[parameter.name]
            value = value.name if isinstance(value, DType) and parameter.kind == "tensor" else value
            value = COMPLEX[value].part.name if parameter.is_complex and value in COMPLEX else value
            value = _KINDS.get(value, value) if isinstance(value, type) and parameter.kind == "scalar" else value
            by_kind[parameter.kind].append((parameter.name, value))
        elif parameter.kind == "scalar" and parameter.default is not parameter.MISSING:
            by_kind["scalar"].append((parameter.name, _KINDS[type(parameter.default)]))
        elif parameter.kind == "constant" and parameter.default is not parameter.MISSING:
            by_kind["constant"].append((parameter.name, parameter.default))
    return Signature(tuple(by_kind["tensor"]), tuple(by_kind["scalar"]), tuple(by_kind["constant"]))


def with_dtype(kernel: DeclaredKernel, dtype: DType | str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Add `dtype` for all other tensors that support it, and the default dtype for the rest.

    Raises `ArgumentError` for a dtype that no tensor supports.
    """
    name = dtype.name if isinstance(dtype, DType) else dtype
    tensors = [parameter for parameter in kernel.parameters if parameter.kind == "tensor"]
    if name is not None and not any(name in tensor.dtypes for tensor in tensors):
        by_dtypes: dict[str, list[str]] = {}
        for tensor in tensors:
            by_dtypes.setdefault(", ".join(tensor.dtypes), []).append(tensor.name)
        takes = "; ".join(
            f"{', '.join(names)} {'takes' if len(names) == 1 else 'take'} {dtypes}"
            for dtypes, names in by_dtypes.items()
        )
        raise ArgumentError(f"{kernel.name}: no tensor supports {name!r}: {takes}")
    found = {}
    for tensor in tensors:
        found[tensor.name] = default_dtype(tensor.dtypes, name)
    return {**found, **given}
