"""Values of names in a kernel: tensors, tiles, axes, scratchpads, index expressions.

The front end creates them. Operations take and return them. Python's operators on them build IR, so operations can be
written in terms of others. They exist only while a kernel is built; in annotations, `vk.Tensor`, `vk.Tile` and
`vk.Axis` inform type checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from vkernels.ir.errors import ArgumentError

from .dtypes import DType, complex64, complex128, float64, int64
from .operation import current

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

Extent = str | int | None
"""The length of an axis or dimension at build time: the name of a size, a number, or None if unknown."""

Number = bool | int | float
"""A Python number in a kernel. It is weak: it takes the dtype of the other operand."""

Operator = Callable[[Any, Any], Any]


def _operators(name: str) -> tuple[Operator, Operator]:
    """An operator's methods for the left operand and, reflected, for the right one."""
    return (
        lambda left, right: current().binary(name, left, right),
        lambda right, left: current().binary(name, left, right),
    )


def _comparison(name: str) -> Operator:
    return lambda left, right: current().compare(name, left, right)


class Operand:
    """Python's operators inside a kernel: each builds IR."""

    __slots__ = ()

    __add__, __radd__ = _operators("+")
    __sub__, __rsub__ = _operators("-")
    __mul__, __rmul__ = _operators("*")
    __truediv__, __rtruediv__ = _operators("/")
    __floordiv__, __rfloordiv__ = _operators("//")
    __mod__, __rmod__ = _operators("%")
    __pow__, __rpow__ = _operators("**")
    __and__, __rand__ = _operators("&")
    __or__, __ror__ = _operators("|")
    __xor__, __rxor__ = _operators("^")
    __lshift__, __rlshift__ = _operators("<<")
    __rshift__, __rrshift__ = _operators(">>")
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")

    def __neg__(self) -> Any:
        return current().unary("-", self)

    def __invert__(self) -> Any:
        return current().unary("~", self)

    def to(self, dtype: DType) -> Any:
        """The same values in another dtype.

        Conversion to f16, bf16 and f8 rounds to nearest. Float to integer rounds towards zero and saturates; NaN gives
        0. Integer to integer keeps the low bits.
        """
        return current().cast(self, dtype)

    if TYPE_CHECKING:  # the front end reads `==` and `!=` in kernels; in Python they compare identities

        def __eq__(self, other: Any) -> Any: ...

        def __ne__(self, other: Any) -> Any: ...

        def __hash__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Axis(Operand):
    """A named dimension of the iteration space: `kind` is "tile" (split over programs) or "whole" (held at once).

    As an index it runs over its positions, 0 up to its extent; in arithmetic it is those positions, int64.
    """

    name: str
    kind: str
    extent: Extent
    size: Tile
    """The number of positions along the axis, as a value."""

    dtype: ClassVar[DType] = int64
    """Of its positions."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Tile(Operand):
    """A value with axes; without axes it is a scalar. `dtype` decides promotion; f16 and bf16 are held in f32.

    `weak`: a Python number, or computed from Python numbers only. `size`: the name of the size that it equals.
    `covers`: the extent of a loop variable, whose values are 0 to `covers` - 1.
    """

    ssa: SSAValue
    dtype: DType
    axes: tuple[Axis, ...] = ()
    weak: bool = False
    size: str | None = None
    covers: Extent = None

    @property
    def names(self) -> tuple[str, ...]:
        """The axes' names, in order."""
        return tuple(axis.name for axis in self.axes)


