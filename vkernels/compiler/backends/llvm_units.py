"""The functions of dot units, in LLVM IR: each is one instruction, and is inlined where it is called."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator

from vkernels.ir.dot_units import DOT_UNITS
from vkernels.ir.errors import IRError
from vkernels.ir.lowering.llvm.matrix import MATRIX, Shape
from vkernels.ir.lowering.llvm.words import UNIT, unit_name
from vkernels.ir.word_kinds import KINDS
from vkernels.targets.host_cpu import is_arm

_CALLS = re.compile(rf"@{UNIT}_(\w+?)_(\d+)\b")
_MATRIX_CALLS = re.compile(rf"@{MATRIX}_(\w+)\b")
_INTRINSICS = {
    "u8s8": "llvm.x86.avx512.vpdpbusd.{bits}",
    "s8s8": "llvm.x86.avx2.vpdpbssd.{bits}",
    "s8u8": "llvm.x86.avx2.vpdpbsud.{bits}",
    "u8u8": "llvm.x86.avx2.vpdpbuud.{bits}",
    "bf16": "llvm.x86.avx512bf16.dpbf16ps.{bits}",
}
_ARM_INTRINSICS = {
    "s8s8": "llvm.aarch64.neon.sdot.v4i32.v16i8",
    "u8u8": "llvm.aarch64.neon.udot.v4i32.v16i8",
    "u8s8": "llvm.aarch64.neon.usdot.v4i32.v16i8",
    "bf16_odd": "llvm.aarch64.neon.bfdot.v4f32.v8bf16",
    "block_s8s8": "llvm.aarch64.neon.smmla.v4i32.v16i8",
    "block_u8u8": "llvm.aarch64.neon.ummla.v4i32.v16i8",
    "block_u8s8": "llvm.aarch64.neon.usmmla.v4i32.v16i8",
    "block_bf16_odd": "llvm.aarch64.neon.bfmmla",
}
_MATRIX_DOTS = {
    kind.removeprefix("matrix_"): f"llvm.x86.{instruction}"
    for unit in DOT_UNITS.values()
    if unit.is_matrix
    for kind, instruction in unit.instructions.items()
}


def unit_functions(llvm_ir: str, machine: str = "") -> str:
    """A module of the unit functions that LLVM IR calls; empty if it calls none. `machine`: `aarch64`, `x86_64`, …, as
    `platform` names it; this one's unless given."""
    on_arm = is_arm(machine or platform.machine())
    found = sorted({(kind, int(lanes)) for kind, lanes in _CALLS.findall(llvm_ir)})
    actions = sorted(set(_MATRIX_CALLS.findall(llvm_ir)))
    return "\n".join([*(_function(kind, lanes, on_arm) for kind, lanes in found), *_matrix_functions(actions)])


def _matrix_functions(actions: list[str]) -> Iterator[str]:
    """The functions of a matrix unit, by their names' ends: instructions of AMX on registers by number."""
    declared = set()
    for action in actions:
        kind, *numbers = action.split("_")
        head = f"define linkonce_odr hidden void @{MATRIX}_{action}"
        if kind == "shape":
            declared.add("declare void @llvm.x86.ldtilecfg(ptr)")
            shape = ", ".join(f"i8 {byte}" for byte in _configuration(Shape(*map(int, numbers))))
            yield f"@{MATRIX}_{action}_bytes = linkonce_odr hidden constant [64 x i8] [{shape}], align 64"
            body = f"call void @llvm.x86.ldtilecfg(ptr @{MATRIX}_{action}_bytes)"
        elif kind == "release":
            declared.add("declare void @llvm.x86.tilerelease()")
            body = "call void @llvm.x86.tilerelease()"
        elif kind == "zero":
            declared.add("declare void @llvm.x86.tilezero(i8 immarg)")
            body = f"call void @llvm.x86.tilezero(i8 {numbers[0]})"
        elif kind == "dot":
            name = _MATRIX_DOTS[numbers[0]]
            declared.add(f"declare void @{name}(i8 immarg, i8 immarg, i8 immarg)")
            body = f"call void @{name}({', '.join(f'i8 {number}' for number in numbers[1:])})"
        else:
            name = "llvm.x86.tileloadd64" if kind == "load" else "llvm.x86.tilestored64"
            declared.add(f"declare void @{name}(i8 immarg, ptr, i64)")
            body = f"call void @{name}(i8 {numbers[0]}, ptr %at, i64 %row)"
        taken = "ptr %at, i64 %row" if kind in ("load", "store") else ""
        yield f"{head}({taken}) alwaysinline {{\n  {body}\n  ret void\n}}"
    yield from sorted(declared)


def _configuration(shape: Shape) -> bytes:
    """The 64 bytes that `ldtilecfg` reads: the palette, bytes of a row at 16 and rows at 48 of each register."""
    found = bytearray(64)
    found[0] = 1
    for number, (rows, row_bytes) in enumerate(shape.registers):
        found[16 + 2 * number], found[48 + number] = row_bytes, rows
    return bytes(found)


def _function(kind: str, lanes: int, on_arm: bool) -> str:
    intrinsics = _ARM_INTRINSICS if on_arm else _INTRINSICS
    if kind not in intrinsics:
        raise IRError(f"there is no dot unit for words of {kind}")
    bits, word = 32 * lanes, KINDS[kind].bits
    words = f"<{bits // word} x i{word}>"
    intrinsic = intrinsics[kind].format(bits=bits)
    is_float = KINDS[kind].sum == "f32"
    sums = f"<{lanes} x {'float' if is_float else 'i32'}>"
    elements = f"<{2 * lanes} x bfloat>" if is_float else f"<{4 * lanes} x i8>"
    return f"""
declare {sums} @{intrinsic}({sums}, {elements}, {elements})
define linkonce_odr hidden {sums} @{unit_name(kind, lanes)}({sums} %sums, {words} %left, {words} %right) alwaysinline {{
  %one = bitcast {words} %left to {elements}
  %other = bitcast {words} %right to {elements}
  %result = call {sums} @{intrinsic}({sums} %sums, {elements} %one, {elements} %other)
  ret {sums} %result
}}"""
