"""The state that the steps of apply_plan share while one kernel is mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ...analysis.axes import MappedAxis
from ...analysis.packable import PlaceIndex
from ...dialect import BufferOp, BufferType, LoadOp, arith, axes_of, element_of, tile_type
from .find_words import HomeOfWords, WordDot, WordOperand
from .frames import LoopFrame
from .planned_kernel import PlannedKernel


@dataclass(frozen=True)
class Pack:
    """How one place of a tensor is packed, for `loads` that all take its elements in the same way.

    `index`: of the place, one of the axes `tile`, `whole` and `batch` or a number for each dimension; `batch`: tile
    axes of which a program has one position. `turned`: elements are nearer along the whole axis than along the tile
    axis, so a copy transposes them. `element`: of the packed tensor. `words`: if its elements are words for a dot
    unit, i32 or i64, what these hold.
    """

    name: str
    tensor: SSAValue
    loads: tuple[LoadOp, ...]
    index: PlaceIndex
    tile: MappedAxis
    whole: MappedAxis
    batch: tuple[MappedAxis, ...]
    turned: bool
    element: Attribute
    words: WordOperand | None = None

    @property
    def depth(self) -> int:
        """Positions along the whole axis in one packed element."""
        return 1 if self.words is None else self.words.depth

    @property
    def in_rows(self) -> bool:
        """Whether the words of a chunk lie side by side, row after row."""
        return self.words is not None and self.words.in_rows

    @property
    def of_chunk(self) -> int:
        """Packed elements of a chunk, a power of two where they lie in rows."""
        return self.whole.size // self.depth


@dataclass(frozen=True)
class KMajorCopy:
    """A copy of a tensor. `order`: the tensor's dimensions, as the copy has them; `axis`: the whole axis that indexes
    the last one."""

    order: tuple[int, ...]
    axis: str
    buffer: SSAValue


@dataclass
class MappingState(PlannedKernel):
    """A kernel with its plan, and what has been emitted so far.

    `top`: the mapped kernel's top level. `gpu`: whether it is for one. `launch`: the launch that is being filled, with
    its program `coordinates` by axis. `tiles`: the tile axes that its programs lie along; all where None. `homes`:
    memory of the launch, by the value that names the home. `second`: second copies of its scratchpads. `packed`: for
    the result of a packed tensor's load, the pack and its buffer of shape [programs along each batch axis and the tile
    axis, elements along the whole axis, elements of a tile], or as `packs.py` has it. `words`: dots that run on a dot
    unit. `word_homes`: values whose homes hold words. `excess`: for the result of an operand's load, its pack and a
    buffer of what flipping the other operand changes in the sum, to be added, of shape [programs along each batch axis
    and the tile axis, elements of a tile]. `lasting`: homes and scratchpads that outlast launches, by the value that
    names each, with their buffer once it exists. `along`: the tile axes of the programs that have parts of their own
    of what outlasts launches. `partials`: buffers of partial results along a split axis, by the result of the
    reduction or scan. `begins`: what scans of this program's part of a split axis begin with, by their results.
    `exclusive`: tensors that no two programs of the launch update at once. `copies`: private copies of those, where
    there are several, with the number of the program's own. `k_major`: copies of tensors that loads read in their
    place. `warp`: threads of a GPU's warp. `overlap`: tiles may lie over one another, as `ApplyPlan` has it.
    """

    top: LoopFrame
    gpu: bool = False
    warp: int = 32
    overlap: bool = False
    launch: LoopFrame | None = None
    tiles: frozenset[str] | None = None
    coordinates: dict[str, SSAValue] = field(default_factory=dict)
    homes: dict[SSAValue, SSAValue] = field(default_factory=dict)
    second: dict[SSAValue, SSAValue] = field(default_factory=dict)
    packed: dict[SSAValue, tuple[Pack, SSAValue]] = field(default_factory=dict)
    words: Mapping[Operation, WordDot] = field(default_factory=dict)
    word_homes: Mapping[SSAValue, HomeOfWords] = field(default_factory=dict)
    excess: dict[SSAValue, tuple[Pack, SSAValue]] = field(default_factory=dict)
    lasting: dict[SSAValue, SSAValue | None] = field(default_factory=dict)
    along: dict[SSAValue, frozenset[str]] = field(default_factory=dict)
    partials: dict[SSAValue, SSAValue] = field(default_factory=dict)
    begins: dict[SSAValue, SSAValue] = field(default_factory=dict)
    exclusive: frozenset[SSAValue] = frozenset()
    copies: dict[SSAValue, tuple[SSAValue, SSAValue]] = field(default_factory=dict)
    k_major: dict[SSAValue, KMajorCopy] = field(default_factory=dict)
    types: dict[Attribute, Attribute] = field(default_factory=dict)

    def tile_type(self, element: Attribute, axes: Sequence[str]) -> Attribute:
        """The type of a tile with the plan's sizes."""
        return tile_type(element, axes, [self.axes[axis].size for axis in axes])

    def mapped_type(self, type_: Attribute) -> Attribute:
        """A type as written with the plan's sizes."""
        if not isinstance(type_, TensorType):
            return type_
        if (found := self.types.get(type_)) is None:
            found = self.types[type_] = self.tile_type(element_of(type_), axes_of(type_))
        return found

    def target(self, frame: LoopFrame, chunks: frozenset[str]) -> LoopFrame:
        """The outermost frame for work over these chunked axes: outside of every loop that it does not need."""
        return next(f for f in frame.frames if f.pinned or f.axis in chunks or f.parent is None)

    # Programs and sizes, at the top level

    def program_axes(self) -> list[MappedAxis]:
        """The tile axes of the launch's programs, from the slowest to the fastest coordinate."""
        return self._in_order(self.tiles)

    @property
    def has_all_tiles(self) -> bool:
        """Whether the launch's programs lie along all tile axes of the kernel."""
        return self.program_axes() == self._in_order(None)

    def axes_of_programs(self, value: SSAValue | None) -> list[MappedAxis]:
        """The tile axes of the programs that have parts of memory of their own for a value or scratchpad."""
        return self._in_order(self.tiles if value is None else self.along.get(value, self.tiles))

    def _in_order(self, names: frozenset[str] | None) -> list[MappedAxis]:
        order = [*self.plan.order, *(name for name in self.axes if name not in self.plan.order)]
        return [self.axes[name] for name in order if self.axes[name].is_tile and (names is None or name in names)]

    def program_index(self, value: SSAValue | None = None) -> list[tuple[list[tuple[str, int]], SSAValue | None]]:
        """The first indices into the buffer of a value for programs: this program's; the first program's along axes
        that this launch lacks."""
        assert self.launch is not None, "in a launch"
        first = self.launch.number(0)
        return [([], self.coordinates.get(tile.name, first)) for tile in self.axes_of_programs(value)]

    def programs_along(self, axis: MappedAxis) -> SSAValue:
        """The number of programs along an axis: those that share a split one, else one for each tile or chunk."""
        if axis.programs > 1:
            return self.top.number(axis.programs)
        return self.top.combined(arith.CeilDivSIOp, self.extent_of(axis), self.top.number(axis.size))

    def extent_of(self, axis: MappedAxis) -> SSAValue:
        """An axis's extent, at the top level."""
        extent = self.top.find(axis.extent)
        assert extent is not None, "extents are computed at the top level"
        return extent

    def length_of(self, name: str) -> SSAValue:
        """The elements of memory for an axis: a program's tile, or a whole axis in whole chunks."""
        axis, top = self.axes[name], self.top
        if axis.length is not None:
            return top.number(axis.length)
        size = top.number(axis.size)
        if axis.exact:
            return self.extent_of(axis)
        return top.combined(arith.MuliOp, top.combined(arith.CeilDivSIOp, self.extent_of(axis), size), size)

    def buffer_for_programs(
        self, label: str, sizes: Sequence[SSAValue], element: Attribute, value: SSAValue | None = None
    ) -> SSAValue:
        """A buffer at the top level with a part for each program: [programs along each tile axis, `sizes`]."""
        sizes = [*map(self.programs_along, self.axes_of_programs(value)), *sizes]
        known = [self.top.known(size) for size in sizes]
        type_ = BufferType([DYNAMIC_INDEX if n is None else n for n in known], element)
        return self.top.add(BufferOp(label, [size for size, n in zip(sizes, known, strict=True) if n is None], type_))
