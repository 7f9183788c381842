"""Loops, branches, scratchpad, buffers, launches, and the functions that the runtime calls."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.compiler.backends.llvm import compile_cpu
from vkernels.ir.errors import IRError, UnsupportedError
from vkernels.ir.text import parse_module

from .memory import guarded, poisoned
from .running import Call, compiled, run
from .texts import facts, tile

X = "!vk.tensor<[M, N], f32>"


def test_a_loop_carries_tiles_and_a_branch_gives_them() -> None:
    t = tile("f32", i=2, j=19)
    text = f"""
vk.mapped @loop(%x: {X}, %out: {X}, %n: i64, %scale: f64, %twice: i1) lanes j {facts({"x": [-1, 1], "out": [-1, 1]})} {{
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  vk.launch "loop" over (%p = %one) {{
    %t = vk.load %x[i, j] : {X} -> {t}
    %sum, %last = scf.for %k = %zero to %n step %one iter_args(%s = %t, %w = %zero) -> ({t}, i64) : i64 {{
      %a = arith.addf %s, %t : {t}
      scf.yield %a, %k : {t}, i64
    }}
    %r = scf.if %twice -> ({t}) {{
      %d = arith.addf %sum, %sum : {t}
      scf.yield %d : {t}
    }} else {{
      %narrow = arith.truncf %scale : f64 to f32
      %b = vk.broadcast %narrow : f32 -> {t}
      %d = arith.mulf %sum, %b : {t}
      scf.yield %d : {t}
    }}
    vk.store %r in %out[i, j] : {X} <- {t}
  }}
}}
"""
    code = compiled(text)
    x = guarded(np.random.default_rng(0).random((2, 19), np.float32))
    for n, twice in ((0, True), (3, True), (3, False), (-2, False)):
        out = poisoned(x.shape, np.float32)
        Call(code, [x, out, n, 0.25, twice], {}).run()
        np.testing.assert_allclose(out, x * (max(n, 0) + 1) * (2 if twice else 0.25), rtol=1e-6)


@pytest.mark.parametrize("chunk", [2, 20])
def test_rows_under_masks_from_before_a_loop_are_zero_where_inactive(chunk) -> None:
    left, right, sums = tile("f32", i=3, k=chunk), tile("f32", k=chunk, j=19), tile("f32", i=3, j=19)
    rows, masks, mask = tile("i64", i=3), tile("i1", i=3), tile("i1", i=3, k=chunk)
    strides = facts({"x": [-1, 1], "w": [-1, 1], "out": [-1, 1]})
    text = f"""
vk.mapped @product(%x: {X}, %w: {X}, %out: {X}, %count: i64, %depth: i64) lanes j {strides} {{
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %step = arith.constant {chunk} : i64
  vk.launch "product" over (%p = %one) {{
    %row = vk.position i : {rows}
    %counts = vk.broadcast %count : i64 -> {rows}
    %active = arith.cmpi slt, %row, %counts : {rows}
    %none = arith.constant 0.0 : f32
    %start = vk.broadcast %none : f32 -> {sums}
    %sum = scf.for %k0 = %zero to %depth step %step iter_args(%s = %start) -> ({sums}) : i64 {{
      %mask = vk.broadcast %active : {masks} -> {mask}
      %l = vk.load %x[i, %k0 + k] where %mask : {X} -> {left}
      %r = vk.load %w[%k0 + k, j] : {X} -> {right}
      %d = vk.dot %l, %r, %s along k precision ieee : {left}, {right}, {sums}
      scf.yield %d : {sums}
    }}
    vk.store %sum in %out[i, j] : {X} <- {sums}
  }}
}}
"""
    code, random = compiled(text), np.random.default_rng(0)
    w = guarded(random.random((40, 19), np.float32))
    for count in (3, 2, 0):
        x = random.random((3, 40), np.float32)
        expected = x @ w
        expected[count:], x[count:] = 0, np.nan
        out = poisoned(expected.shape, np.float32)
        Call(code, [guarded(x), w, out, count, 40], {}).run()
        np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_while_on_scalars_carries_tiles() -> None:
    t = tile("f32", j=20)
    text = f"""
