"""Expand the functions of the math dialect into arithmetic: `expand-math`. `docs/maths.md` gives the error bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, ModuleOp, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ...dialect import arith
from ...dialect.approximate import is_approximate
from . import exponential, logarithm, power, trigonometric
from .quotients import approximate_quotient_by_fewer, quotient_by_fewer
from .scores import exp_of_scores
from .values import Constants, Float, FormulaEmitter, Integer, elements

FORMULAS: dict[type[Operation], Callable[..., Float | Integer]] = {
    math.AcosOp: trigonometric.acos,
    math.AcoshOp: logarithm.acosh,
    math.AsinOp: trigonometric.asin,
    math.AsinhOp: logarithm.asinh,
    math.AtanOp: trigonometric.atan,
    math.Atan2Op: trigonometric.atan2,
    math.AtanhOp: logarithm.atanh,
    math.CbrtOp: power.cbrt,
    math.CosOp: trigonometric.cos,
    math.CoshOp: exponential.cosh,
    math.ErfOp: exponential.erf,
    math.ExpOp: exponential.exp,
    math.Exp2Op: exponential.exp2,
    math.ExpM1Op: exponential.expm1,
    math.IPowIOp: power.ipowi,
    math.LogOp: logarithm.log,
    math.Log10Op: logarithm.log10,
    math.Log1pOp: logarithm.log1p,
    math.Log2Op: logarithm.log2,
    math.PowFOp: power.powf,
    math.RoundOp: power.round_half_away,
    math.RsqrtOp: power.rsqrt,
    math.SinOp: trigonometric.sin,
    math.SinhOp: exponential.sinh,
    math.TanOp: trigonometric.tan,
    math.TanhOp: exponential.tanh,
}
"""The formula of each operation that is expanded, from its operands to its result."""

APPROXIMATIONS: dict[type[Operation], Callable[..., Float | Integer] | None] = {
    math.ExpOp: exponential.approximate_exp,
    math.Exp2Op: None,
}
"""The formula of f32 that may be approximate, where the device has 2ˣ as an instruction; None: it is that."""

WholeFormula = Callable[[FormulaEmitter, Operation], SSAValue | None]
"""The formula of an operation together with what makes its operands; None where it has another form."""

_WHOLE: dict[tuple[type[Operation], bool], WholeFormula] = {
    (math.ExpOp, True): exp_of_scores,
    (arith.DivfOp, False): quotient_by_fewer,
    (arith.DivfOp, True): approximate_quotient_by_fewer,
}
"""Those of GPUs, by the operation and whether it may be approximate."""
_ON_GPUS = {*APPROXIMATIONS, *(kind for kind, _ in _WHOLE)}

_ELEMENTS = (Float32Type, Float64Type, IntegerType)


@dataclass(frozen=True)
class ExpandMath(ModulePass):
    """Replace each function of the math dialect, on f32, f64 or integers, by what processors have as instructions:
    arith, and math's absf, copysign, floor, fma, roundeven and sqrt.

    Works on scalars, vectors and tiles of any shape. Uses no memory, and no control flow except a branch around the
    reduction of huge angles and a loop in integer powers. Additions and products carry `vk.rounded`: they must not be
    fused. `scales`: the processor has `vk.scale` as an instruction, so expansions may contain it. `approximates`: the
    device has 2ˣ of f32 as an instruction; exponentials that may be approximate (`afn`) become `math.exp2`. It is taken
    to divide f32 by many instructions, too: quotients by what is broadcast become products.
    """

    name = "expand-math"
    result = "mapped IR in which exp, sin, … are multiplications and additions"

    scales: bool = False
    approximates: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand_math(op, self.scales, self.approximates)


def expand_math(module: Operation, scales: bool = False, approximates: bool = False) -> None:
    """Expand all functions inside an operation, without verification; see `ExpandMath`."""
    constants: dict[Block, Constants] = defaultdict(dict)
    for function in list(module.walk()):
        formula = FORMULAS.get(type(function))
        if approximates and type(function) in _ON_GPUS and elements(function.results[0].type) == f32:
            approximate = is_approximate(function)
            whole = _WHOLE.get((type(function), approximate))
            if whole is not None and _expand_whole(function, whole, constants):
                continue
            formula = APPROXIMATIONS.get(type(function), formula) if approximate else formula
        if formula is not None and isinstance(elements(function.results[0].type), _ELEMENTS):
            _expand(function, formula, constants, scales)


def _expand_whole(function: Operation, formula: WholeFormula, constants: dict[Block, Constants]) -> bool:
    """Replace a function together with what makes its operands, if it has the form; whether it has."""
    block = function.parent
    if block is None:
        raise ValueError(f"{function.name} is in no block")
    emitter = FormulaEmitter(function, block, constants[block], False)
    result = formula(emitter, function)
    if result is None:
        return False
    _replace(function, emitter, result)
    return True


def _expand(
    function: Operation, formula: Callable[..., Float | Integer], constants: dict[Block, Constants], scales: bool
) -> None:
    block = function.parent
    if block is None:
        raise ValueError(f"{function.name} is in no block")
    emitter = FormulaEmitter(function, block, constants[block], scales)
    kind = Integer if isinstance(elements(emitter.type), IntegerType) else Float
    _replace(function, emitter, formula(*(kind(emitter, operand) for operand in function.operands)).ssa)


def _replace(function: Operation, emitter: FormulaEmitter, result: SSAValue) -> None:
    block = emitter.block
    block.insert_ops_before(emitter.operations, function)
    result.name_hint = function.results[0].name_hint
    function.results[0].replace_all_uses_with(result)
    block.erase_op(function)
