"""What the names in a kernel stand for: tensors, tiles, axes, scratchpads, index expressions.

The front end makes them, operations take and give them, and Python's operators on them build IR, so that an
operation can be written in terms of others. Outside a kernel there are none; as annotations, `vk.Tensor`, `vk.Tile`
and `vk.Axis` tell type checkers what kernels work on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .current import current
from .dtypes import DType

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

Extent = str | int | None
"""How far an axis or a dimension goes, as known when building: a size's name, a number, or not known."""

Scalar = bool | int | float
"""A Python number in a kernel: weak, it takes the dtype of what it meets."""


class Operand:
    """What Python's operators work on inside a kernel."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return current().binary("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return current().binary("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return current().binary("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return current().binary("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return current().binary("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return current().binary("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return current().binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return current().binary("/", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return current().binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return current().binary("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return current().binary("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return current().binary("%", other, self)

    def __pow__(self, other: Any) -> Any:
        return current().binary("**", self, other)

    def __rpow__(self, other: Any) -> Any:
        return current().binary("**", other, self)

    def __and__(self, other: Any) -> Any:
        return current().binary("&", self, other)

    def __rand__(self, other: Any) -> Any:
        return current().binary("&", other, self)

    def __or__(self, other: Any) -> Any:
        return current().binary("|", self, other)

    def __ror__(self, other: Any) -> Any:
        return current().binary("|", other, self)

    def __xor__(self, other: Any) -> Any:
        return current().binary("^", self, other)

    def __rxor__(self, other: Any) -> Any:
        return current().binary("^", other, self)

    def __lshift__(self, other: Any) -> Any:
        return current().binary("<<", self, other)

    def __rshift__(self, other: Any) -> Any:
        return current().binary(">>", self, other)

    def __lt__(self, other: Any) -> Any:
        return current().compare("<", self, other)

    def __le__(self, other: Any) -> Any:
        return current().compare("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return current().compare(">", self, other)

    def __ge__(self, other: Any) -> Any:
        return current().compare(">=", self, other)

    if TYPE_CHECKING:  # the front end reads `==` and `!=` in kernels; in Python they compare identities

        def __eq__(self, other: Any) -> Any: ...

        def __ne__(self, other: Any) -> Any: ...

        def __hash__(self) -> int: ...

    def __neg__(self) -> Any:
        return current().unary("-", self)

    def __invert__(self) -> Any:
        return current().unary("~", self)


@dataclass(frozen=True, eq=False)
class Axis(Operand):
    """A named dimension of the iteration space: `kind` is "tile" (split over programs) or "whole" (held at once).

    As an index it runs over its positions, 0 up to its extent; in arithmetic it is those positions, int64.
    """

    name: str
    kind: str
    extent: Extent
    count: Tile
    """The number of positions, as a value."""

    @property
    def size(self) -> Tile:
        """The number of positions along the axis."""
        return self.count

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Tile(Operand):
    """A value with axes; one without is a scalar. `dtype` is what it promotes as, f16 and bf16 being held in f32.

    `weak`: a Python number, or computed from nothing else. `size`: the name of the size it is. `covers`: the extent
    that it counts the positions of, 0 up to it.
    """

    ssa: SSAValue
    dtype: DType
    axes: tuple[Axis, ...] = ()
    weak: bool = False
    size: str | None = None
    covers: Extent = None

    def to(self, dtype: DType) -> Tile:
        """The same values in another dtype: to f16, bf16 and f8 to nearest; float to integer towards zero, where what
        does not fit gives the nearest integer that does, and NaN 0; integer to integer keeps the low bits.
        """
        return current().cast(self, dtype)

    @property
    def names(self) -> tuple[str, ...]:
        """The axes' names, in order."""
        return tuple(axis.name for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Affine(Operand):
    """A sum of axes times whole numbers, a constant, and an offset of integers: an index that needs no index tile."""

    terms: tuple[tuple[Axis, int], ...]
    constant: int = 0
    offset: Tile | None = None


class AddressableValue:
    """What is loaded from and stored into by subscripts."""

    __slots__ = ()

    name: str
    ssa: SSAValue
    dtype: DType

    def __getitem__(self, index: Any) -> Tile:
        return current().load(SubscriptReference(self, index if isinstance(index, tuple) else (index,)))

    def __setitem__(self, index: Any, value: Any) -> None:
        current().store(SubscriptReference(self, index if isinstance(index, tuple) else (index,)), value)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """How far each dimension goes."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Tensor(AddressableValue):
    """A tensor that the caller passes, of any strides: `x: Float[vk.Tensor, "M N"]`. Subscripts load and store."""

    name: str
    ssa: SSAValue
    dtype: DType
    dimensions: tuple[str | int, ...]
    """Numbers and names of sizes; those that the author left unnamed begin with `_`."""

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
class Scratch(AddressableValue):
    """Virtual scratchpad of a program, as large as its axes are. What has not been stored must not be loaded."""

    name: str
    ssa: SSAValue
    dtype: DType
    axes: tuple[Axis, ...]

    @property
    def extents(self) -> tuple[Extent, ...]:
        return tuple(axis.extent for axis in self.axes)


@dataclass(frozen=True, eq=False)
class SubscriptReference:
    """A subscript that is neither loaded nor stored yet: what atomics take."""

    memory: AddressableValue
    index: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Range:
    """What a `for` in a kernel runs over: positions from `start` up to `stop`, scalars or tiles."""

    start: Any
    stop: Any
    covers: Extent = None

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Tile]: ...
