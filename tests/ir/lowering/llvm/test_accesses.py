"""Loads and stores of every shape of access, in memory whose neighbours cannot be touched."""

from __future__ import annotations

import mmap
from itertools import product

import numpy as np
import pytest

from .memory import guarded, poisoned
from .running import Call, compiled, run
from .texts import facts, tile

X, Y = "!vk.tensor<[M, N], f32>", "!vk.tensor<[P, Q], f32>"


def copy_text(load: str, store: str, i: int, j: int, known: str, lanes: str = "j", more: str = "") -> str:
    """One program: a tile i × j is loaded from %x and stored to %out. %m, %n: parameters."""
    t = tile("f32", i=i, j=j)
    return f"""
vk.mapped @copy(%x: {X}, %out: {Y}, %m: i64, %n: i64) lanes {lanes} {known} {{
  %M = vk.size M
  %N = vk.size N
  %one = arith.constant 1 : i64
  vk.launch "copy" over (%p = %one) {{
    {more}
    %t = vk.load %x{load} : {X} -> {t}
    vk.store %t in %out{store} : {Y} <- {t}
  }}
}}
"""


STRIDED = facts()
ROWS = facts({"x": [-1, 1], "out": [-1, 1]})


@pytest.mark.sample(5)
@pytest.mark.parametrize("known", [STRIDED, ROWS])
@pytest.mark.parametrize("register_bytes", [16, 32, 64])
@pytest.mark.parametrize("lanes", ["i", "j"])
@pytest.mark.parametrize("shape", [(4, 24), (3, 7), (1, 1), (2, 100)])
def test_counts_keep_accesses_inside(known: str, register_bytes: int, lanes: str, shape) -> None:
    i, j = shape
    text = copy_text("[i, j] within (i < %m, j < %n)", "[i, j] within (i < %m, j < %n)", i, j, known, lanes)
    code = compiled(text, register_bytes)
    counts = ((i, j), (i - 1, j), (i, j - 1), (i // 2, j // 2 + 1), (0, j), (1, 0), (-3, -(1 << 40)))
    for (m, n), at_end in product(counts, (True, False)):
        m_, n_ = max(m, 0), max(n, 0)
        x = guarded(np.random.default_rng(1).random((m_, n_), np.float32), at_end)
        out = poisoned((m_, n_), np.float32, at_end)
        Call(code, [x, out, m, n], {"M": m_, "N": n_}).run()
        np.testing.assert_array_equal(out, x)


def test_inactive_elements_load_zero() -> None:
    text = copy_text("[i, j] within (i < %m, j < %n)", "[i, j]", 3, 21, ROWS)
    x, out = guarded(np.ones((2, 18), np.float32), True), poisoned((3, 21), np.float32)
    run(text, [x, out, 2, 18], {"M": 2, "N": 18})
    expected = np.zeros((3, 21))
    expected[:2, :18] = 1
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("lanes", ["i", "j"])
def test_any_strides(lanes: str) -> None:
    text = copy_text("[i, j] within (i < %m, j < %n)", "[i, j] within (i < %m, j < %n)", 5, 19, STRIDED, lanes)
    code = compiled(text)
    base = np.random.default_rng(2).random((40, 40), np.float32)
    for view in (
        base[::3, ::2][:4, :17],
        base[::-1, ::-2][:4, :17],
        base.T[:4, :17],
        np.broadcast_to(base[0, :17], (4, 17)),
    ):
        out = poisoned((17, 4), np.float32).T
        Call(code, [view, out, 4, 17], {"M": 4, "N": 17}).run()
        np.testing.assert_array_equal(out, view)


@pytest.mark.parametrize(("element", "dtype"), [("i8", np.int8), ("f16", np.float16), ("i16", np.int16)])
@pytest.mark.parametrize("register_bytes", [16, 64])
@pytest.mark.parametrize("strides", [(43, 1), (-3, 7), (1, 0), (2, -11)])
def test_narrow_lanes_apart_touch_nothing_between(element: str, dtype, register_bytes: int, strides) -> None:
    """Of small elements each lane has an address of its own, of any strides and of strides that are known."""
    seed = int(np.random.default_rng().integers(1 << 30))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    rows, lanes = 3, 27
    base = rng.integers(-99, 99, 1200).astype(dtype)
    view = np.lib.stride_tricks.as_strided(base[600:], (rows, lanes), [stride * base.itemsize for stride in strides])
    for known in (STRIDED, facts({"x": list(strides), "out": [1, 31]})):
        text = copy_text("[i, j]", "[i, j]", rows, lanes, known).replace("f32", element)
        memory = rng.integers(-99, 99, (lanes, 31)).astype(dtype)
        expected, out = memory.copy(), memory.T[:rows]
        expected.T[:rows] = view
        run(text, [view, out, rows, lanes], {"M": rows, "N": lanes}, register_bytes=register_bytes)
        np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("lanes", ["i", "j"])
def test_a_known_stride_of_zero_repeats_an_element(lanes: str) -> None:
    known = facts({"x": [0, 1], "out": [-1, 1]})
    view = np.broadcast_to(guarded(np.arange(17, dtype=np.float32)), (4, 17))
    for load in ("[i, j] within (i < %m, j < %n)", "[i, j]"):
        i, j = (5, 19) if "within" in load else (4, 17)
        out = poisoned((4, 17), np.float32)
        run(
            copy_text(load, "[i, j] within (i < %m, j < %n)", i, j, known, lanes), [view, out, 4, 17], {"M": 4, "N": 17}
        )
        np.testing.assert_array_equal(out, view)


@pytest.mark.sample(2)
@pytest.mark.parametrize("lanes", ["i", "j"])
@pytest.mark.parametrize("index", ["[%o + i, %q + j]", "[%o + 2 * i, %q + 3 * j]", "[%o + i, %q + -1 * j]"])
def test_guards_make_stencils_safe(lanes: str, index: str) -> None:
    rows, columns, i, j = 6, 20, 4, 33
    load = f"{index} guarding [0, 1]"
    for offset, start in ((-2, -5), (1, 4), (0, 19), (7, 0), (-9, 50)):
        more = f"%o = arith.constant {offset} : i64\n%q = arith.constant {start} : i64"
        for m in (0, 1):
            shift = "" if m == 0 else "%q = arith.addi %n, %q_ : i64"
            body = more if m == 0 else more.replace("%q =", "%q_ =") + "\n" + shift
            x, out = guarded(np.random.default_rng(3).random((rows, columns), np.float32)), poisoned((i, j), np.float32)
            run(copy_text(load, "[i, j]", i, j, ROWS, lanes, body), [x, out, 0, 0], {"M": rows, "N": columns})
            scale = [int(s) for s in {"[%o + i, %q + j]": "11", "[%o + 2 * i, %q + 3 * j]": "23"}.get(index, "1")]
            ci, cj = (scale[0], -1) if len(scale) == 1 else scale
            expected = np.zeros((i, j), np.float32)
            for a in range(i):
                for b in range(j):
                    r, c = offset + ci * a, start + cj * b
                    if 0 <= r < rows and 0 <= c < columns:
                        expected[a, b] = x[r, c]
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("lanes", ["i", "j"])
def test_masks(lanes: str) -> None:
    t, m = tile("f32", i=3, j=21), tile("i1", i=3, j=21)
    text = f"""
vk.mapped @masked(%x: {X}, %w: !vk.tensor<[M, N], i1>, %out: {X}) lanes {lanes} {ROWS} {{
  %one = arith.constant 1 : i64
  vk.launch "masked" over (%p = %one) {{
    %m = vk.load %w[i, j] : !vk.tensor<[M, N], i1> -> {m}
    %t = vk.load %x[i, j] where %m : {X} -> {t}
    vk.store %t in %out[i, j] where %m : {X} <- {t}
  }}
}}
"""
    rng = np.random.default_rng(4)
    x, w = guarded(rng.random((3, 21), np.float32)), guarded((rng.random((3, 21)) < 0.5).astype(np.uint8))
    out = poisoned(x.shape, np.float32)
    run(text, [x, w, out], {"M": 3, "N": 21})
    np.testing.assert_array_equal(out, np.where(w, x, np.nan))


@pytest.mark.parametrize("lanes", ["i", "j"])
@pytest.mark.parametrize("index", ["i32", "i64", "i16"])
def test_gather_and_scatter_rows_and_elements(lanes: str, index: str) -> None:
    """Rows by an index tile over i, elements by one over j, both at once; out-of-range rows are guarded."""
    ti, tj, t = tile(index, i=4), tile(index, j=23), tile("f32", i=4, j=23)
    text = f"""
vk.mapped @gather(%x: {X}, %r: !vk.tensor<[I], {index}>, %c: !vk.tensor<[J], {index}>, %out: {Y})
    lanes {lanes} {STRIDED} {{
  %M = vk.size M
  %N = vk.size N
  %one = arith.constant 1 : i64
  vk.launch "gather" over (%p = %one) {{
    %ri = vk.load %r[i] : !vk.tensor<[I], {index}> -> {ti}
    %cj = vk.load %c[j] : !vk.tensor<[J], {index}> -> {tj}
    %t = vk.gather %x[%ri, %cj] guarding [0] : {X}, ({ti}, {tj}) -> {t}
    vk.scatter %t in %out[%one + i, %cj] : {Y}, (i64, {tj}) <- {t}
  }}
}}
"""
    rng = np.random.default_rng(5)
    dtype = f"i{int(index[1:]) // 8}"
    x = guarded(rng.random((6, 23), np.float32))
    rows, columns = np.array([5, -1, 0, 6], dtype), rng.permutation(23).astype(dtype)
    out = poisoned((5, 23), np.float32)
    run(text, [x, guarded(rows), guarded(columns), out], {"M": 6, "N": 23})
    expected = np.full((5, 23), np.nan, np.float32)
    expected[1:] = 0
    for a, row in enumerate(rows):
        if 0 <= row < 6:
            expected[1 + a, columns] = x[row, columns]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "f64", "f16"])
