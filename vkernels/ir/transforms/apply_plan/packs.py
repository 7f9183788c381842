"""Packed operands: a separate launch copies a tensor panel by panel, in the order in which it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...analysis.axes import MappedAxis
from ...analysis.packable import PackablePlace, packable_places
from ...dialect import (
    BufferOp,
    BufferType,
    LaunchOp,
    LoadOp,
    StoreOp,
    SumOp,
    WordsOp,
    arith,
    axes_of,
    element_of,
    tile_type,
)
from ...dialect.blocks import terminator
from ...errors import PlanError
from ...facts import UNKNOWN
from ...word_kinds import SPLIT_ELEMENTS
from .access import value_in
from .find_words import WordOperand
from .frames import LoopFrame, filled
from .mapping_state import MappingState, Pack
from .planned_kernel import PlannedKernel

_BLOCK = 16
"""Positions along the whole axis in one copied tile; words, where they are made of positions side by side."""
_BLOCKS, _ACROSS = 32, 2
"""Tiles that one program copies, where panels lie side by side in memory and where they lie across it: then programs
that follow each other read on in the same rows, as processors prefetch them."""
_Index = tuple[Sequence[tuple[str, int]], SSAValue | None]
"""The terms and the offset of an index."""


def check_packs(planned: PlannedKernel) -> None:
    """Raise `PlanError` for a packed tensor some place of which is not loaded at tile axes and one whole axis."""
    for name in planned.plan.packs:
        _read_packs(planned, name, {})


def emit_packs(state: MappingState) -> None:
    """Emit buffers and launches for every tensor that the plan packs. Its loads then read panels."""
    operands = {load: operand for dot in state.words.values() for load, operand in dot.operands.items()}
    for name in state.plan.packs:
        for pack in _read_packs(state, name, operands):
            if pack.whole.known != 0:  # else there is nothing to pack
                length, buffer = _make_buffer(state, pack)
                sums = _make_sums(state, pack) if pack.words is not None and pack.words.factor else None
                for load in pack.loads:
                    state.packed[load.result] = (pack, buffer)
                    if sums is not None:
                        state.excess[load.result] = pack, sums
                _emit_launch(state, pack, buffer, length)


def is_packed_extended(state: MappingState, value: SSAValue) -> bool:
    """Whether a load's result is packed as what it is extended to, or as words, which a dot takes as they are."""
    if value not in state.packed:
        return False
    pack, _ = state.packed[value]
    return pack.words is not None or pack.element != element_of(value)


def _read_packs(planned: PlannedKernel, name: str, operands: Mapping[SSAValue, WordOperand]) -> list[Pack]:
    """The packs of a tensor: one for each place, or several where its loads take elements or words in other ways.

    `operands`: how operands of dot units are packed, by what is loaded.
    """
    kernel = planned.kernel
    if name not in [parameter.data for parameter in kernel.parameters]:
        raise PlanError(f"the plan packs {name}, which is no parameter of {kernel.sym_name.data}")
    tensor = kernel.parameter(name)
    packs: list[Pack] = []
    for place in packable_places(name, tensor, lambda axis: planned.axes[axis].is_tile):
        *batch, tile = (planned.axes[axis] for axis in place.tiles)
        for axis in batch:
            if axis.size > 1:
                taken = f"at a time, the plan takes {axis.size}"
                raise PlanError(f"{name} is packed for one position of {axis.name} {taken}", about=name)
        turned = tile.size > 1 and _lies_along(planned, name, place, tile)
        alike: dict[tuple[Attribute, WordOperand | None], tuple[LoadOp, ...]] = {}
        for load in place.loads:
            words = operands.get(load.result)
            element = _packed_element(load) if words is None else i64 if words.wide else i32
            alike[element, words] = (*alike.get((element, words), ()), load)
        packs += [
            Pack(name, tensor, loads, place.index, tile, planned.axes[place.whole], tuple(batch), turned, *how)
            for how, loads in alike.items()
        ]
    return packs


def _lies_along(planned: PlannedKernel, name: str, place: PackablePlace, tile: MappedAxis) -> bool:
    """Whether elements are nearer in memory along the whole axis than along a tile axis, as far as strides tell."""
    strides = planned.facts.strides.get(name) or (*[UNKNOWN] * (len(place.index) - 1), 1)
    along, across = (strides[place.index.index(axis)] for axis in (place.whole, tile.name))
    return along == 1 or (along > 1 and not 0 <= across <= along)


