"""`vk.scale`: AVX-512's scaling instruction, by intrinsics that exist for whole registers only."""

from __future__ import annotations

from xdsl.ir import Operation

from .emit import LlvmEmitter, vector
from .state import LlvmState

_SUFFIX = {"f32": "ps", "f64": "pd"}
_CURRENT_ROUNDING = "4"


def lower_scale(state: LlvmState, operation: Operation) -> None:
    """Each register times two to the power of another."""
    state.define_each(operation, lambda o, element, width: _scale(state.emit, o[0], o[1], element, width))


def _scale(emit: LlvmEmitter, value: str, power: str, element: str, width: int) -> str:
    lanes = 16 // (4 if element == "f32" else 8)
    while lanes < width:
        lanes *= 2
    value, power = (_widened(emit, one, element, width, lanes) for one in (value, power))
    result = _call(emit, value, power, element, lanes)
    if width == 1:
        return emit.extract(result, 0, element, lanes)
    return result if width == lanes else emit.shuffle(result, result, list(range(width)), element, lanes)


def _widened(emit: LlvmEmitter, value: str, element: str, width: int, lanes: int) -> str:
    """The value in the first lanes of a vector of `lanes`."""
    if width == lanes:
        return value
    if width == 1:
        return emit.splat(value, element, lanes)
    return emit.shuffle(value, value, [*range(width), *([-1] * (lanes - width))], element, width)


def _call(emit: LlvmEmitter, value: str, power: str, element: str, lanes: int) -> str:
    bits = lanes * (32 if element == "f32" else 64)
    type_, mask = vector(element, lanes), "i16" if lanes == 16 else "i8"
    every = emit.constant("-1", mask)
    operands, types = [value, power, value, every], [type_, type_, type_, mask]
    if bits == 512:
        operands.append(emit.constant(_CURRENT_ROUNDING, "i32"))
        types.append("i32")
    name = f"llvm.x86.avx512.mask.scalef.{_SUFFIX[element]}.{bits}"
    return emit.pure(f'llvm.call_intrinsic "{name}"({", ".join(operands)}) : ({", ".join(types)}) -> {type_}')
