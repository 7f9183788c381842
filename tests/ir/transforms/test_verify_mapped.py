"""What breaks the contract of mapped IR is named: the kernel, the operation and the rule."""

from __future__ import annotations

import pytest

from vkernels.ir.errors import IRError
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.verify_mapped import verify_mapped

ROW = "tensor<4xf32, #vk.axes<n>>"
VECTOR = "!vk.tensor<[N], f32>"


def mapped(body: str, top: str = "", facts: str = "sizes = {}, multiples = {}, strides = {}") -> str:
    return f"""
vk.mapped @k(%x: {VECTOR}, %h: !vk.tensor<[N], f16>, %out: {VECTOR}) lanes n facts {{{facts}}} {{
  %one = arith.constant 1 : i64
  %M = vk.size M
{top}
  vk.launch "all" over (%p = %one) {{
    %zero = arith.constant 0 : i64
{body}
  }}
}}
"""


COPY = f"""
    %a = vk.load %x[n] : {VECTOR} -> {ROW}
    vk.store %a in %out[n] : {VECTOR} <- {ROW}
"""
GUARDED = f"""
    %a = vk.load %x[n] guarding [0] : {VECTOR} -> {ROW}
"""


def test_what_keeps_the_contract_passes():
    verify_mapped(parse_module(mapped(COPY)))
    verify_mapped(parse_module(mapped(GUARDED, "  %N = vk.size N")))
    verify_mapped(parse_module(mapped(GUARDED, facts="sizes = {N = 4 : i64}, multiples = {}, strides = {}")))


BREACHES = {
    "a tile computed at the top level": (
        mapped(COPY, f"  %b = vk.load %x[n] : {VECTOR} -> {ROW}"),
        "vk.load at the top level, where only sizes, i64 arithmetic, buffers and launches are allowed",
    ),
    "floats at the top level": (
        mapped(COPY, "  %f = arith.constant 1.0 : f32"),
        "arith.constant of f32 at the top level, where arithmetic is i64",
    ),
    "an operation of another stage": (
        mapped(COPY + "    %N = vk.size N"),
        'vk.size in launch "all", which a lowering does not know',
    ),
    "a loop over another type": (
        mapped("    %c = arith.constant 1 : i32\n    scf.for %k = %c to %c step %c : i32 {\n    }" + COPY),
        "counts in i32, expected i64",
    ),
    "arithmetic in a memory format": (
        mapped(
            "    %a = vk.load %h[n] : !vk.tensor<[N], f16> -> tensor<4xf16, #vk.axes<n>>\n"
            "    %b = arith.addf %a, %a : tensor<4xf16, #vk.axes<n>>"
        ),
        "computes in f16, which is a memory format",
    ),
    "a guard of a size that is not known": (
        mapped(GUARDED),
        "vk.load guards a dimension of N, which no vk.size at the top level names",
    ),
    "a tile without a constant size": (
        mapped(f"    %a = vk.load %x[n] : {VECTOR} -> tensor<?xf32, #vk.axes<n>>"),
        "vk.load makes a tile whose size along n is not constant",
    ),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_named(breach):
    text, words = BREACHES[breach]
    module = parse_module(text)
    with pytest.raises(IRError) as error:
        verify_mapped(module)
    assert "vk.mapped @k: " in str(error.value)
    assert words in str(error.value)


def test_memory_inside_a_loop_is_refused():
    text = mapped(
        f"    scf.for %k = %zero to %one step %one : i64 {{\n"
        f'      %s = vk.scratch "s" : !vk.scratch<[4], f32>\n'
        f"    }}\n{COPY}"
    )
    with pytest.raises(IRError, match="'s' is inside a loop or branch"):
        verify_mapped(parse_module(text))


def test_memory_of_unknown_size_is_refused():
    text = mapped(f'    %s = vk.scratch "s" : !vk.scratch<[N], f32>\n{COPY}')
    with pytest.raises(IRError, match="scratchpad has constant dimensions"):
        verify_mapped(parse_module(text))
    text = mapped(f'    %n = arith.addi %one, %one : i64\n    %s = vk.buffer "s" [%n] : !vk.buffer<[?], f32>\n{COPY}')
    with pytest.raises(IRError, match=r"'s' .* is as large as a value that is not computed at the top level"):
        verify_mapped(parse_module(text))