def _packed_element(load: LoadOp) -> Attribute:
    """f16, bf16 and f8 are packed as the f32 that they are computed in."""
    element = element_of(load.result)
    narrow = isinstance(element, Float16Type | BFloat16Type | Float8E4M3FNType | Float8E5M2Type)
    extended = narrow and all(isinstance(use.operation, arith.ExtFOp) for use in load.result.uses)
    return f32 if extended else element


def _block(pack: Pack) -> int:
    """Positions along the whole axis in one copied tile: where these lie side by side, words for a register."""
    if pack.words is not None and pack.words.split:
        return SPLIT_ELEMENTS
    return _BLOCK * (pack.depth if pack.turned else 1)


def _make_buffer(state: MappingState, pack: Pack) -> tuple[SSAValue, SSAValue]:
    """The padded length of the whole axis, of full blocks that hold all chunks, and a buffer.

    The buffer has the shape [programs along each batch axis and the tile axis, padded length, elements of a tile]; of
    words in rows [programs, chunks of the whole axis, elements of a tile, words of a chunk].
    """
    top = state.top
    block, chunk = _block(pack), pack.whole.size
    length = _whole(top, value_in(state, top, pack.whole.extent), lcm(block, chunk) if pack.in_rows else chunk)
    length = _whole(top, length, block)
    elements = top.combined(arith.FloorDivSIOp, length, top.number(pack.depth * (pack.of_chunk if pack.in_rows else 1)))
    sizes = [*map(state.programs_along, (*pack.batch, pack.tile)), elements]
    last = [pack.tile.size, *([pack.of_chunk] if pack.in_rows else [])]
    return length, _buffer(state, f"packed_{pack.name}", sizes, last, pack.element)


def _whole(frame: LoopFrame, length: SSAValue, step: int) -> SSAValue:
    """The least multiple of `step` that is not below a length."""
    number = frame.number(step)
    return frame.combined(arith.MuliOp, frame.combined(arith.CeilDivSIOp, length, number), number)


def _make_sums(state: MappingState, pack: Pack) -> SSAValue:
    """A buffer for the sums of a packed operand along the whole axis, see `MappingState.excess`."""
    sizes = [*map(state.programs_along, (*pack.batch, pack.tile))]
    return _buffer(state, f"sums_{pack.name}", sizes, [pack.tile.size], i32)


def _buffer(
    state: MappingState, label: str, sizes: Sequence[SSAValue], last: Sequence[int], element: Attribute
) -> SSAValue:
    top = state.top
    shape = [DYNAMIC_INDEX if (known := top.known(size)) is None else known for size in sizes]
    unknown = [size for size in sizes if top.known(size) is None]
    return top.add(BufferOp(label, unknown, BufferType([*shape, *last], element)))


def _emit_launch(state: MappingState, pack: Pack, buffer: SSAValue, padded: SSAValue) -> None:
    """Emit the launch, each program of which copies some blocks of one panel, or all where it sums them up too."""
    top = state.top
    extent = value_in(state, top, pack.whole.extent)
    sums = state.excess.get(pack.loads[0].result)
    across = not pack.turned and pack.tile.size > 1
    share = top.number(_block(pack) * (_ACROSS if across else _BLOCKS))
    parts = top.combined(arith.CeilDivSIOp, extent, share) if sums is None else top.number(1)
    panels = state.programs_along(pack.tile)
    grid = [*map(state.programs_along, pack.batch), *((parts, panels) if across else (panels, parts))]
    block = Block(arg_types=[i64] * len(grid))
    frame = LoopFrame(block, top)
    *batch, outer, inner = block.args
    panel, part = (inner, outer) if across else (outer, inner)
    first = frame.combined(arith.MuliOp, panel, frame.number(pack.tile.size))
    if sums is None:
        begin = frame.combined(arith.MuliOp, part, share)
        last = frame.combined(arith.AddiOp, begin, share)
        at_end = frame.add(arith.CmpiOp(frame.combined(arith.AddiOp, part, frame.number(1)), parts, "eq"))
        end = frame.add(arith.SelectOp(at_end, padded, last))
        inside = frame.combined(arith.MinSIOp, last, extent)
    else:
        begin, end, inside = frame.number(0), padded, extent
    rows = frame.combined(arith.SubiOp, value_in(state, top, pack.tile.extent), first)
    size = frame.number(_block(pack))
    blocks = frame.combined(arith.FloorDivSIOp, frame.combined(arith.SubiOp, inside, begin), size)
    middle = frame.combined(arith.AddiOp, begin, frame.combined(arith.MuliOp, blocks, size))
    full, partial = LoopFrame(Block(), frame), LoopFrame(Block(), frame)
    copy = _Copy(state, pack, buffer, [((), place) for place in (*batch, panel)], first)
    copied = copy.emit(full, (begin, middle), None, None, copy.start(full))
    copy.finish(full, copy.emit(full, (middle, end), rows, extent, copied))
    copy.finish(partial, copy.emit(partial, (begin, end), rows, extent, copy.start(partial)))
    for variant in (full, partial):
        variant.block.add_op(scf.YieldOp.create())
    if pack.tile.exact:
        full.block.erase_op(terminator(full.block))
        Rewriter.inline_block(full.block, InsertPoint.at_end(block))
    else:
        is_full = frame.add(arith.CmpiOp(rows, frame.number(pack.tile.size), "sge"))
        block.add_op(scf.IfOp.create(operands=[is_full], regions=[Region(full.block), Region(partial.block)]))
    launch = LaunchOp(f"pack {pack.name}", grid, Region(block))
    launch.location = pack.loads[0].location
    top.block.add_op(launch)


