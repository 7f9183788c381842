"""The functions of dot units, in LLVM IR: each is one instruction, and is inlined where it is called."""

from __future__ import annotations

import re

from vkernels.ir.errors import IRError
from vkernels.ir.lowering.llvm.words import UNIT, unit_name

_CALLS = re.compile(rf"@{UNIT}_(\w+?)_(\d+)\b")
_INTRINSICS = {
    "u8s8": "llvm.x86.avx512.vpdpbusd.{bits}",
    "s8s8": "llvm.x86.avx2.vpdpbssd.{bits}",
    "bf16": "llvm.x86.avx512bf16.dpbf16ps.{bits}",
}


def unit_functions(llvm_ir: str) -> str:
    """A module of the unit functions that LLVM IR calls; empty if it calls none."""
    found = sorted({(kind, int(lanes)) for kind, lanes in _CALLS.findall(llvm_ir)})
    return "\n".join(_function(kind, lanes) for kind, lanes in found)


def _function(kind: str, lanes: int) -> str:
    if kind not in _INTRINSICS:
        raise IRError(f"there is no dot unit for words of {kind}")
    bits, words = 32 * lanes, f"<{lanes} x i32>"
    intrinsic = _INTRINSICS[kind].format(bits=bits)
    is_float = kind == "bf16"
    sums = f"<{lanes} x float>" if is_float else words
    elements = f"<{2 * lanes} x bfloat>" if is_float else f"<{4 * lanes} x i8>"
    return f"""
declare {sums} @{intrinsic}({sums}, {elements}, {elements})
define linkonce_odr hidden {sums} @{unit_name(kind, lanes)}({sums} %sums, {words} %left, {words} %right) alwaysinline {{
  %one = bitcast {words} %left to {elements}
  %other = bitcast {words} %right to {elements}
  %result = call {sums} @{intrinsic}({sums} %sums, {elements} %one, {elements} %other)
  ret {sums} %result
}}"""
