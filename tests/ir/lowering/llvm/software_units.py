"""Dot units in software, with the semantics that the processors' manuals give, for processors without them."""

from __future__ import annotations

import re

from vkernels.ir.lowering.llvm.words import UNIT, unit_name
from vkernels.ir.word_kinds import KINDS

from .software_matrices import software_matrix_functions


def software_units(llvm_ir: str) -> str:
    """A module of the unit functions that LLVM IR calls."""
    found = {(kind, int(lanes)) for kind, lanes in re.findall(rf"@{UNIT}_(\w+?)_(\d+)\b", llvm_ir)}
    make = {"bf16": _bf16, "bf16_odd": _bf16_odd}
    functions = [
        text
        for kind, lanes in sorted(found)
        for text in (_block if KINDS[kind].block else make.get(kind, _integers))(kind, lanes)
    ]
    return "\n".join(dict.fromkeys([*functions, *software_matrix_functions(llvm_ir)]))


def _splat(element: str, lanes: int, value: str) -> str:
    return f"<{', '.join([f'{element} {value}'] * lanes)}>"


def _integers(kind: str, lanes: int) -> tuple[str, ...]:
    words = f"<{lanes} x i32>"
    shift, other = ("lshr" if side == "u8" else "ashr" for side in (KINDS[kind].left, KINDS[kind].right))
    lines, total = [], "%sums"
    for n in range(4):
        up, down = _splat("i32", lanes, str(24 - 8 * n)), _splat("i32", lanes, "24")
        lines += [
            f"%a{n} = shl {words} %left, {up}",
            f"%b{n} = {shift} {words} %a{n}, {down}",
            f"%c{n} = shl {words} %right, {up}",
            f"%d{n} = {other} {words} %c{n}, {down}",
            f"%e{n} = mul {words} %b{n}, %d{n}",
            f"%sum{n} = add {words} {total}, %e{n}",
        ]
        total = f"%sum{n}"
    return (_function(kind, lanes, words, lines, total),)


def _bf16(kind: str, lanes: int) -> tuple[str, ...]:
    words, floats = f"<{lanes} x i32>", f"<{lanes} x float>"
    low, high = _splat("i32", lanes, "16"), _splat("i32", lanes, "-65536")
    lines = [
        f"%a0 = shl {words} %left, {low}",
        f"%a1 = and {words} %left, {high}",
        f"%b0 = shl {words} %right, {low}",
        f"%b1 = and {words} %right, {high}",
    ]
    for name in ("a0", "a1", "b0", "b1"):
        lines.append(f"%{name}s = bitcast {words} %{name} to {floats}")
        lines += _flush(f"%{name}f", f"%{name}s", lanes)
    lines += _flush("%start", "%sums", lanes)
    fma = f"call {floats} @llvm.fma.v{lanes}f32"
    lines.append(f"%first = {fma}({floats} %a1f, {floats} %b1f, {floats} %start)")
    lines += _flush("%middle", "%first", lanes)
    lines.append(f"%second = {fma}({floats} %a0f, {floats} %b0f, {floats} %middle)")
    lines += _flush("%end", "%second", lanes)
    declared = [f"declare {floats} @llvm.{name}.v{lanes}f32({types})" for name, types in (
        ("fma", f"{floats}, {floats}, {floats}"), ("fabs", floats), ("copysign", f"{floats}, {floats}"),
    )]  # fmt: skip
    return (*declared, _function(kind, lanes, floats, lines, "%end"))


def _bf16_odd(kind: str, lanes: int) -> tuple[str, ...]:
    """Lane by lane: both products exactly, in f64, then their sum and that with the sum so far, rounded to odd."""
    words, floats = f"<{lanes} x i32>", f"<{lanes} x float>"
    lines, result = [], "%sums"
    for lane in range(lanes):
        for name, source in (("l", "%left"), ("r", "%right")):
            lines.append(f"%{name}{lane} = extractelement {words} {source}, i32 {lane}")
        lines += [
            f"%sum{lane} = extractelement {floats} %sums, i32 {lane}",
            f"%new{lane} = call float @soft_pair(float %sum{lane}, i32 %l{lane}, i32 %r{lane})",
            f"%result{lane} = insertelement {floats} {result}, float %new{lane}, i32 {lane}",
        ]
        result = f"%result{lane}"
    return _ODD, _PAIR, _function(kind, lanes, floats, lines, result)


