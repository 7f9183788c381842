"""What one function knows while its body is lowered: names of values, memory, scratchpad handed out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Operation, SSAValue

from ...dialect import MappedOp, MemoryType, element_of
from .emit import LlvmEmitter, Number, vector
from .tiles import Lanes, RegisterLayout, RegisterTile, layout_of, register_element

WORKSPACE_ALIGNMENT = 64


@dataclass(frozen=True)
class AddressedMemory:
    """Something addressable: a pointer to its first element, the MLIR type of an element, strides in elements.

    `sizes`: of each dimension; None where it is not known, which only matters if it is guarded.
    """

    pointer: str
    element: str
    strides: tuple[Number, ...]
    sizes: tuple[Number | None, ...]


Value = RegisterTile | AddressedMemory


@dataclass
class Workspace:
    """Bytes of a program's workspace, handed out region by region: what has ended gives its own back."""

    top: int = 0
    most: int = 0

    def take(self, size: int) -> int:
        """The offset of `size` new bytes, aligned for vectors."""
        offset = self.top
        self.top += -(-size // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        self.most = max(self.most, self.top)
        return offset


@dataclass
class LlvmState:
    """Lowering of one function."""

    mapped: MappedOp
    lanes: Lanes
    sizes: Mapping[str, Number]
    emit: LlvmEmitter = field(default_factory=LlvmEmitter)
    values: dict[SSAValue, Value] = field(default_factory=dict)
    workspace: Workspace = field(default_factory=Workspace)
    swap_top: Number = 0
    """Bytes handed out of the swap space whose size the call decides, which lies behind the rest of the workspace."""

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
        return layout_of(type_, self.lanes)

    def define(self, value: SSAValue, names: Sequence[str]) -> None:
        """Give a tile or scalar its registers."""
        element = register_element(element_of(value), _owner(value))
        self.values[value] = RegisterTile(self.layout(value.type), element, tuple(names))

    def types_of(self, value: SSAValue) -> list[str]:
        """The MLIR types that carry a value through control flow."""
        if isinstance(value.type, MemoryType):
            return ["!llvm.ptr"]
        element = register_element(element_of(value), _owner(value))
        return [vector(element, width) for width in self.layout(value.type).widths()]

    def names_of(self, value: SSAValue) -> tuple[str, ...]:
        """The SSA names that carry a value through control flow."""
        lowered = self.values[value]
        return (lowered.pointer,) if isinstance(lowered, AddressedMemory) else lowered.names

    @contextmanager
    def region(self, keeps_workspace: bool = False) -> Iterator[None]:
        """Lower a nested region; its scratchpad is free again after it unless it yields some."""
        top = self.workspace.top
        with self.emit.region():
            yield
        if not keeps_workspace:
            self.workspace.top = top


def _owner(value: SSAValue) -> Operation:
    owner = value.owner
    if isinstance(owner, Operation):
        return owner
    parent = owner.parent_op()
    assert parent is not None
    return parent
