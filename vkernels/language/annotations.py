"""Annotations of kernel parameters: jaxtyping's on `vk.Tensor`, `vk.Scalar`, `vk.Constant`, and tunable constants."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

from vkernels.compiler.protocols import bytes_name, size_name
from vkernels.ir.errors import OptionError, UnsupportedError
from vkernels.ir.numpy_numbers import as_python

from .dtypes import DTYPES, DType, complex64, complex128, int8, uint8
from .values import Tensor, Tile

Value = bool | int | float | str | None


@dataclass(frozen=True)
class Tunable:
    """`values`: the candidates; a call without tuning takes the first. `where`: a condition on them."""

    values: tuple[Value, ...]
    where: Callable[..., bool] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the constants and sizes that `where` takes."""
        return () if self.where is None else tuple(inspect.signature(self.where).parameters)

    def holds(self, known: Mapping[str, Any]) -> bool:
        """Whether `where` holds for constants and sizes by name. Raises what it raises, and `KeyError` for a missing
        name."""
        return self.where is None or bool(self.where(**{name: known[name] for name in self.names}))


def tunable(*values: Value, where: Callable[..., bool] | None = None) -> Tunable:
    """The default of a constant parameter that tuning may choose: `block: vk.Constant = vk.tunable(32, 16, 64)`.

    A call takes the first value unless it passes one. `where` rules out values: a function of constants and sizes by
    name, `where=lambda block, N: block <= N`. Raises `OptionError` for no values, repeated values, and values that no
    constant can have.
    """
    if not values:
        raise OptionError("vk.tunable: expected the values that the constant may have")
    for value in values:
        if not (value is None or isinstance(value, bool | int | float | str)) or (
            isinstance(value, float) and isnan(value)
        ):
            raise OptionError(f"vk.tunable: expected numbers, texts, booleans or None, got {value!r}")
    if len(set(values)) < len(values):
        raise OptionError(f"vk.tunable: a value is repeated among {', '.join(map(repr, values))}")
    if where is not None and not callable(where):
        raise OptionError(f"vk.tunable: where: expected a function of constants and sizes, got {where!r}")
    return Tunable(values, where)


# A parameter is one thing in the kernel and another in a call: type checkers take either, so that `s: vk.Scalar = 1.0`
# and calls with numbers pass.
if TYPE_CHECKING:
    Constant = Any
    """A parameter whose value is known while the kernel is built: a number, a string, None or a dtype."""
    Scalar = Any
    """A scalar parameter: float, int or bool; weak, as Python numbers are."""
else:

    class Constant:
        """A parameter whose value is known while the kernel is built: a number, a string, None or a dtype."""

    class Scalar(Tile):
        """A scalar parameter: float, int or bool; weak, as Python numbers are."""


SCALARS: dict[Any, tuple[str, ...]] = {
    Scalar: ("f64", "i64", "i1"),
    float: ("f64",),
    int: ("i64",),
    bool: ("i1",),
}
"""Annotations of scalars, and the types that each allows."""


@dataclass(frozen=True)
class Packed:
    """Integers of 4 bits, two in a byte along the last dimension, the first in its lower half.

    `dtype`: int8 or uint8, the values' dtype once loaded. `extent`: how many there are; the dimension counts bytes.
    """

    dtype: DType
    extent: str | int


PACKED: dict[tuple[str, ...], DType] = {("int4",): int8, ("uint4",): uint8}
"""The dtypes that annotations of packed tensors name, `Int4` and `UInt4`, and that of their values."""

COMPLEX: dict[str, DType] = {dtype.name: dtype for dtype in (complex64, complex128)}
"""The dtypes that annotations of complex tensors name: `Complex64`, `Complex128`, and `Complex`, which is both."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    `kind`: "tensor", "scalar" or "constant". `dimensions`: a tensor's sizes, as names or numbers, `_` for unnamed ones.
    `dtypes`: the names of a tensor's allowed dtypes, or a scalar's allowed types (f64, i64, i1). `default`: the default
    of a scalar or constant, `inspect.Parameter.empty` if it is required. `tunable`: the candidates of a constant that
    tuning may choose. `packed`: what the bytes of a tensor of `Int4` or `UInt4` hold. `is_complex`:
    whether a tensor is of complex numbers; its dtypes are those of their parts, which its last dimension of 2 counts.
    """

    MISSING: ClassVar[Any] = inspect.Parameter.empty

    name: str
    kind: str
    dimensions: tuple[str | int, ...] = ()
    dtypes: tuple[str, ...] = ()
    default: Any = inspect.Parameter.empty
    tunable: Tunable | None = None
    packed: Packed | None = None
    is_complex: bool = False