def test_gathers_of_every_width(dtype: str) -> None:
    tj, t = tile("i64", j=21), tile(dtype, j=21)
    text = f"""
vk.mapped @gather(%x: !vk.tensor<[N], {dtype}>, %c: !vk.tensor<[J], i64>, %out: !vk.tensor<[J], {dtype}>, %n: i64)
    lanes j {STRIDED} {{
  %one = arith.constant 1 : i64
  vk.launch "gather" over (%p = %one) {{
    %cj = vk.load %c[j] : !vk.tensor<[J], i64> -> {tj}
    %t = vk.gather %x[%cj] within (j < %n) : !vk.tensor<[N], {dtype}>, ({tj}) -> {t}
    vk.store %t in %out[j] within (j < %n) : !vk.tensor<[J], {dtype}> <- {t}
  }}
}}
"""
    rng = np.random.default_rng(6)
    x = guarded(rng.integers(-100, 100, 9).astype(f"{dtype[0]}{int(dtype[1:]) // 8}"))
    columns = rng.integers(0, 9, 21)
    columns[19:] = 1 << 40
    out = poisoned((21,), x.dtype)
    before = out.copy()
    run(text, [x, guarded(columns), out, 19], {"N": 9, "J": 21})
    np.testing.assert_array_equal(out[:19], x[columns[:19]])
    np.testing.assert_array_equal(out[19:], before[19:])


