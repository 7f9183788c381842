"""Kernels, the grid's size and positions, and barriers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i1,
    i32,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator

from .types import PureTtOp, TtOp


@irdl_op_definition
class FuncOp(TtOp):
    """A kernel. `arg_attrs` may hold `tt.divisibility`: a number that divides an address in bytes, or an integer."""

    name = "tt.func"

    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    sym_visibility = prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr)
    body = region_def()

    traits = traits_def(IsolatedFromAbove())

    def __init__(self, name: str, body: Region, arg_attrs: Sequence[Attribute]):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(body.block.arg_types, []),
                "sym_visibility": StringAttr("public"),
                "arg_attrs": ArrayAttr(arg_attrs),
            },
            regions=[body],
        )


@irdl_op_definition
class ReturnOp(TtOp):
    """End a kernel."""

    name = "tt.return"
    traits = traits_def(IsTerminator())


class _GridOp(PureTtOp):
    """An i32 of the grid's first dimension."""

    axis = prop_def(IntegerAttr)

    def __init__(self) -> None:
        super().__init__(properties={"axis": IntegerAttr(0, i32)}, result_types=[i32])


@irdl_op_definition
class ProgramIdOp(_GridOp):
    """The number of this program along grid dimension `axis`, 0, 1 or 2: i32."""

    name = "tt.get_program_id"


@irdl_op_definition
class NumProgramsOp(_GridOp):
    """The programs along grid dimension `axis`: i32."""

    name = "tt.get_num_programs"


@irdl_op_definition
class BarrierOp(TtOp):
    """Wait until all of a program's threads are here; each then sees what the others wrote before."""

    name = "gpu.barrier"


@irdl_op_definition
class AssumeOp(TtOp):
    """A condition that holds: nothing happens, and compilers may rely on it."""

    name = "llvm.intr.assume"
    condition = operand_def(i1)
    op_bundle_sizes = prop_def(DenseArrayBase)

    def __init__(self, condition: SSAValue):
        super().__init__(operands=[condition], properties={"op_bundle_sizes": DenseArrayBase.from_list(i32, [])})
