"""What all of apply_plan's steps share while one kernel is mapped."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from ...dialect import TensorArgumentType, axes_of, element_of, tile_type
from .frames import LoopFrame
from .planned_kernel import PlannedKernel


@dataclass(frozen=True)
class Panel:
    """Where a packed tensor's elements are: `buffer` [program along `tile`, position along `whole`, its element]."""

    buffer: SSAValue
    whole: str
    tile: str
    element: Attribute


@dataclass
class MappingState(PlannedKernel):
    """A kernel with its plan, and what has been made of it so far."""

    top: LoopFrame
    """The mapped kernel's top level."""
    launch: LoopFrame | None = None
    """The launch that is being filled."""
    coordinates: dict[str, SSAValue] = field(default_factory=dict)
    """The launch's program coordinates, by axis."""
    homes: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Memory of the launch that homes values, by the value that names the home."""
    second: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """The second copies of the launch's scratchpads that have two."""
    packed: dict[SSAValue, Panel] = field(default_factory=dict)
    """Where the loads of packed tensors find their elements, by result."""
    lasting: dict[SSAValue, SSAValue | None] = field(default_factory=dict)
    """Homes and scratchpads that launches hand on, by the value that names each: a buffer, once it is made."""
    partials: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Buffers of partial results along a split axis, by reduction's result."""
    types: dict[Attribute, Attribute] = field(default_factory=dict)

    def mapped_type(self, type_: Attribute) -> Attribute:
        """A type as written with the plan's sizes."""
        found = self.types.get(type_)
        if found is None:
            found = type_
            if isinstance(type_, TensorType):
                names = axes_of(type_)
                found = tile_type(element_of(type_), names, [self.axes[name].size for name in names])
            self.types[type_] = found
        return found

    def is_streamed(self, base: SSAValue) -> bool:
        """Whether stores to this memory pass the caches by the plan."""
        return isinstance(base.type, TensorArgumentType) and base.name_hint in self.plan.streams

    def target(self, frame: LoopFrame, chunks: frozenset[str]) -> LoopFrame:
        """The outermost frame where work over these chunked axes can stand: out of every loop that it does not need."""
        while not frame.pinned and frame.axis not in chunks and frame.parent is not None:
            frame = frame.parent
        return frame
