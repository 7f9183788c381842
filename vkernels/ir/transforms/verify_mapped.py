"""Check that a mapped kernel fulfils the contract of docs/mapped-ir.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import math, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    ModuleOp,
    i64,
)
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from ..dialect import (
    AccessOp,
    AssertOp,
    BarrierOp,
    BelowOp,
    BroadcastOp,
    BufferOp,
    CombinedOp,
    DecodeOp,
    DotOp,
    FirstOp,
    InterleaveOp,
    LastOp,
    LaunchOp,
    MappedOp,
    PositionOp,
    PrintOp,
    ReductionOp,
    ReloadOp,
    RepeatOp,
    ScaledDotOp,
    ScaleOp,
    ScanByOp,
    ScanOp,
    ScratchOp,
    SizeOp,
    SpillOp,
    TensorArgumentType,
    WordDotOp,
    WordsOp,
    arith,
    element_of,
    sizes_of,
)
from ..errors import IRError
from ..facts import Facts

_IN_LAUNCH = (
    AccessOp, AssertOp, BarrierOp, BelowOp, BroadcastOp, BufferOp, DecodeOp, DotOp, FirstOp, InterleaveOp, PositionOp,
    PrintOp, ReductionOp, ReloadOp, RepeatOp, ScaleOp, ScaledDotOp, ScanOp, ScratchOp, SpillOp, WordDotOp, WordsOp,
    scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp, ScanByOp, CombinedOp, LastOp,
)  # fmt: skip
_FORMATS = (arith.ExtFOp, arith.TruncFOp, arith.ConstantOp, arith.BitcastOp, arith.SelectOp)
"""Operations on f16, bf16 and f8: conversions, and those that only pass values on."""
_UPSTREAM = {arith.ARITH.name, math.Math.name}


@dataclass(frozen=True)
class VerifyMapped(ModulePass):
    """Raise `IRError` where a `vk.mapped` violates the contract that lowerings rely on."""

    name = "verify-mapped"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        verify_mapped(op)


def verify_mapped(module: ModuleOp) -> None:
    """Raise `IRError`, naming the operation, where IR does not verify or a `vk.mapped` violates the contract."""
    try:
        module.verify()
    except VerifyException as error:
        raise IRError(str(error)) from error
    for kernel in (op for op in module.walk() if isinstance(op, MappedOp)):
        for complaint in _complaints(kernel):
            raise IRError(f"vk.mapped @{kernel.sym_name.data}: {complaint}")


def _complaints(kernel: MappedOp) -> Iterator[str]:
    yield from _guards(kernel)
    for op in kernel.body.block.ops:
        yield from _top_level(op)
        if isinstance(op, LaunchOp):
            for inner in op.body.walk():
                yield from _in_launch(op, inner)
                yield from _sizes(inner)


def _top_level(op: Operation) -> Iterator[str]:
    if isinstance(op, SizeOp | BufferOp | LaunchOp):
        return
    if op.dialect_name() != arith.ARITH.name:
        yield f"{op.name} at the top level, where only sizes, i64 arithmetic, buffers and launches are allowed"
    elif any(result.type != i64 for result in op.results):
        yield f"{op.name} of {op.results[0].type} at the top level, where arithmetic is i64"


def _in_launch(launch: LaunchOp, op: Operation) -> Iterator[str]:
    where = f'in launch "{launch.label.data}"'
    if op.dialect_name() not in _UPSTREAM and not isinstance(op, _IN_LAUNCH):
        yield f"{op.name} {where}, which a lowering does not know"
    if isinstance(op, ScratchOp | BufferOp):
        yield from _memory(op, launch, where)
    elif isinstance(op, scf.ForOp) and op.lb.type != i64:
        yield f"{op.name} {where} counts in {op.lb.type}, expected i64"
    elif op.dialect_name() in _UPSTREAM and not isinstance(op, _FORMATS):
        for element in map(element_of, op.results):
            if isinstance(element, Float16Type | BFloat16Type | Float8E4M3FNType | Float8E5M2Type):
                yield f"{op.name} {where} computes in {element}, which is a memory format"


def _guards(kernel: MappedOp) -> Iterator[str]:
    """Guards compare with sizes, which must be known."""
    facts = Facts.from_attribute(kernel.facts)
    known = {op.size.data for op in kernel.body.block.ops if isinstance(op, SizeOp)} | set(facts.sizes)
    for op in kernel.walk():
        if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType):
            for dimension in op.guarded_dimensions:
                size = op.base.type.shape[dimension]
                if isinstance(size, str) and size not in known:
                    yield f"{op.name} guards a dimension of {size}, which no vk.size at the top level names"


def _memory(op: ScratchOp | BufferOp, launch: LaunchOp, where: str) -> Iterator[str]:
    shape = op.result.type.shape
    if isinstance(op, ScratchOp) and not all(isinstance(d, int) for d in shape):
        yield f"{op.name} {op.label.data!r} {where} is {op.result.type}: scratchpad has constant dimensions"
    elif not all(isinstance(size.owner, Operation) and size.owner.parent is launch.parent for size in op.operands):
        yield f"{op.name} {op.label.data!r} {where} is as large as a value that is not computed at the top level"
    if op.parent_op() is not launch:
        yield f"{op.name} {op.label.data!r} is inside a loop or branch {where}; it belongs at the launch's top"


def _sizes(op: Operation) -> Iterator[str]:
    arguments = [argument for region in op.regions for block in region.blocks for argument in block.args]
    for value in (*op.results, *arguments):
        unknown = [axis for axis, size in sizes_of(value).items() if size == DYNAMIC_INDEX]
        if unknown:
            yield f"{op.name} makes a tile whose size along {', '.join(unknown)} is not constant"