def parse_parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a function. Raises `UnsupportedError` for parameters that kernels cannot have."""
    annotations = _annotations(function)
    parameters: list[Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise _mistake(function, parameter.name, "kernels take no `*` parameters")
        if parameter.name not in annotations:
            if parameter.name in ("self", "cls") and not parameters:
                raise _mistake(function, parameter.name, "a kernel is no method", _METHOD)
            raise _mistake(function, parameter.name, "it has no annotation")
        default = as_python(parameter.default)
        parameters.append(_parse(function, parameter.name, annotations[parameter.name], default))
    return tuple(parameters)


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells: dict[str, Any] = {}
    for name, cell in closure.items():
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # not assigned yet, so not used by an annotation
            continue
    try:
        return inspect.get_annotations(function, locals=cells, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise _mistake(function, None, f"an annotation cannot be evaluated: {error}") from None


def _parse(function: Callable[..., Any], name: str, annotation: Any, default: Any) -> Parameter:
    if annotation is Constant or annotation is Any:
        if isinstance(default, Tunable):
            return Parameter(name, "constant", default=default.values[0], tunable=default)
        return Parameter(name, "constant", default=default)
    if isinstance(default, Tunable):
        raise _mistake(function, name, "only a `vk.Constant` is tunable")
    if annotation in SCALARS:
        return Parameter(name, "scalar", dtypes=SCALARS[annotation], default=default)
    if getattr(annotation, "array_type", None) is Tensor:
        dimensions = tuple(_dimension(function, name, d) for d in annotation.dims)
        if (dtype := PACKED.get(annotation.dtypes if isinstance(annotation.dtypes, tuple) else ())) is not None:
            return _packed(function, name, dimensions, dtype, default)
        names = annotation.dtypes if isinstance(annotation.dtypes, tuple) else ()
        if names and {*names} <= {*COMPLEX}:
            parts = tuple(COMPLEX[each].part.name for each in names)
            return Parameter(name, "tensor", (*dimensions, 2), parts, default, is_complex=True)
        return Parameter(name, "tensor", dimensions, _dtypes(function, name, annotation.dtypes), default)
    if annotation is Tensor:
        raise _mistake(function, name, "its annotation names neither dtype nor sizes")
    if hasattr(annotation, "array_type") and hasattr(annotation, "dim_str"):
        dtype = annotation.__name__.partition("[")[0]
        help = f'Kernels name no library of arrays: `{name}: {dtype}[vk.Tensor, "{annotation.dim_str}"]`.'
        raise _mistake(function, name, f"its annotation is `{annotation.__name__}`", help)
    raise _mistake(function, name, f"its annotation is {annotation!r}")


def _packed(
    function: Callable[..., Any], name: str, dimensions: tuple[str | int, ...], dtype: DType, default: Any
) -> Parameter:
    if not dimensions:
        raise _mistake(function, name, "it has no dimension to hold two values in a byte")
    number = len(dimensions) - 1
    extent = size_name(name, number, dimensions[-1])
    held = (extent + 1) // 2 if isinstance(extent, int) else bytes_name(extent)
    return Parameter(name, "tensor", (*dimensions[:-1], held), ("uint8",), default, packed=Packed(dtype, extent))


def _dimension(function: Callable[..., Any], name: str, dimension: Any) -> str | int:
    kind = type(dimension).__name__
    if getattr(dimension, "broadcastable", False):
        raise _mistake(function, name, "`#` sizes do not broadcast in kernels")
    if kind == "_AnonymousDim":
        return "_"
    if kind == "_FixedDim":
        return int(dimension.size)
    if kind == "_NamedDim":
        return str(dimension.name)
    raise _mistake(function, name, "its number of dimensions or a size is not plain (`*`, `...` or a sum)")


def _dtypes(function: Callable[..., Any], name: str, names: Any) -> tuple[str, ...]:
    if not isinstance(names, Sequence):
        return tuple(DTYPES)  # Shaped: any
    known = tuple(dtype for dtype in names if dtype in DTYPES)
    if not known:
        raise _mistake(function, name, f"kernels have no {', '.join(names)}")
    return known


_DECLARE = (
    'Declare it as a tensor, `x: Float[vk.Tensor, "M N"]` (or Int, Bool, Shaped, Float32, …), as `vk.Scalar`, '
    "or as `vk.Constant`."
)

_METHOD = "Define it outside the class, or write `@staticmethod` above `@vk.kernel`, and pass what it needs."


def _mistake(function: Callable[..., Any], name: str | None, why: str, help: str = _DECLARE) -> UnsupportedError:
    from .source import read_source

    what = f"`{function.__name__}`" if name is None else f"the parameter `{name}` of `{function.__name__}`"
    message = f"{what} cannot be used: {why}"
    try:
        source = read_source(function)
    except UnsupportedError:
        return UnsupportedError(message, help=help)
    arguments = source.definition.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    node = next((a for a in every if a is not None and a.arg == name), source.definition)
    return UnsupportedError(message, source.place(node), help)
