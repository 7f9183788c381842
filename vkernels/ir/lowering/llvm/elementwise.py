"""Elementwise arith and math: each operation once a register."""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation

from ...dialect import arith
from ..common import Handler
from .constants import is_constant
from .emit import LlvmEmitter, vector
from .integers import LLVM_DIVISIONS, LLVM_SHIFTS, lower_division, lower_shift
from .state import LlvmState

CONTRACT = ("arith.addf", "arith.subf", "arith.mulf")
"""Operations that may become parts of a fused multiply-add, where they do not carry `vk.rounded`."""

LLVM_PLAIN = (
    *CONTRACT, "arith.divf", "arith.remf", "arith.negf", "arith.maxnumf", "arith.minnumf",
    "arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori", "arith.xori",
    "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui",
)  # fmt: skip

INTRINSICS = {
    "math.sqrt": "sqrt", "math.fma": "fma", "math.absf": "fabs", "math.floor": "floor", "math.ceil": "ceil",
    "math.trunc": "trunc", "math.roundeven": "roundeven", "math.round": "round", "math.copysign": "copysign",
    "math.ctpop": "ctpop",
}  # fmt: skip
"""The operations of math that remain once it is expanded, and the LLVM intrinsic of each."""

WITH_FLAG = {"math.absi": ("abs", "is_int_min_poison"), "math.ctlz": ("ctlz", "is_zero_poison"),
             "math.cttz": ("cttz", "is_zero_poison")}  # fmt: skip


def lower_plain(state: LlvmState, operation: Operation) -> None:
    """An operation that MLIR has on vectors under the same name."""
    if operation.name in ("arith.addi", "arith.muli") and str(operation.results[0].type) in ("i64", "index"):
        _lower_folding(state, operation)
        return
    fusible = operation.name in CONTRACT and "vk.rounded" not in operation.attributes
    flags = " fastmath<contract>" if fusible else ""
    _lower_text(state, operation, f"{operation.name} ", flags)


def _lower_text(state: LlvmState, operation: Operation, start: str, flags: str = "") -> None:
    """One line of MLIR a register: the start, the operands, flags and the operands' type."""
    state.define_each(
        operation,
        lambda o, element, width: state.emit.pure(f"{start}{', '.join(o)}{flags} : {vector(element, width)}"),
    )


def _lower_folding(state: LlvmState, operation: Operation) -> None:
    """Scalar i64 arithmetic, from which indices are made: known numbers stay known."""
    a, b = (state.scalar(operand) for operand in operation.operands)
    emit = state.emit
    result = emit.add(a, b) if operation.name == "arith.addi" else emit.multiply(a, b)
    state.define(operation.results[0], [emit.number(result)])


def lower_intrinsic(state: LlvmState, operation: Operation) -> None:
    """An LLVM intrinsic whose operands and result have one type."""
    name = INTRINSICS[operation.name]

    def make(operands: list[str], element: str, width: int) -> str:
        type_ = vector(element, width)
        types = ", ".join([type_] * len(operands))
        return state.emit.pure(f"llvm.intr.{name}({', '.join(operands)}) : ({types}) -> {type_}")

    state.define_each(operation, make)


def lower_with_flag(state: LlvmState, operation: Operation) -> None:
    """An LLVM intrinsic of one operand with a flag, which is false."""
    name, flag = WITH_FLAG[operation.name]

    def make(operands: list[str], element: str, width: int) -> str:
        type_ = vector(element, width)
        return state.emit.pure(f'"llvm.intr.{name}"({operands[0]}) <{{{flag} = false}}> : ({type_}) -> {type_}')

    state.define_each(operation, make)


def lower_compare(state: LlvmState, operation: arith.CmpfOp | arith.CmpiOp) -> None:
    """`arith.cmpf` and `arith.cmpi`."""
    _lower_text(state, operation, f"{operation.name} {operation.relation}, ")


def lower_select(state: LlvmState, operation: Operation) -> None:
    """`arith.select`; the condition may be a scalar."""
    condition, a, b = (state.tile(operand) for operand in operation.operands)
    names = []
    for number, width in enumerate(a.layout.widths()):
        test, lanes = (condition.names[number], width) if condition.layout.axes else (condition.names[0], 1)
        names.append(state.emit.select(test, a.names[number], b.names[number], a.element, width, lanes))
    state.define(operation.results[0], names)


def lower_extremum(state: LlvmState, operation: Operation) -> None:
    """`arith.maximumf` and `minimumf`, which propagate NaN.

    A constant operand goes first: an x86 maximum gives its second operand if either is NaN, and LLVM knows that a
    constant is a number, so one instruction remains. A value that a loop carries goes last: the test of the other one
    for NaN then runs while the loop's last step is still being computed.
    """
    kind = "max" if operation.name == "arith.maximumf" else "min"
    one, other = operation.operands
    known = is_constant(one.owner) or is_constant(other.owner)
    swap = is_constant(other.owner) or (isinstance(one, BlockArgument) and not is_constant(one.owner))

    def make(operands: list[str], element: str, width: int) -> str:
        a, b = reversed(operands) if swap else operands
        return extremum(state.emit, kind, a, b, element, width, known)

    state.define_each(operation, make)


def extremum(emit: LlvmEmitter, kind: str, a: str, b: str, element: str, width: int, known: bool = False) -> str:
    """The larger (`max`) or smaller (`min`) of two floats, NaN if either is. Which of -0 and 0 is free.

    `known`: one of them is a constant. Otherwise the maximum is kept from being merged with the test for NaN: together
    they would no longer be an instruction that x86 has.
    """
    type_ = vector(element, width)
    first = emit.pure(f"arith.cmpf {'ogt' if kind == 'max' else 'olt'}, {a}, {b} : {type_}")
    number = emit.select(first, a, b, element, width)
    unordered = emit.pure(f"arith.cmpf uno, {a}, {a} : {type_}")
    if not known and width > 1:
        intrinsic = f'llvm.call_intrinsic "llvm.arithmetic.fence.v{width}{element}"'
        number = emit.pure(f"{intrinsic}({number}) : ({type_}) -> {type_}")
    return emit.select(unordered, a, number, element, width)


LLVM_ELEMENTWISE: dict[str, Handler] = {
    **dict.fromkeys(LLVM_PLAIN, lower_plain),
    **dict.fromkeys(INTRINSICS, lower_intrinsic),
    **dict.fromkeys(WITH_FLAG, lower_with_flag),
    **dict.fromkeys(LLVM_DIVISIONS, lower_division),
    **dict.fromkeys(LLVM_SHIFTS, lower_shift),
    "arith.cmpf": lower_compare,
    "arith.cmpi": lower_compare,
    "arith.select": lower_select,
    "arith.maximumf": lower_extremum,
    "arith.minimumf": lower_extremum,
}