def _block(kind: str, lanes: int) -> tuple[str, ...]:
    """Two rows by two columns of words of 64 bits, of each four lanes: each sum takes the elements, or the pairs of
    floats, in order."""
    is_float = KINDS[kind].sum == "f32"
    number, words = ("float" if is_float else "i32"), f"<{lanes // 2} x i64>"
    sums, lines, result = f"<{lanes} x {number}>", [], "%sums"
    for place in range(lanes // 2):
        lines += [f"%{side[0]}{place} = extractelement {words} %{side}, i32 {place}" for side in ("left", "right")]
    for lane in range(lanes):
        first = lane // 4 * 2
        operands = f"i64 %l{first + lane % 4 // 2}, i64 %r{first + lane % 2}"
        lines += [
            f"%sum{lane} = extractelement {sums} %sums, i32 {lane}",
            f"%new{lane} = call {number} @soft_{kind}({number} %sum{lane}, {operands})",
            f"%result{lane} = insertelement {sums} {result}, {number} %new{lane}, i32 {lane}",
        ]
        result = f"%result{lane}"
    head = f"define linkonce_odr hidden {sums} @{unit_name(kind, lanes)}({sums} %sums, {words} %left, {words} %right)"
    body = "\n".join((f"{head} noinline {{", *lines, f"ret {sums} {result}", "}"))
    return (_ODD, _PAIR, _PAIRS, body) if is_float else (_sum_of_eight(kind), body)


def _sum_of_eight(kind: str) -> str:
    lines, total = [], "%sum"
    shifts = ["lshr" if side == "u8" else "ashr" for side in (KINDS[kind].left, KINDS[kind].right)]
    for n in range(8):
        for side, shift in zip(("left", "right"), shifts, strict=True):
            lines += [f"%{side}{n} = shl i64 %{side}, {56 - 8 * n}", f"%{side}{n}w = {shift} i64 %{side}{n}, 56"]
            lines.append(f"%{side}{n}i = trunc i64 %{side}{n}w to i32")
        lines += [f"%p{n} = mul i32 %left{n}i, %right{n}i", f"%sum{n} = add i32 {total}, %p{n}"]
        total = f"%sum{n}"
    head = f"define linkonce_odr hidden i32 @soft_{kind}(i32 %sum, i64 %left, i64 %right) noinline {{"
    return "\n".join((head, *lines, f"ret i32 {total}", "}", ""))


def _pair() -> str:
    lines = []
    for side in ("left", "right"):
        lines += [f"%{side}low = shl i32 %{side}, 16", f"%{side}high = and i32 %{side}, -65536"]
        for part in ("low", "high"):
            lines += [
                f"%{side}{part}f = bitcast i32 %{side}{part} to float",
                f"%{side}{part}z = call float @soft_zero(float %{side}{part}f)",
                f"%{side}{part}d = fpext float %{side}{part}z to double",
            ]
    for part in ("low", "high"):
        lines += [
            f"%{part}d = fmul double %left{part}d, %right{part}d",
            f"%{part} = call float @soft_odd(double %{part}d, double 0.0)",
            f"%{part}w = fpext float %{part} to double",
        ]
    lines += [
        "%both = call float @soft_odd(double %loww, double %highw)",
        "%bothd = fpext float %both to double",
        "%sumz = call float @soft_zero(float %sum)",
        "%sumd = fpext float %sumz to double",
        "%new = call float @soft_odd(double %sumd, double %bothd)",
    ]
    head = "define linkonce_odr hidden float @soft_pair(float %sum, i32 %left, i32 %right) noinline {"
    return "\n".join((head, *lines, "ret float %new", "}", ""))


_PAIR = _pair()
_PAIRS = """
define linkonce_odr hidden float @soft_block_bf16_odd(float %sum, i64 %left, i64 %right) {
  %left0 = trunc i64 %left to i32
  %right0 = trunc i64 %right to i32
  %middle = call float @soft_pair(float %sum, i32 %left0, i32 %right0)
  %left_up = lshr i64 %left, 32
  %right_up = lshr i64 %right, 32
  %left1 = trunc i64 %left_up to i32
  %right1 = trunc i64 %right_up to i32
  %end = call float @soft_pair(float %middle, i32 %left1, i32 %right1)
  ret float %end
}
"""


_ODD = """
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float, float)
define linkonce_odr hidden float @soft_zero(float %value) {
  %size = call float @llvm.fabs.f32(float %value)
  %small = fcmp olt float %size, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %value)
  %result = select i1 %small, float %zero, float %value
  ret float %result
}
define linkonce_odr hidden float @soft_odd(double %one, double %other) noinline {
  %total = fadd double %one, %other
  %part = fsub double %total, %one
  %rest = fsub double %total, %part
  %error_one = fsub double %one, %rest
  %error_other = fsub double %other, %part
  %error = fadd double %error_one, %error_other
  %bits = bitcast double %total to i64
  %size = and i64 %bits, 9223372036854775807
  %is_off = fcmp one double %error, 0.0
  %below = fcmp olt double %error, 0.0
  %negative = icmp slt i64 %bits, 0
  %apart = xor i1 %below, %negative
  %too_large = and i1 %is_off, %apart
  %less = zext i1 %too_large to i64
  %cut = sub i64 %size, %less
  %low = and i64 %cut, 536870911
  %has_low = icmp ne i64 %low, 0
  %inexact = or i1 %has_low, %is_off
  %sticky = zext i1 %inexact to i64
  %shifted = lshr i64 %cut, 29
  %biased = sub i64 %shifted, 7516192768
  %odd = or i64 %biased, %sticky
  %exponent = lshr i64 %cut, 52
  %is_small = icmp ult i64 %exponent, 897
  %is_large = icmp ugt i64 %exponent, 1150
  %flushed = select i1 %is_small, i64 0, i64 %odd
  %narrow = select i1 %is_large, i64 2139095040, i64 %flushed
  %signs = lshr i64 %bits, 32
  %sign = and i64 %signs, 2147483648
  %signed = or i64 %narrow, %sign
  %single = trunc i64 %signed to i32
  %finite = bitcast i32 %single to float
  %plain = fptrunc double %total to float
  %difference = fsub double %total, %total
  %is_finite = fcmp oeq double %difference, 0.0
  %result = select i1 %is_finite, float %finite, float %plain
  ret float %result
}
"""


def _flush(result: str, value: str, lanes: int) -> list[str]:
    floats, name = f"<{lanes} x float>", result.removeprefix("%")
    return [
        f"%{name}_size = call {floats} @llvm.fabs.v{lanes}f32({floats} {value})",
        f"%{name}_small = fcmp olt {floats} %{name}_size, {_splat('float', lanes, '0x3810000000000000')}",
        f"%{name}_zero = call {floats} @llvm.copysign.v{lanes}f32({floats} zeroinitializer, {floats} {value})",
        f"{result} = select <{lanes} x i1> %{name}_small, {floats} %{name}_zero, {floats} {value}",
    ]


def _function(kind: str, lanes: int, sums: str, lines: list[str], result: str) -> str:
    words = f"<{lanes} x i32>"
    head = f"define linkonce_odr hidden {sums} @{unit_name(kind, lanes)}({sums} %sums, {words} %left, {words} %right)"
    return "\n".join((f"{head} alwaysinline {{", *lines, f"ret {sums} {result}", "}"))