@pytest.mark.sample(6)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i8", "i32", "i64"])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
@pytest.mark.parametrize("lanes", ["lanes j", ""])
def test_atomics_combine_whatever_hits_one_place(dtype: str, kind: str, lanes: str) -> None:
    import torch

    tj, t = tile("i32", j=40), tile(dtype, j=40)
    text = f"""
vk.mapped @atomic(%v: !vk.tensor<[J], {dtype}>, %c: !vk.tensor<[J], i32>, %out: !vk.tensor<[N], {dtype}>, %n: i64)
    {lanes} {facts({"v": [1], "c": [1], "out": [1]})} {{
  %four = arith.constant 4 : i64
  vk.launch "atomic" over (%p = %four) {{
    %cj = vk.load %c[j] : !vk.tensor<[J], i32> -> {tj}
    %t = vk.load %v[j] : !vk.tensor<[J], {dtype}> -> {t}
    vk.scatter %t atomic {kind} in %out[%cj] within (j < %n) : !vk.tensor<[N], {dtype}>, ({tj}) <- {t}
  }}
}}
"""
    rng = np.random.default_rng(7)
    torch_type = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}.get(
        dtype, f"int{dtype[1:]}"
    )
    v = torch.from_numpy(rng.integers(-3, 4, 40)).to(getattr(torch, torch_type))
    out = torch.zeros(5, dtype=v.dtype)
    columns = rng.integers(0, 5, 40).astype(np.int32)
    columns[37:] = 1 << 30
    bits = {2: np.int16}.get(v.element_size()) if v.is_floating_point() else None

    def memory(tensor):
        return (tensor.view(torch.int16) if bits else tensor).numpy()

    run(text, [memory(v), columns, memory(out), 37], {"N": 5, "J": 40})
    expected = np.zeros(5)
    for number, column in zip(v[:37].double().numpy(), columns[:37], strict=True):
        if kind == "add":
            expected[column] += 4 * number
        else:
            expected[column] = (max if kind == "max" else min)(expected[column], number)
    np.testing.assert_array_equal(out.double().numpy(), expected)