vk.mapped @loop(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>, %n: i64)
    lanes j {facts({"x": [1], "out": [1]})} {{
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  vk.launch "loop" over (%p = %one) {{
    %t = vk.load %x[j] : !vk.tensor<[N], f32> -> {t}
    %k, %r = scf.while (%a = %zero, %s = %t) : (i64, {t}) -> (i64, {t}) {{
      %more = arith.cmpi slt, %a, %n : i64
      scf.condition(%more) %a, %s : i64, {t}
    }} do {{
    ^bb0(%b: i64, %u: {t}):
      %c = arith.addi %b, %one : i64
      %v = arith.addf %u, %t : {t}
      scf.yield %c, %v : i64, {t}
    }}
    vk.store %r in %out[j] : !vk.tensor<[N], f32> <- {t}
  }}
}}
"""
    x = guarded(np.arange(20, dtype=np.float32))
    out = poisoned(x.shape, np.float32)
    run(text, [x, out, 4], {})
    np.testing.assert_array_equal(out, 5 * x)


@pytest.mark.parametrize("lanes", ["lanes i", ""])
def test_two_copies_of_a_scratchpad_swap_in_a_loop(lanes: str) -> None:
    """Every step, element i becomes its neighbour's value plus one."""
    t, s = tile("f32", i=24), "!vk.scratch<[24], f32>"
    text = f"""
vk.mapped @swap(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>, %n: i64)
    {lanes} {facts({"x": [1], "out": [1]})} {{
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 24 : i64
  vk.launch "swap" over (%p = %one) {{
    %a = vk.scratch "a" : {s}
    %b = vk.scratch "b" : {s}
    %t = vk.load %x[i] : !vk.tensor<[N], f32> -> {t}
    vk.store %t in %a[i] : {s} <- {t}
    %old, %new = scf.for %k = %zero to %n step %one iter_args(%o = %a, %w = %b) -> ({s}, {s}) : i64 {{
      %i = vk.position i : {tile("i64", i=24)}
      %c1 = vk.broadcast %one : i64 -> {tile("i64", i=24)}
      %c24 = vk.broadcast %size : i64 -> {tile("i64", i=24)}
      %next = arith.addi %i, %c1 : {tile("i64", i=24)}
      %at = arith.remsi %next, %c24 : {tile("i64", i=24)}
      %v = vk.gather %o[%at] : {s}, ({tile("i64", i=24)}) -> {t}
      %ones = arith.constant dense<1.0> : {t}
      %r = arith.addf %v, %ones : {t}
      vk.store %r in %w[i] : {s} <- {t}
      vk.barrier
      scf.yield %w, %o : {s}, {s}
    }}
    %r = vk.load %old[i] : {s} -> {t}
    vk.store %r in %out[i] : !vk.tensor<[N], f32> <- {t}
  }}
}}
"""
    code = compiled(text)
    assert code.workspace == 256
    x = guarded(np.arange(24, dtype=np.float32))
    for n in (0, 1, 7):
        out = poisoned(x.shape, np.float32)
        Call(code, [x, out, n], {}).run()
        np.testing.assert_array_equal(out, np.roll(x, -n) + n)


def test_scratchpad_of_branches_that_exclude_each_other_is_shared() -> None:
    t, s = tile("f32", i=16), "!vk.scratch<[16], f32>"
    part = f"""
      %a = vk.scratch "a" : {s}
      %z = arith.constant dense<1.0> : {t}
      vk.store %z in %a[i] : {s} <- {t}
      %r = vk.load %a[i] : {s} -> {t}
      vk.store %r in %out[i] : !vk.tensor<[N], f32> <- {t}"""
    text = f"""
vk.mapped @branches(%out: !vk.tensor<[N], f32>, %w: i1) lanes i {facts({"out": [1]})} {{
  %one = arith.constant 1 : i64
  vk.launch "branches" over (%p = %one) {{
    %kept = vk.scratch "kept" : !vk.scratch<[3], i8>
    scf.if %w {{ {part} }} else {{ {part} }}
  }}
}}
"""
    assert compiled(text).workspace == 128


