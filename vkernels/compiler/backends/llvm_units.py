"""The functions of dot units, in LLVM IR: each is one instruction, and is inlined where it is called."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping

from vkernels.ir.dot_units import DOT_UNITS
from vkernels.ir.errors import IRError
from vkernels.ir.lowering.llvm.matrix import MATRIX, Shape
from vkernels.ir.lowering.llvm.words import UNIT, unit_name
from vkernels.ir.word_kinds import KINDS
from vkernels.targets.host_cpu import NEON_BYTES, is_arm

_CALLS = re.compile(rf"@{UNIT}_(\w+?)_(\d+)\b")
_MATRIX_CALLS = re.compile(rf"@{MATRIX}_(\w+)\b")
_DEFINITION = re.compile(r"^(define .*\))((?: #\d+| [a-z_]+)*(?: !dbg !\d+)? \{)$", re.MULTILINE)
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
_SVE_INTRINSICS = {
    kind: f"llvm.aarch64.sve.{name.split('.')[3]}" + ("" if "bf16" in kind else ".nxv4i32")
    for kind, name in _ARM_INTRINSICS.items()
}
_MATRIX_DOTS = {
    kind.removeprefix("matrix_"): f"llvm.x86.{instruction}"
    for unit in DOT_UNITS.values()
    if unit.is_matrix
    for kind, instruction in unit.instructions.items()
}
_MATRIX_MOVES = {"load": "tileloadd64", "pass": "tileloaddt164", "store": "tilestored64"}


def unit_functions(llvm_ir: str, machine: str = "", has_sve: bool = False) -> str:
    """A module of the unit functions that LLVM IR calls; empty if it calls none. `machine`: `aarch64`, `x86_64`, …, as
    `platform` names it; this one's unless given. `has_sve`: whether units are SVE's."""
    make = _sve_function if has_sve else _neon_function if is_arm(machine or platform.machine()) else _function
    found = sorted({(kind, int(lanes)) for kind, lanes in _CALLS.findall(llvm_ir)})
    actions = sorted(set(_MATRIX_CALLS.findall(llvm_ir)))
    functions = [make(kind, lanes) for kind, lanes in found]
    declared = sorted({line for lines, _ in functions for line in lines})
    return "\n".join([*declared, *(text for _, text in functions), *_matrix_functions(actions)])


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
            name = f"llvm.x86.{_MATRIX_MOVES[kind]}"
            declared.add(f"declare void @{name}(i8 immarg, ptr, i64)")
            body = f"call void @{name}(i8 {numbers[0]}, ptr %at, i64 %row)"
        taken = "ptr %at, i64 %row" if kind in _MATRIX_MOVES else ""
        yield f"{head}({taken}) alwaysinline {{\n  {body}\n  ret void\n}}"
    yield from sorted(declared)


def _configuration(shape: Shape) -> bytes:
    """The 64 bytes that `ldtilecfg` reads: the palette, bytes of a row at 16 and rows at 48 of each register."""
    found = bytearray(64)
    found[0] = 1
    for number, (rows, row_bytes) in enumerate(shape.registers):
        found[16 + 2 * number], found[48 + number] = row_bytes, rows
    return bytes(found)


def _function(kind: str, lanes: int, intrinsics: Mapping[str, str] = _INTRINSICS) -> tuple[list[str], str]:
    """The function of a kind of words, and what it needs declared."""
    intrinsic = _intrinsic(kind, intrinsics).format(bits=32 * lanes)
    words, sums, elements = _words(kind, lanes), _sums(kind, lanes), _elements(kind, lanes)
    text = f"""
{_head(kind, lanes)} {{
  %one = bitcast {words} %left to {elements}
  %other = bitcast {words} %right to {elements}
  %result = call {sums} @{intrinsic}({sums} %sums, {elements} %one, {elements} %other)
  ret {sums} %result
}}"""
    return [f"declare {sums} @{intrinsic}({sums}, {elements}, {elements})"], text


def _neon_function(kind: str, lanes: int) -> tuple[list[str], str]:
    return _function(kind, lanes, _ARM_INTRINSICS)


def _sve_function(kind: str, lanes: int) -> tuple[list[str], str]:
    """The same on SVE: vectors of known length are the first part, or all, of ones that are as long as registers."""
    intrinsic, quarter = _intrinsic(kind, _SVE_INTRINSICS), NEON_BYTES // 4
    sums, words = _sums(kind, lanes), _words(kind, lanes)
    long_sums, long_words, elements = (_scalable(of(kind, quarter)) for of in (_sums, _words, _elements))
    insert, insert_words = (f"llvm.vector.insert.{_mangled(a)}.{_mangled(b)}" for a, b in (
        (long_sums, sums), (long_words, words)))  # fmt: skip
    extract = f"llvm.vector.extract.{_mangled(sums)}.{_mangled(long_sums)}"
    text = f"""
{_head(kind, lanes)} {{
  %total = call {long_sums} @{insert}({long_sums} poison, {sums} %sums, i64 0)
  %first = call {long_words} @{insert_words}({long_words} poison, {words} %left, i64 0)
  %second = call {long_words} @{insert_words}({long_words} poison, {words} %right, i64 0)
  %one = bitcast {long_words} %first to {elements}
  %other = bitcast {long_words} %second to {elements}
  %new = call {long_sums} @{intrinsic}({long_sums} %total, {elements} %one, {elements} %other)
  %result = call {sums} @{extract}({long_sums} %new, i64 0)
  ret {sums} %result
}}"""
    declared = [
        f"declare {long_sums} @{intrinsic}({long_sums}, {elements}, {elements})",
        f"declare {long_sums} @{insert}({long_sums}, {sums}, i64)",
        f"declare {long_words} @{insert_words}({long_words}, {words}, i64)",
        f"declare {sums} @{extract}({long_sums}, i64)",
    ]
    return declared, text


def _intrinsic(kind: str, intrinsics: Mapping[str, str]) -> str:
    if kind not in intrinsics:
        raise IRError(f"there is no dot unit for words of {kind}")
    return intrinsics[kind]


def _head(kind: str, lanes: int) -> str:
    sums, words = _sums(kind, lanes), _words(kind, lanes)
    taken = f"{sums} %sums, {words} %left, {words} %right"
    return f"define linkonce_odr hidden {sums} @{unit_name(kind, lanes)}({taken}) alwaysinline"


def _sums(kind: str, lanes: int) -> str:
    return f"<{lanes} x {'float' if KINDS[kind].sum == 'f32' else 'i32'}>"


def _words(kind: str, lanes: int) -> str:
    word = KINDS[kind].bits
    return f"<{32 * lanes // word} x i{word}>"


def _elements(kind: str, lanes: int) -> str:
    return f"<{2 * lanes} x bfloat>" if KINDS[kind].sum == "f32" else f"<{4 * lanes} x i8>"


def _scalable(type_: str) -> str:
    return type_.replace("<", "<vscale x ")


def _mangled(type_: str) -> str:
    """A vector's type as names of intrinsics have it: `nxv4i32`."""
    *scale, count, element = type_.strip("<>").split(" x ")
    return f"{'nxv' if scale else 'v'}{count}{element.replace('float', 'f32')}"


def with_sve(llvm_ir: str, sve_bytes: int) -> str:
    """LLVM IR whose functions know that SVE's vectors have so many bytes: vectors of that length are registers then."""
    scale = sve_bytes // NEON_BYTES
    return _DEFINITION.sub(rf"\1 vscale_range({scale},{scale})\2", llvm_ir)