def test_atomic_maximum_keeps_nan() -> None:
    t = tile("f32", j=4)
    text = f"""
vk.mapped @atomic(%v: !vk.tensor<[J], f32>, %out: !vk.tensor<[N], f32>) lanes j {facts({"v": [1], "out": [0]})} {{
  %one = arith.constant 1 : i64
  vk.launch "atomic" over (%p = %one) {{
    %t = vk.load %v[j] : !vk.tensor<[J], f32> -> {t}
    vk.store %t atomic max in %out[j] : !vk.tensor<[N], f32> <- {t}
  }}
}}
"""
    out = np.zeros(1, np.float32)
    run(text, [np.array([1, np.nan, 7, 2], np.float32), out], {"N": 4, "J": 4})
    assert np.isnan(out[0])


def test_a_guard_without_a_declared_size_is_an_error() -> None:
    from vkernels.ir.errors import UnsupportedError

    text = copy_text("[i, j] guarding [0]", "[i, j]", 2, 2, ROWS).replace("%M = vk.size M", "")
    with pytest.raises(UnsupportedError, match=r"vk.load: a guarded dimension"):
        compiled(text)


FAR = (1 << 31) + 24
"""Elements from one row to the next, more than 32 bits count."""
NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE: memory that nothing touches need not exist."""


def test_rows_may_be_far_apart() -> None:
    t = tile("f32", i=2, j=16)
    memory = mmap.mmap(-1, 4 * FAR + 64, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    x = np.lib.stride_tricks.as_strided(np.frombuffer(memory, np.float32), (2, 16), (4 * FAR, 4))
    x[...] = np.random.default_rng(3).random((2, 16), np.float32)
    out = poisoned((2, 16), np.float32)
    text = copy_text("[i, j]", "[i, j]", 2, 16, facts({"x": [FAR, 1], "out": [16, 1]}))
    assert t in text
    Call(compiled(text), [x, out, 2, 16], {"M": 2, "N": 16}).run()
    np.testing.assert_array_equal(out, x)


def test_scratchpads_and_swap_space_may_begin_beyond_2_gib() -> None:
    """They have code; a call whose workspace cannot be had takes the next plan."""
    t, large, small = tile("f32", j=16), f"!vk.scratch<[{FAR}], f32>", "!vk.scratch<[16], f32>"
    swap = "!vk.buffer<[?, 16], f32>"
    more = f"""
    %first = vk.scratch "first" : {large}
    %second = vk.scratch "second" : {small}
    %swap = vk.buffer "swap"[%M] : {swap}
    %zeros = arith.constant dense<0.0> : {t}
    vk.store %zeros in %first[j] : {large} <- {t}
    vk.store %zeros in %second[j] : {small} <- {t}
    vk.store %zeros in %swap[%one, j] : {swap} <- {t}
"""
    code = compiled(copy_text("[i, j]", "[i, j]", 1, 16, ROWS, more=more))
    assert code.workspace > 4 * FAR
