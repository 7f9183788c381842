"""A matrix unit in software, as Intel's manual has it: registers in memory, and traps where the shapes do not match."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vkernels.ir.lowering.llvm.matrix import MATRIX, Shape
from vkernels.ir.word_kinds import KINDS

_STATE = """
@soft_registers = linkonce_odr hidden global [8 x [256 x i32]] zeroinitializer
@soft_rows = linkonce_odr hidden global [8 x i32] zeroinitializer
@soft_columns = linkonce_odr hidden global [8 x i32] zeroinitializer
declare void @llvm.trap()
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float, float)

define linkonce_odr hidden i32 @soft_rows_of(i32 %register) {
  %at = getelementptr [8 x i32], ptr @soft_rows, i32 0, i32 %register
  %rows = load i32, ptr %at
  %none = icmp eq i32 %rows, 0
  br i1 %none, label %fail, label %end
fail:
  call void @llvm.trap()
  unreachable
end:
  ret i32 %rows
}
define linkonce_odr hidden i32 @soft_columns_of(i32 %register) {
  %at = getelementptr [8 x i32], ptr @soft_columns, i32 0, i32 %register
  %columns = load i32, ptr %at
  ret i32 %columns
}
define linkonce_odr hidden ptr @soft_word(i32 %register, i32 %row, i32 %column) {
  %start = mul i32 %row, 16
  %number = add i32 %start, %column
  %at = getelementptr [8 x [256 x i32]], ptr @soft_registers, i32 0, i32 %register, i32 %number
  ret ptr %at
}
define linkonce_odr hidden void @soft_equal(i32 %a, i32 %b) {
  %same = icmp eq i32 %a, %b
  br i1 %same, label %end, label %fail
fail:
  call void @llvm.trap()
  unreachable
end:
  ret void
}
define linkonce_odr hidden float @soft_flush(float %value) {
  %size = call float @llvm.fabs.f32(float %value)
  %small = fcmp olt float %size, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %value)
  %result = select i1 %small, float %zero, float %value
  ret float %result
}
define linkonce_odr hidden float @soft_element_bf16(i32 %word, i32 %place) {
  %up = mul i32 %place, 16
  %low = lshr i32 %word, %up
  %bits = shl i32 %low, 16
  %value = bitcast i32 %bits to float
  %result = call float @soft_flush(float %value)
  ret float %result
}
define linkonce_odr hidden float @soft_element_f16(i32 %word, i32 %place) {
  %up = mul i32 %place, 16
  %low = lshr i32 %word, %up
  %bits = trunc i32 %low to i16
  %half = bitcast i16 %bits to half
  %result = fpext half %half to float
  ret float %result
}
"""


def software_matrix_functions(llvm_ir: str) -> Iterator[str]:
    """The functions of a matrix unit that LLVM IR calls, and what they need."""
    actions = sorted(set(re.findall(rf"@{MATRIX}_(\w+)\b", llvm_ir)))
    if actions:
        yield _STATE
    for action in actions:
        kind, *numbers = action.split("_")
        head, body = f"define linkonce_odr hidden void @{MATRIX}_{action}", ""
        if kind == "shape":
            registers = [*Shape(*map(int, numbers)).registers]
            body = "\n".join(_set(n, rows, width // 4) for n, (rows, width) in enumerate(registers))
        elif kind == "release":
            body = "\n".join(_set(n, 0, 0) for n in range(8))
        elif kind == "dot":
            body = f"call void @soft_dot_{numbers[0]}(i32 {numbers[1]}, i32 {numbers[2]}, i32 {numbers[3]})"
            yield _dot(numbers[0])
        if kind in ("load", "pass", "store", "zero"):
            yield _each_row(kind)
            arguments = "ptr null, i64 0" if kind == "zero" else "ptr %at, i64 %row"
            body = f"call void @soft_{kind}(i32 {numbers[0]}, {arguments})"
        yield f"{head}({'ptr %at, i64 %row' if kind in ('load', 'pass', 'store') else ''}) {{\n{body}\nret void\n}}"


def _set(register: int, rows: int, columns: int) -> str:
    place = f"[8 x i32], ptr @soft_{{}}, i32 0, i32 {register}"
    return "\n".join(
        f"store i32 {value}, ptr getelementptr ({place.format(name)})"
        for name, value in (("rows", rows), ("columns", columns))
    )


def _loop(name: str, count: str, body: str) -> str:
    """A loop from 0 to a count; `%name` counts. The block before it ends at its head, the block after it begins."""
    return f"""
  br label %{name}_before
{name}_before:
  br label %{name}_head
{name}_head:
  %{name} = phi i32 [ 0, %{name}_before ], [ %{name}_next, %{name}_last ]
  %{name}_more = icmp ult i32 %{name}, {count}
  br i1 %{name}_more, label %{name}_body, label %{name}_after
{name}_body:
{body}
  br label %{name}_last
{name}_last:
  %{name}_next = add i32 %{name}, 1
  br label %{name}_head
{name}_after:
"""


def _each_row(kind: str) -> str:
    """Zero all 16 x 16 words of a register, then load its shape's rows; or store these."""
    row_and_column = """
  %begin = mul i64 {m64}, %row
  %m_at = getelementptr i8, ptr %at, i64 %begin
  %memory = getelementptr i32, ptr %m_at, i32 %n
  %word = call ptr @soft_word(i32 %register, i32 %m, i32 %n)
"""
    inside = "  %m64 = zext i32 %m to i64" + row_and_column.format(m64="%m64")
    zero = "  %z_word = call ptr @soft_word(i32 %register, i32 0, i32 %z)\n  store i32 0, ptr %z_word"
    if kind == "store":
        inside += "  %value = load i32, ptr %word\n  store i32 %value, ptr %memory, align 1"
    else:
        inside += "  %value = load i32, ptr %memory, align 1\n  store i32 %value, ptr %word"
    moved = "" if kind == "zero" else _loop("m", "%rows", _loop("n", "%columns", inside))
    return f"""
define linkonce_odr hidden void @soft_{kind}(i32 %register, ptr %at, i64 %row) {{
  %rows = call i32 @soft_rows_of(i32 %register)
  %columns = call i32 @soft_columns_of(i32 %register)
{_loop("z", "256", zero) if kind != "store" else ""}{moved}
  ret void
}}"""


