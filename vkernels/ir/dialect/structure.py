"""The frame of a kernel: kernels, axes, ranges, phases; mapped kernels, launches, and the memory they own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerType, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, Pure, SymbolOpInterface

from .types import BufferType, ScratchType


class _FunctionOp(IRDLOperation):
    """A named body whose block arguments are the kernel's parameters, in the author's order."""

    sym_name = prop_def(StringAttr)
    parameters = prop_def(ArrayAttr[StringAttr])
    """The parameters' names."""
    facts = opt_prop_def(DictionaryAttr)
    """What is known at compile time: see `vkernels.ir.facts`."""
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(
        self, name: str, parameters: Sequence[tuple[str, Attribute]], facts: DictionaryAttr | None = None
    ):
        block = Block(arg_types=[type_ for _, type_ in parameters])
        for (label, _), argument in zip(parameters, block.args, strict=True):
            argument.name_hint = label
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "parameters": ArrayAttr(StringAttr(label) for label, _ in parameters),
                "facts": facts,
            },
            regions=[Region(block)],
        )

    def parameter(self, name: str) -> SSAValue:
        """The block argument of a parameter, by name."""
        return self.body.block.args[[p.data for p in self.parameters].index(name)]


@irdl_op_definition
class KernelOp(_FunctionOp):
    """A kernel as its author wrote it: one program that holds every position of every axis.

    A pass may split tile axes over programs and whole axes into chunks; the meaning does not change.
    """

    name = "vk.kernel"


@irdl_op_definition
class MappedOp(_FunctionOp):
    """A kernel mapped by a plan: buffers, then launches that run one after another. All tile sizes are constant.

    Only i64 arithmetic on sizes, `vk.buffer` and `vk.launch` stand at its top level.
    """

    name = "vk.mapped"

    lanes = opt_prop_def(StringAttr)
    """The axis whose elements lie side by side in a vector register, where the target has them."""


@irdl_op_definition
class SizeOp(IRDLOperation):
    """A size of the call, by the name that a tensor's declaration gives it."""

    name = "vk.size"

    size = prop_def(StringAttr)
    result = result_def(i64)

    traits = traits_def(Pure())

    def __init__(self, size: str):
        super().__init__(properties={"size": StringAttr(size)}, result_types=[i64])


class _AxisOp(IRDLOperation):
    axis = prop_def(StringAttr)
    extent = operand_def(i64)

    def __init__(self, axis: str, extent: SSAValue):
        super().__init__(operands=[extent], properties={"axis": StringAttr(axis)})


@irdl_op_definition
class TileOp(_AxisOp):
    """Declare an axis whose positions, 0 up to `extent`, are split over programs: `vk.tile i < %M`."""

    name = "vk.tile"


@irdl_op_definition
class WholeOp(_AxisOp):
    """Declare an axis that a program holds whole, however long: `vk.whole j < %N`."""

    name = "vk.whole"


@irdl_op_definition
class YieldOp(IRDLOperation):
    """End a region of `vk.range` or `vk.phase` and hand on its values."""

    name = "vk.yield"

    values = var_operand_def()

    traits = traits_def(IsTerminator())

    def __init__(self, values: Sequence[SSAValue] = ()):
        super().__init__(operands=[values])


@irdl_op_definition
class RangeOp(IRDLOperation):
    """A sequential loop over `start` up to `stop`, step 1, carrying values; the body's first argument is the position.

    The bounds are both i64, or both tiles of i64 with the same axes: a ragged range, where each element
    makes its own number of steps. An element that has finished keeps its carried values, loads 0 and
    stores nothing; every carried value then has at least the bounds' axes.
    """

    name = "vk.range"

    start = operand_def()
    stop = operand_def()
    initial = var_operand_def()
    axis = prop_def(StringAttr)
    results_ = var_result_def()
    body = region_def("single_block")

    def __init__(self, axis: str, start: SSAValue, stop: SSAValue, initial: Sequence[SSAValue], body: Region):
        super().__init__(
            operands=[start, stop, initial],
            properties={"axis": StringAttr(axis)},
            result_types=[[value.type for value in initial]],
            regions=[body],
        )

    @property
    def is_ragged(self) -> bool:
        return isinstance(self.start.type, TensorType)

    @property
    def position(self) -> SSAValue:
        return self.body.block.args[0]

    @property
    def carried(self) -> tuple[SSAValue, ...]:
        return tuple(self.body.block.args[1:])


@irdl_op_definition
class BoundaryOp(IRDLOperation):
    """The author's `vk.phase()`: everything before is complete before anything after begins."""

    name = "vk.boundary"

    phase = opt_prop_def(StringAttr)
    """A name for the phase that begins."""

    def __init__(self, phase: str | None = None):
        super().__init__(properties={"phase": None if phase is None else StringAttr(phase)})


@irdl_op_definition
class PhaseOp(IRDLOperation):
    """A maximal region that can be processed chunk by chunk; its results are the values that cross into later phases."""

    name = "vk.phase"

    phase = prop_def(StringAttr)
    results_ = var_result_def()
    body = region_def("single_block")

    def __init__(self, phase: str, results: Sequence[Attribute], body: Region):
        super().__init__(properties={"phase": StringAttr(phase)}, result_types=[results], regions=[body])


@irdl_op_definition
class ScratchOp(IRDLOperation):
    """Scratchpad of this program. As written its dimensions are axes and it is as large as they are;
    mapped, its dimensions are elements. What has not been stored must not be loaded."""

    name = "vk.scratch"

    label = prop_def(StringAttr)
    result = result_def(ScratchType)

    def __init__(self, label: str, type_: ScratchType):
        super().__init__(properties={"label": StringAttr(label)}, result_types=[type_])
        self.result.name_hint = label


@irdl_op_definition
class BufferOp(IRDLOperation):
    """Memory from the runtime, for a mapped kernel. At its top level it is shared by all programs and launches;
    inside a launch it belongs to one resident program (swap space). `?` dimensions take their sizes in order."""

    name = "vk.buffer"

    label = prop_def(StringAttr)
    sizes = var_operand_def(i64)
    result = result_def(BufferType)

    def __init__(self, label: str, sizes: Sequence[SSAValue], type_: BufferType):
        super().__init__(operands=[sizes], properties={"label": StringAttr(label)}, result_types=[type_])
        self.result.name_hint = label


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Run the body once for every program of a grid, in any order and at once; the block arguments are the
    program's coordinates, i64, and the last of them varies fastest. Launches of a kernel run one after another."""

    name = "vk.launch"

    label = prop_def(StringAttr)
    grid = var_operand_def(i64)
    body = region_def("single_block")

    traits = traits_def(NoTerminator())

    def __init__(self, label: str, grid: Sequence[SSAValue], body: Region):
        super().__init__(operands=[grid], properties={"label": StringAttr(label)}, regions=[body])


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Order a program's accesses to its scratchpad and swap space: those before, by any of its threads, then those after."""

    name = "vk.barrier"

    def __init__(self) -> None:
        super().__init__()
