"""Texts of loops of machine code that go over memory, for calibration."""

from __future__ import annotations

from collections.abc import Iterable


def sums_text(kind: str, count: int) -> tuple[list[str], list[str]]:
    """Sums `%t0`, … that go on from pass to pass as `%r0`, …, and what keeps them at the end."""
    each = range(count)
    carried = [f"%r{n} = phi {kind} [zeroinitializer, %entry], [%t{n}, %after]" for n in each]
    return carried, [f"store volatile {kind} %t{n}, ptr %at, align 8" for n in each]


def function_text(name: str, first: str, passes: str, more: str = "") -> str:
    """A function of memory, blocks and steps. `first`: what it does once; `more`: parameters after the memory."""
    return f"""
define void @{name}(i64 %memory, {more}i64 %blocks, i64 %steps) {{
entry:
  %at = inttoptr i64 %memory to ptr
  {first}
  br label %pass
{passes}"""


def steps_text(name: str, first: Iterable[str], body: Iterable[str], last: Iterable[str]) -> str:
    """A function of memory and steps, whose body runs `%steps` times. `first`, `last`: what comes before and after."""
    return f"""
define void @{name}(i64 %memory, i64 %steps) {{
entry:
  %at = inttoptr i64 %memory to ptr
  {joined(first)}
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  {joined(body)}
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %loop, label %done
done:
  {joined(last)}
  ret void
}}"""


def passes_text(
    body: Iterable[str], first: str, element: str, step: int, carried: Iterable[str], kept: Iterable[str],
    last: str = "loop",
) -> str:  # fmt: skip
    """`%steps` passes over `%blocks` blocks of `step` elements from the pointer `first` on. `carried`: what goes on
    from pass to pass; `kept`: what is stored at the end; `last`: the block in which the body ends."""
    return f"""pass:
  %p = phi i64 [0, %entry], [%done_passes, %after]
  {joined(carried)}
  br label %loop
loop:
  %n = phi i64 [0, %pass], [%next, %{last}]
  %here = phi ptr [{first}, %pass], [%there, %{last}]
  {joined(body)}
  %there = getelementptr {element}, ptr %here, i64 {step}
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %blocks
  br i1 %more, label %loop, label %after
after:
  %done_passes = add i64 %p, 1
  %again = icmp slt i64 %done_passes, %steps
  br i1 %again, label %pass, label %done
done:
  {joined(kept)}
  ret void
}}"""


def joined(lines: Iterable[str]) -> str:
    return "\n  ".join(lines)


def splat(lanes: int, kind: str, value: float) -> str:
    """A vector of the same constant in all lanes."""
    return f"<{', '.join([f'{kind} {value}'] * lanes)}>"
