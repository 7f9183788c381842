"""Dot units in software, with the semantics that the processors' manuals give, for processors without them."""

from __future__ import annotations

import re

from vkernels.ir.lowering.llvm.words import UNIT, unit_name


def software_units(llvm_ir: str) -> str:
    """A module of the unit functions that LLVM IR calls."""
    found = {(kind, int(lanes)) for kind, lanes in re.findall(rf"@{UNIT}_(\w+?)_(\d+)\b", llvm_ir)}
    return "\n".join((_bf16 if kind == "bf16" else _integers)(kind, lanes) for kind, lanes in sorted(found))


def _splat(element: str, lanes: int, value: str) -> str:
    return f"<{', '.join([f'{element} {value}'] * lanes)}>"


def _integers(kind: str, lanes: int) -> str:
    words = f"<{lanes} x i32>"
    shift = "lshr" if kind == "u8s8" else "ashr"
    lines, total = [], "%sums"
    for n in range(4):
        up, down = _splat("i32", lanes, str(24 - 8 * n)), _splat("i32", lanes, "24")
        lines += [
            f"%a{n} = shl {words} %left, {up}",
            f"%b{n} = {shift} {words} %a{n}, {down}",
            f"%c{n} = shl {words} %right, {up}",
            f"%d{n} = ashr {words} %c{n}, {down}",
            f"%e{n} = mul {words} %b{n}, %d{n}",
            f"%sum{n} = add {words} {total}, %e{n}",
        ]
        total = f"%sum{n}"
    return _function(kind, lanes, words, lines, total)


def _bf16(kind: str, lanes: int) -> str:
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
    return "\n".join((*declared, _function(kind, lanes, floats, lines, "%end")))


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