@dataclass(frozen=True)
class _Copy:
    """Copies blocks of a panel whose rows begin at `first`, and sums them up where its pack says so. `panel`: its
    indices into the buffer, those of the batch before its own."""

    state: MappingState
    pack: Pack
    buffer: SSAValue
    panel: Sequence[_Index]
    first: SSAValue

    @cached_property
    def _axes(self) -> tuple[str, str]:
        """The names of the tile's axes along the whole axis and across it: contiguous elements are along the lanes."""
        pack = self.pack
        lanes = self.state.plan.lanes or pack.tile.name
        other = next(name for name in (pack.whole.name, pack.tile.name) if name != lanes)
        return (lanes, other) if pack.turned else (other, lanes)

    def _tile(self, element: Attribute) -> Attribute:
        (along, across), pack = self._axes, self.pack
        names, sizes = [across, along], [pack.tile.size, _block(pack)]
        return tile_type(element, names, sizes) if pack.turned else tile_type(element, names[::-1], sizes[::-1])

    @property
    def _sums(self) -> Attribute:
        """The type of the sums so far: of each row, by place in a register where the rows lie along registers."""
        return self._tile(i32) if self.pack.turned else tile_type(i32, [self._axes[1]], [self.pack.tile.size])

    @property
    def _excess(self) -> SSAValue | None:
        found = self.state.excess.get(self.pack.loads[0].result)
        return None if found is None else found[1]

    def start(self, frame: LoopFrame) -> Sequence[SSAValue]:
        """The sums before the first block; none where nothing is summed."""
        return [] if self._excess is None else [filled(frame, self._sums, 0)]

    def emit(
        self, frame: LoopFrame, span: tuple[SSAValue, SSAValue], rows: SSAValue | None, extent: SSAValue | None,
        sums: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:  # fmt: skip
        """Copy blocks from `span[0]` to `span[1]`; elements that are not below `rows` and `extent` are 0. The sums."""
        pack, (along, across) = self.pack, self._axes
        inner = LoopFrame(Block(arg_types=[i64, *(value.type for value in sums)]), frame)
        position, *before = inner.block.args
        bounds = {across: rows} if rows is not None and not pack.tile.exact else {}
        if extent is not None:
            bounds[along] = inner.combined(arith.SubiOp, extent, position)
        places: dict[str, _Index] = dict(zip((axis.name for axis in pack.batch), self.panel[:-1], strict=True))
        places |= {pack.tile.name: ([(across, 1)], self.first), pack.whole.name: ([(along, 1)], position)}
        index = [places[each] if isinstance(each, str) else ((), inner.number(each)) for each in pack.index]
        tensor = value_in(self.state, frame, pack.tensor)
        loaded = inner.add(LoadOp(tensor, index, self._tile(element_of(pack.loads[0].result)), bounds=bounds))
        after = [self._added(inner, total, loaded) for total in before]
        stored = self._packed(inner, loaded)
        panel = [*self.panel, *_in_panel(inner, position, pack, along, across)]
        inner.block.add_op(StoreOp(stored, self.buffer, panel))
        inner.block.add_op(scf.YieldOp.create(operands=after))
        return frame.loop((*span, frame.number(_block(pack))), sums, inner.block)

    def finish(self, frame: LoopFrame, sums: Sequence[SSAValue]) -> None:
        """Store the sums, each times its factor."""
        words, excess = self.pack.words, self._excess
        if words is None or excess is None:
            return
        along, across = self._axes
        (total,) = sums
        if self.pack.turned:
            total = frame.add(SumOp(total, along))
        total = frame.make(arith.MuliOp, total, filled(frame, total.type, words.factor))
        frame.block.add_op(StoreOp(total, excess, [*self.panel, ([(across, 1)], None)]))

    def _added(self, inner: LoopFrame, total: SSAValue, loaded: SSAValue) -> SSAValue:
        """Sums with those of one more block."""
        words = self.pack.words
        extend = arith.ExtSIOp if words is None or words.signed else arith.ExtUIOp
        wide = inner.make(extend, loaded, type_=self._tile(i32))
        if not self.pack.turned:
            wide = inner.add(SumOp(wide, self._axes[0]))
        return inner.make(arith.AddiOp, total, wide)

    def _packed(self, inner: LoopFrame, loaded: SSAValue) -> SSAValue:
        """A loaded tile as it is packed: extended, or joined to words with their offset."""
        pack = self.pack
        if pack.words is None:
            is_same = element_of(loaded) == pack.element
            return loaded if is_same else inner.make(arith.ExtFOp, loaded, type_=self._tile(pack.element))
        words = inner.add(WordsOp(loaded, self._axes[0], i64 if pack.words.wide else i32, pack.words.split))
        if not pack.words.flipped:
            return words
        return inner.make(arith.XOrIOp, words, _sign_bits(inner, words, pack.words))


def _sign_bits(inner: LoopFrame, words: SSAValue, operand: WordOperand) -> SSAValue:
    """What adds 128 to each i8 of a word, which gives it the other sign."""
    bits = int.from_bytes(bytes([128] * operand.depth), "little", signed=True)
    return filled(inner, words.type, bits)


def _in_panel(frame: LoopFrame, position: SSAValue | None, pack: Pack, along: str, across: str) -> list[_Index]:
    """The indices within a panel of elements from a position on, along the whole axis and across it."""
    element = _element(frame, position, pack)
    if not pack.in_rows:
        return [([(along, 1)], element), ([(across, 1)], None)]
    known = 0 if element is None else frame.known(element)
    if known is not None:
        within = frame.number(known % pack.of_chunk)
    else:
        assert element is not None, "else it is known"
        within = frame.combined(arith.AndIOp, element, frame.number(pack.of_chunk - 1))
    return [((), _shifted(frame, element, pack.of_chunk)), ([(across, 1)], None), ([(along, 1)], within)]


def _element(frame: LoopFrame, position: SSAValue | None, pack: Pack) -> SSAValue | None:
    """The packed element at a position along the whole axis, a multiple of the pack's depth."""
    return position if position is None or pack.depth == 1 else _shifted(frame, position, pack.depth)


def _shifted(frame: LoopFrame, number: SSAValue | None, by: int) -> SSAValue:
    """A number that is not negative, or 0, divided by a power of two."""
    known = 0 if number is None else frame.known(number)
    if known is not None:
        return frame.number(known // by)
    assert number is not None, "else it is known"
    return frame.combined(arith.ShRUIOp, number, frame.number(by.bit_length() - 1))


def load_panel(state: MappingState, frame: LoopFrame, op: Operation) -> SSAValue:
    """Load a packed tensor: the program's panel, from the start of the chunk, all elements of the tile."""
    pack, buffer = state.packed[op.results[0]]
    whole, tile = pack.whole.name, pack.tile.name
    batch: list[_Index] = [([(axis.name, 1)], state.coordinates[axis.name]) for axis in pack.batch]
    panel: _Index = (), state.coordinates[tile]
    start = frame.span(whole).base
    if pack.in_rows:
        chunk = _shifted(frame, _element(frame, start, pack), pack.of_chunk)
        index = [*batch, panel, ((), chunk), ([(tile, 1)], None), ([(whole, 1)], None)]
    else:
        index = [*batch, panel, ([(whole, 1)], _element(frame, start, pack)), ([(tile, 1)], None)]
    axes = axes_of(op.results[0])
    sizes = [state.axes[axis].size // (pack.depth if axis == whole else 1) for axis in axes]
    load = LoadOp(buffer, index, tile_type(pack.element, axes, sizes))
    load.location = op.location
    load.result.name_hint = op.results[0].name_hint
    return frame.add(load)