def _dot(kind: str) -> str:
    """Products of a kind of words, rows from %a and columns from %b, added to the sums in %c."""
    is_float = kind in ("bf16", "f16")
    inside = """
  %left = call ptr @soft_word(i32 %b, i32 %k, i32 %n)
  %right = call ptr @soft_word(i32 %a, i32 %m, i32 %k)
  %left_word = load i32, ptr %left
  %right_word = load i32, ptr %right
"""
    if is_float:
        for place in (0, 1):
            inside += f"""
  %l{place} = call float @soft_element_{kind}(i32 %left_word, i32 {place})
  %r{place} = call float @soft_element_{kind}(i32 %right_word, i32 {place})
  %before{place} = load float, ptr %sum{place}
  %added{place} = call float @llvm.fma.f32(float %l{place}, float %r{place}, float %before{place})
  %flushed{place} = call float @soft_flush(float %added{place})
  store float %flushed{place}, ptr %sum{place}
"""
        after = """
  %end0 = load float, ptr %sum0
  %end1 = load float, ptr %sum1
  %both = add i32 0, 0
  %pair = fadd float %end0, %end1
  %pair_flushed = call float @soft_flush(float %pair)
  %total_at = call ptr @soft_word(i32 %c, i32 %m, i32 %n)
  %total = load float, ptr %total_at
  %total_flushed = call float @soft_flush(float %total)
  %new = fadd float %total_flushed, %pair_flushed
  %new_flushed = call float @soft_flush(float %new)
  store float %new_flushed, ptr %total_at
"""
        start = "  store float 0.0, ptr %sum0\n  store float 0.0, ptr %sum1"
    else:
        left, right = (
            "ashr" if KINDS[f"matrix_{kind}"].__getattribute__(side) == "s8" else "lshr" for side in ("left", "right")
        )
        inside += "  %total_at = call ptr @soft_word(i32 %c, i32 %m, i32 %n)\n  %s0 = load i32, ptr %total_at\n"
        for n in range(4):
            inside += f"""
  %a{n} = shl i32 %left_word, {24 - 8 * n}
  %b{n} = {left} i32 %a{n}, 24
  %c{n} = shl i32 %right_word, {24 - 8 * n}
  %d{n} = {right} i32 %c{n}, 24
  %e{n} = mul i32 %b{n}, %d{n}
  %s{n + 1} = add i32 %s{n}, %e{n}
"""
        inside += "  store i32 %s4, ptr %total_at"
        start, after = "", ""
    body = start + _loop("k", "%depth", inside) + after
    return f"""
define linkonce_odr hidden void @soft_dot_{kind}(i32 %c, i32 %a, i32 %b) {{
  %sum0 = alloca float
  %sum1 = alloca float
  %rows = call i32 @soft_rows_of(i32 %c)
  %columns = call i32 @soft_columns_of(i32 %c)
  %depth = call i32 @soft_columns_of(i32 %a)
  %a_rows = call i32 @soft_rows_of(i32 %a)
  %b_rows = call i32 @soft_rows_of(i32 %b)
  %b_columns = call i32 @soft_columns_of(i32 %b)
  call void @soft_equal(i32 %rows, i32 %a_rows)
  call void @soft_equal(i32 %columns, i32 %b_columns)
  call void @soft_equal(i32 %depth, i32 %b_rows)
{_loop("m", "%rows", _loop("n", "%columns", body))}
  ret void
}}"""
