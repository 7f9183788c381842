"""The state of one function while its body is lowered: names of values, memory, workspace in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialect import MappedOp, MemoryType, element_of
from ..common import TERMINATORS, Handler, ProgramSpace, lower_operation
from .emit import LlvmEmitter, Number, vector
from .late_registers import LateNames, goes_to_stores
from .tiles import Lanes, RegisterLayout, RegisterTile, layout_of, register_element

if TYPE_CHECKING:
    from .addresses import AddressedAccess
    from .blocks import BlockDot
    from .matrix import MatrixDot, Shape

WORKSPACE_ALIGNMENT = 64


@dataclass(frozen=True)
class AddressedMemory:
    """Memory that loads and stores address.

    `pointer`: to its first element. `element`: the MLIR type of an element. `strides`: in elements. `sizes`: of each
    dimension; None where it is not known, which only matters if it is guarded.
    """

    pointer: str
    element: str
    strides: tuple[Number, ...]
    sizes: tuple[Number | None, ...]


Value = RegisterTile | AddressedMemory


@dataclass
class LlvmState:
    """Lowering of one function."""

    mapped: MappedOp
    lanes: Lanes
    sizes: Mapping[str, Number]
    handlers: Mapping[str, Handler]
    emit: LlvmEmitter = field(default_factory=LlvmEmitter)
    values: dict[SSAValue, Value] = field(default_factory=dict)
    workspace: ProgramSpace = field(default_factory=lambda: ProgramSpace(WORKSPACE_ALIGNMENT))
    swap_top: Number = 0
    """Bytes in use of the swap space whose size depends on the call; it is behind the rest of the workspace."""
    """Names of conditions that hold in the code that is being emitted."""
    program: str = ""
    """The name of the number of the program that the function is running."""
    scalar_width: int = 1
    """Elements in the register of a scalar; more while the body of a scan is lowered lane by lane."""
    matrix_shape: Shape | None = None
    """The shapes that the registers of a matrix unit have throughout the function."""
    on_matrices: bool = False
    """Whether the function has dots on a matrix unit."""
    held: dict[Operation, MatrixDot | BlockDot] = field(default_factory=dict)
    """The dots whose sums a loop keeps as their unit has them."""
    for_units: dict[SSAValue, AddressedAccess] = field(default_factory=dict)
    """The addresses of words that dots on a matrix or block unit load by themselves."""
    staged: dict[SSAValue, tuple[str, int]] = field(default_factory=dict)
    """The words that are written to the workspace for a matrix unit: the first, and the bytes from one row to the next.
    """

    def tile(self, value: SSAValue) -> RegisterTile:
        """A tile's or scalar's registers."""
        result = self.values[value]
        assert isinstance(result, RegisterTile)
        return result

    def memory(self, value: SSAValue) -> AddressedMemory:
        result = self.values[value]
        assert isinstance(result, AddressedMemory)
        return result

    def scalar(self, value: SSAValue) -> str:
        """The name of a scalar."""
        (name,) = self.tile(value).names
        return name

    def layout(self, type_: Attribute) -> RegisterLayout:
        found = layout_of(type_, self.lanes)
        return found if found.axes or self.scalar_width == 1 else replace(found, pieces=((0, self.scalar_width),))

    @contextmanager
    def lanes_of_scalars(self, width: int) -> Iterator[None]:
        """Lower operations on scalars as if each were a register of `width` elements."""
        self.scalar_width = width
        yield
        self.scalar_width = 1

    def define(self, value: SSAValue, names: Sequence[str]) -> None:
        """Give a tile or scalar its registers."""
        element = register_element(element_of(value), _owner(value))
        self.values[value] = RegisterTile(self.layout(value.type), element, tuple(names))

    def define_each(self, operation: Operation, make: Callable[[list[str], str, int], str]) -> None:
        """Define the one result of an operation whose operands all have the result's layout, register by register.

        `make` gets the operands' registers, and the element type and width of the first operand's.
        """
        tiles = [self.tile(operand) for operand in operation.operands]
        widths = tiles[0].layout.widths()
        element = tiles[0].element

        def register(number: int) -> str:
            return make([tile.names[number] for tile in tiles], element, widths[number])

        made = [partial(register, number) for number in range(len(widths))]
        self.define_made(operation.results[0], made)

    def define_made(self, value: SSAValue, made: Sequence[Callable[[], str]]) -> None:
        """Give a tile the registers that are made in turn, or store by store beside a matrix unit, whose sums may be
        more than there are vector registers."""
        if self.on_matrices and goes_to_stores(value):
            element = register_element(element_of(value), _owner(value))
            self.values[value] = RegisterTile(self.layout(value.type), element, LateNames(made, {}))
        else:
            self.define(value, [each() for each in made])

    def types_of(self, values: Iterable[SSAValue]) -> list[str]:
        """The MLIR types that carry values through control flow."""
        types: list[str] = []
        for value in values:
            if isinstance(value.type, MemoryType):
                types.append("!llvm.ptr")
            else:
                element = register_element(element_of(value), _owner(value))
                types += [vector(element, width) for width in self.layout(value.type).widths()]
        return types

    def names_of(self, values: Iterable[SSAValue]) -> list[str]:
        """The SSA names that carry values through control flow."""
        lowered = [self.values[value] for value in values]
        return [n for one in lowered for n in ((one.pointer,) if isinstance(one, AddressedMemory) else one.names)]

    def lower(self, operation: Operation) -> None:
        """Emit one operation."""
        lower_operation(self, operation, self.handlers, "no native form on a CPU")

    def walk(self, block: Block) -> None:
        """Emit every operation of a block but its terminator."""
        for operation in block.ops:
            if operation.name not in TERMINATORS:
                self.lower(operation)

    @contextmanager
    def region(self, keeps_workspace: bool = False) -> Iterator[None]:
        """Lower a nested region; its scratchpad is free again after it, unless it yields scratchpad."""
        top = self.workspace.top
        with self.emit.region():
            yield
        if not keeps_workspace:
            self.workspace.top = top


def _owner(value: SSAValue) -> Operation:
    owner = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    assert owner is not None, "part of a kernel"
    return owner
