"""Elementwise arith and math: each operation once a register."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, Operation

from .constants import is_constant
from .emit import LlvmEmitter, vector
from .halves import refuse_half
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
"""What is left of math once it is expanded, and the LLVM intrinsic of each."""

WITH_FLAG = {"math.absi": ("abs", "is_int_min_poison"), "math.ctlz": ("ctlz", "is_zero_poison"),
             "math.cttz": ("cttz", "is_zero_poison")}  # fmt: skip


def for_each_register(state: LlvmState, operation: Operation, make: Callable[[list[str], str], str]) -> None:
    """Define the one result of an operation whose operands all have the result's layout.

    `make` gets the operands' registers and the MLIR type of the first operand's.
    """
    tiles = [state.tile(operand) for operand in operation.operands]
    widths = tiles[0].layout.widths()
    names = [
        make([tile.names[number] for tile in tiles], vector(tiles[0].element, width))
        for number, width in enumerate(widths)
    ]
    state.define(operation.results[0], names)


def lower_plain(state: LlvmState, operation: Operation) -> None:
    """An operation that MLIR has on vectors under the same name."""
    refuse_half(operation)
    if operation.name in ("arith.addi", "arith.muli") and str(operation.results[0].type) in ("i64", "index"):
        _lower_folding(state, operation)
        return
    fusible = operation.name in CONTRACT and "vk.rounded" not in operation.attributes
    flags = " fastmath<contract>" if fusible else ""
    text = f"{operation.name} {{}}{flags} : {{}}"
    for_each_register(state, operation, lambda o, t: state.emit.pure(text.format(", ".join(o), t)))


def _lower_folding(state: LlvmState, operation: Operation) -> None:
    """Scalar i64 arithmetic, from which indices are made: known numbers stay known."""
    a, b = (state.scalar(operand) for operand in operation.operands)
    emit = state.emit
    result = emit.add(a, b) if operation.name == "arith.addi" else emit.multiply(a, b)
    state.define(operation.results[0], [emit.number(result)])


def lower_intrinsic(state: LlvmState, operation: Operation) -> None:
    refuse_half(operation)
    name = INTRINSICS[operation.name]
    for_each_register(state, operation, lambda o, t: intrinsic(state.emit, name, o, t))


def intrinsic(emit: LlvmEmitter, name: str, operands: list[str], type_: str) -> str:
    """An LLVM intrinsic whose operands and result have one type."""
    types = ", ".join([type_] * len(operands))
    return emit.pure(f"llvm.intr.{name}({', '.join(operands)}) : ({types}) -> {type_}")


def lower_with_flag(state: LlvmState, operation: Operation) -> None:
    name, flag = WITH_FLAG[operation.name]
    text = f'"llvm.intr.{name}"({{}}) <{{{{{flag} = false}}}}> : ({{}}) -> {{}}'
    for_each_register(state, operation, lambda o, t: state.emit.pure(text.format(o[0], t, t)))


def lower_compare(state: LlvmState, operation: Operation) -> None:
    refuse_half(operation)
    names = CMPF_COMPARISON_OPERATIONS if operation.name == "arith.cmpf" else CMPI_COMPARISON_OPERATIONS
    predicate = operation.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    text = f"{operation.name} {names[predicate.value.data]}, {{}} : {{}}"
    for_each_register(state, operation, lambda o, t: state.emit.pure(text.format(", ".join(o), t)))


def lower_select(state: LlvmState, operation: Operation) -> None:
    """`arith.select`; the condition may be a scalar."""
    condition, *choices = (state.tile(operand) for operand in operation.operands)
    names = []
    for number, width in enumerate(choices[0].layout.widths()):
        one = condition.layout.axes == () or width == 1
        test = condition.names[0 if condition.layout.axes == () else number]
        type_ = vector(choices[0].element, width)
        types = type_ if one else f"{vector('i1', width)}, {type_}"
        names.append(
            state.emit.pure(f"arith.select {test}, {choices[0].names[number]}, {choices[1].names[number]} : {types}")
        )
    state.define(operation.results[0], names)


def lower_extremum(state: LlvmState, operation: Operation) -> None:
    """`arith.maximumf` and `minimumf`, which propagate NaN.

    Where one operand is a constant it goes first: an x86 maximum gives its second operand if either is NaN,
    and LLVM knows that a constant is a number, so one instruction remains. What a loop carries goes last: whether the
    other one is a number is found while the loop's last step is still waited for.
    """
    refuse_half(operation)
    kind = "max" if operation.name == "arith.maximumf" else "min"
    one, other = operation.operands
    known = is_constant(one.owner) or is_constant(other.owner)
    swap = is_constant(other.owner) or (isinstance(one, BlockArgument) and not is_constant(one.owner))

    def make(operands: list[str], type_: str) -> str:
        a, b = operands
        return extremum(state.emit, kind, *((b, a) if swap else (a, b)), type_, known)

    for_each_register(state, operation, make)


def extremum(emit: LlvmEmitter, kind: str, a: str, b: str, type_: str, known: bool = False) -> str:
    """The larger (`max`) or smaller (`min`) of two floats, NaN if either is. Which of -0 and 0 is free.

    `known`: one of them is a constant. Otherwise the maximum is kept from being merged with the test for NaN: together
    they would no longer be an instruction that x86 has.
    """
    condition = "i1" if not type_.startswith("vector") else f"{type_.rpartition('x')[0]}xi1>"
    types = type_ if condition == "i1" else f"{condition}, {type_}"
    first = emit.pure(f"arith.cmpf {'ogt' if kind == 'max' else 'olt'}, {a}, {b} : {type_}")
    number = emit.pure(f"arith.select {first}, {a}, {b} : {types}")
    unordered = emit.pure(f"arith.cmpf uno, {a}, {a} : {type_}")
    if not known and type_.startswith("vector"):
        lanes, element = type_.removeprefix("vector<").removesuffix(">").split("x")
        intrinsic = f'llvm.call_intrinsic "llvm.arithmetic.fence.v{lanes}{element}"'
        number = emit.pure(f"{intrinsic}({number}) : ({type_}) -> {type_}")
    return emit.pure(f"arith.select {unordered}, {a}, {number} : {types}")


Handler = Callable[[LlvmState, Operation], None]

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