@dataclass(frozen=True, eq=False)
class ComplexTile(Operand):
    """A complex value as two real ones: tiles, or numbers that are known while building.

    A part lacks axes along which it is the same.
    """

    real: Any
    imag: Any

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes of both parts."""
        return tuple(dict.fromkeys(axis for part in self.parts if isinstance(part, Tile) for axis in part.axes))

    @property
    def dtype(self) -> DType:
        strong = [part.dtype for part in self.parts if isinstance(part, Tile) and not part.weak]
        return complex128 if float64 in strong else complex64

    @property
    def parts(self) -> tuple[Any, Any]:
        """The real and the imaginary part."""
        return self.real, self.imag

    @property
    def names(self) -> tuple[str, ...]:
        """The axes' names, in order."""
        return tuple(axis.name for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Affine(Operand):
    """An affine index: a sum of axes times integers, a constant, and an optional integer offset."""

    terms: tuple[tuple[Axis, int], ...]
    constant: int = 0
    offset: Tile | None = None

    dtype: ClassVar[DType] = int64
    """Of its values."""


class AddressableValue:
    """A tensor or scratchpad: subscripts load from it and store into it."""

    __slots__ = ()

    name: str
    ssa: SSAValue
    dtype: DType

    def __getitem__(self, index: Any) -> Tile:
        return current().load(SubscriptReference.of(self, index))  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: Any) -> None:
        current().store(SubscriptReference.of(self, index), value)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The length of each dimension."""
        raise NotImplementedError


TENSOR_FIELDS = 4
"""A tensor is made of as many; who gives fewer takes it for an array."""


@dataclass(frozen=True, eq=False)
class Tensor(AddressableValue):
    """A tensor parameter, of any strides: `x: Float[vk.Tensor, "M N"]`. Subscripts load and store."""

    name: str
    ssa: SSAValue
    dtype: DType
    dimensions: tuple[str | int, ...]
    """Numbers and names of sizes; names of unnamed sizes begin with `_`."""

    def __new__(cls, *fields: Any, **named: Any) -> Self:
        given = (*fields, *named.values())
        if given and len(given) < TENSOR_FIELDS:
            raise ArgumentError(
                f'vk.Tensor is no array: it is the type of a kernel\'s parameter, as in `x: Float[vk.Tensor, "M N"]`; '
                f"call kernels with NumPy arrays or torch tensors (got {given[0]!r})"
            )
        return super().__new__(cls)

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.dimensions

    @property
    def shape(self) -> tuple[Tile | int, ...]:
        """The sizes of the dimensions."""
        return tuple(d if isinstance(d, int) else current().size(d) for d in self.dimensions)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.dimensions)


@dataclass(frozen=True, eq=False)
class PackedTensor(Tensor):
    """A tensor parameter of integers of 4 bits: `w: Int4[vk.Tensor, "N K"]`; `dtype` is int8 or uint8.

    `storage`: the tensor of bytes, which hold two values each along the last dimension, the first in the lower half.
    """

    storage: Tensor


@dataclass(frozen=True, eq=False)
class ComplexTensor(Tensor):
    """A tensor parameter of complex numbers: `z: Complex64[vk.Tensor, "M N"]`.

    `storage`: the tensor of their parts, with a last dimension of 2.
    """

    storage: Tensor


@dataclass(frozen=True, eq=False)
class Scratch(AddressableValue):
    """A program's virtual scratchpad, as large as its axes. Elements must be stored before they are loaded."""

    name: str
    ssa: SSAValue
    dtype: DType
    axes: tuple[Axis, ...]

    @property
    def extents(self) -> tuple[Extent, ...]:
        return tuple(axis.extent for axis in self.axes)


@dataclass(frozen=True, eq=False)
class ComplexScratch(AddressableValue):
    """Scratchpad of complex numbers: one of their real parts, and one of their imaginary parts."""

    name: str
    dtype: DType
    real: Scratch
    imag: Scratch

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.real.axes

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.real.extents


@dataclass(frozen=True, eq=False)
class SubscriptReference:
    """A subscript that is neither loaded nor stored yet: the first argument of atomics."""

    memory: AddressableValue
    index: tuple[Any, ...]

    @staticmethod
    def of(memory: AddressableValue, index: Any) -> SubscriptReference:
        return SubscriptReference(memory, index if isinstance(index, tuple) else (index,))


@dataclass(frozen=True, eq=False)
class Range:
    """The iterable of a `for` in a kernel: positions from `start` to `stop` - 1; both are scalars or tiles."""

    start: Any
    stop: Any
    covers: Extent = None

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Tile]: ...