def test_buffers_cross_launches_and_coordinates_vary_last_fastest() -> None:
    b = "!vk.buffer<[?, 3, ?], i64>"
    text = f"""
vk.mapped @grid(%out: !vk.tensor<[M, 3, N], i64>, %scale: i64) {{
  %N = vk.size N
  %M = vk.size M
  %three = arith.constant 3 : i64
  %ten = arith.constant 10 : i64
  %unused = vk.buffer "unused"[] : !vk.buffer<[5], bf16>
  %b = vk.buffer "b"[%M, %N] : {b}
  vk.launch "write" over (%i = %M, %j = %three, %k = %N) {{
    %x = arith.muli %i, %ten : i64
    %y = arith.addi %x, %j : i64
    %z = arith.muli %y, %ten : i64
    %w = arith.addi %z, %k : i64
    %v = arith.muli %w, %scale : i64
    vk.store %v in %b[%i, %j, %k] : {b} <- i64
  }}
  vk.launch "read" over (%k = %N, %i = %M) {{
    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    scf.for %j = %c0 to %three step %c1 : i64 {{
      %v = vk.load %b[%i, %j, %k] : {b} -> i64
      vk.store %v in %out[%i, %j, %k] : !vk.tensor<[M, 3, N], i64> <- i64
    }}
  }}
  vk.launch "nothing" over () {{
  }}
}}
"""
    out = poisoned((4, 3, 5), np.int64)
    call = Call(compiled(text), [out, 7], {"M": 4, "N": 5})
    assert call.code.sizes == ("N", "M")
    assert [b.size for b in call.buffers] == [10, 4 * 3 * 5 * 8]
    assert call.programs == [60, 20, 1]
    call.run()
    i, j, k = np.mgrid[:4, :3, :5]
    np.testing.assert_array_equal(out, 7 * (100 * i + 10 * j + k))
    assert Call(call.code, [out, 7], {"M": -1, "N": 0}).programs == [0, 0, 1]


def test_known_sizes_are_constants_and_slots_stay() -> None:
    text = f"""
vk.mapped @known(%out: !vk.tensor<[N], f32>) lanes j
    facts {{sizes = {{N = 40 : i64}}, multiples = {{}}, strides = {{out = [1 : i64]}}, distinct}} {{
  %N = vk.size N
  %one = arith.constant 1 : i64
  vk.launch "known" over (%p = %one) {{
    %z = arith.constant dense<1.0> : {tile("f32", j=40)}
    vk.store %z in %out[j] within (j < %N) : !vk.tensor<[N], f32> <- {tile("f32", j=40)}
  }}
}}
"""
    out = poisoned((40,), np.float32)
    code = compiled(text)
    assert (code.sizes, code.slots) == (("N",), 3)
    Call(code, [out], {"N": 40}).run()
    assert (out == 1).all()


def test_swap_space_prints_and_assertions_in_a_launch() -> None:
    t, b = tile("f32", j=8), "!vk.buffer<[2, 8], f32>"
    text = f"""
vk.mapped @swap(%out: !vk.tensor<[N], f32>) lanes j {facts({"out": [1]})} {{
  %one = arith.constant 1 : i64
  %yes = arith.constant true
  vk.launch "swap" over (%p = %one) {{
    %b = vk.buffer "b"[] : {b}
    %z = arith.constant dense<3.0> : {t}
    vk.store %z in %b[%one, j] : {b} <- {t}
    vk.print "z" %z : {t}
    vk.assert %yes, "always" : i1
    %r = vk.load %b[%one, j] : {b} -> {t}
    vk.store %r in %out[j] : !vk.tensor<[N], f32> <- {t}
  }}
}}
"""
    out = poisoned((8,), np.float32)
    run(text, [out], {"N": 8})
    assert (out == 3).all()


def test_what_has_no_native_form_is_named() -> None:
    text = f"""
vk.mapped @boundary(%x: !vk.tensor<[N], f32>) lanes j {{
  %one = arith.constant 1 : i64
  vk.launch "boundary" over (%p = %one) {{
    %a = vk.load %x[j] : !vk.tensor<[N], f32> -> {tile("f32", j=8)}
    vk.phase "p" {{
    }}
  }}
}}
"""
    with pytest.raises(UnsupportedError, match=r"vk.phase: .*no native form"):
        compiled(text)
    with pytest.raises(IRError, match=r"expected one vk\.mapped, found 0"):
        compile_cpu(parse_module("builtin.module {}"))
