"""Loads, stores, gathers and scatters: what is inactive, what is out of range, what was never written."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.ir.errors import CheckError
from vkernels.ir.interpret import interpret
from vkernels.ir.text import parse_module

from .kernels import bfloat16, program, run, tile


def vector(*values, dtype=np.float32):
    return np.array(values, dtype)


def outside(n):
    return np.full(n, np.nan, np.float32)


def shifted(index: str, clause: str, x: np.ndarray, n: int, **scalars) -> np.ndarray:
    """`out[i] = x[index]` for n elements."""
    declared = {name: ("i64", value) for name, value in scalars.items()}
    parameters = {"x": ("!vk.tensor<[M], f32>", x), "out": ("!vk.tensor<[N], f32>", outside(n)), **declared}
    body = f"""
      %v = vk.load %x[{index}] {clause} : !vk.tensor<[M], f32> -> {tile("f32", "i")}
      vk.store %v in %out[i] : !vk.tensor<[N], f32> <- {tile("f32", "i")}
    """
    return program(body, parameters, {"i": "N"})["out"]


def test_affine_indices_with_coefficients_and_offsets():
    x = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(shifted("%c + 3 * i", "", x, 5, c=2), [2, 5, 8, 11, 14])
    np.testing.assert_array_equal(shifted("%c + -1 * i", "", x, 5, c=4), [4, 3, 2, 1, 0])


def test_elements_outside_of_a_guarded_dimension_are_zero():
    np.testing.assert_array_equal(shifted("%c + i", "guarding [0]", vector(1, 2, 3), 5, c=-1), [0, 1, 2, 3, 0])


def test_positions_not_below_a_count_are_inactive():
    np.testing.assert_array_equal(shifted("i", "within (i < %c)", vector(1, 2), 4, c=2), [1, 2, 0, 0])
    np.testing.assert_array_equal(shifted("i", "within (i < %c)", vector(1, 2), 4, c=-3), [0, 0, 0, 0])


def test_the_same_axis_twice_is_a_diagonal():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    body = f"""
      %v = vk.load %x[i, i] : !vk.tensor<[M, N], f32> -> {tile("f32", "i")}
      vk.store %v in %out[i] : !vk.tensor<[M], f32> <- {tile("f32", "i")}
    """
    parameters = {"x": ("!vk.tensor<[M, N], f32>", x), "out": ("!vk.tensor<[M], f32>", outside(3))}
    np.testing.assert_array_equal(program(body, parameters, {"i": "M"})["out"], [0, 5, 10])


def test_axes_may_stand_in_any_order_and_strides_may_be_any():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)[::-2, ::2]
    out = np.full((6, 2), np.nan, np.float32)[::2]
    body = f"""
      %v = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> {tile("f32", "j", "i")}
      vk.store %v in %out[j, i] : !vk.tensor<[N, M], f32> <- {tile("f32", "j", "i")}
    """
    parameters = {"x": ("!vk.tensor<[M, N], f32>", x), "out": ("!vk.tensor<[N, M], f32>", out)}
    program(body, parameters, {"i": "M", "j": "N"})
    np.testing.assert_array_equal(out, x.T)


def masked(clause: str, mask, n=3) -> np.ndarray:
    parameters = {
        "x": ("!vk.tensor<[N], f32>", vector(1, 2, 3)),
        "m": ("!vk.tensor<[N], i1>", vector(*mask, dtype=bool)),
        "out": ("!vk.tensor<[N], f32>", outside(n)),
    }
    body = f"""
      %mask = vk.load %m[i] : !vk.tensor<[N], i1> -> {tile("i1", "i")}
      %v = vk.load %x[i] {clause.split("/")[0]} : !vk.tensor<[N], f32> -> {tile("f32", "i")}
      vk.store %v in %out[i] {clause.split("/")[1]} : !vk.tensor<[N], f32> <- {tile("f32", "i")}
    """
    return program(body, parameters, {"i": "N"})["out"]


def test_masked_loads_give_zero_and_masked_stores_nothing():
    np.testing.assert_array_equal(masked("where %mask/", [1, 0, 1]), [1, 0, 3])
    np.testing.assert_array_equal(masked("/where %mask", [1, 0, 1]), [1, np.nan, 3])


GATHER = f"""
  %k = vk.load %index[i] : !vk.tensor<[N], i32> -> {tile("i32", "i")}
  %v = vk.gather %x[%k, j] CLAUSE : !vk.tensor<[M, K], f32>, ({tile("i32", "i")}) -> {tile("f32", "i", "j")}
  vk.store %v in %out[i, j] : !vk.tensor<[N, K], f32> <- {tile("f32", "i", "j")}
"""


def gathered(index, clause=""):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    parameters = {
        "x": ("!vk.tensor<[M, K], f32>", x),
        "index": ("!vk.tensor<[N], i32>", vector(*index, dtype=np.int32)),
        "out": ("!vk.tensor<[N, K], f32>", np.full((len(index), 3), np.nan, np.float32)),
    }
    return x, program(GATHER.replace("CLAUSE", clause), parameters, {"i": "N", "j": "K"})["out"]


def test_gathers_take_rows_by_index():
    x, out = gathered([3, 0, 3])
    np.testing.assert_array_equal(out, x[[3, 0, 3]])
    x, out = gathered([3, -1, 4], "guarding [0]")
    np.testing.assert_array_equal(out, np.array([x[3], [0, 0, 0], [0, 0, 0]]))


@pytest.mark.parametrize(("index", "wrong"), [([0, 4, 1], 4), ([2, 1, -1], -1)])
def test_an_index_out_of_range_names_access_index_and_position(index, wrong):
    with pytest.raises(CheckError) as error:
        gathered(index)
    assert f"index {wrong} is outside dimension 0 of `x`, which has 4 elements" in str(error.value)
    assert f"at i = {index.index(wrong)}, j = 0" in str(error.value)


def test_an_error_points_at_the_authors_line(tmp_path):
    source = tmp_path / "author.py"
    source.write_text("@vk.kernel\ndef k(x):\n    row = x[i + 1]\n")
    module = parse_module("vk.kernel @k(%x: !vk.tensor<[N], f32>, %c: i64) {\n%n = vk.size N\nvk.tile i < %n\n"
                          f"%v = vk.load %x[%c + i] : !vk.tensor<[N], f32> -> {tile('f32', 'i')}\n}}")  # fmt: skip
    from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

    list(module.walk())[-1].location = FileLineColLoc(StringAttr(str(source)), IntAttr(3), IntAttr(11))
    with pytest.raises(CheckError) as error:
        interpret(module, {"x": vector(1, 2, 3), "c": 1})
    assert error.value.place is not None
    assert (error.value.place.file, error.value.place.line) == (str(source), 3)
    assert f"{source}:3:11: error: index 3 is outside dimension 0 of `x`, which has 3 elements" in str(error.value)
    assert "    row = x[i + 1]\n          ^" in str(error.value)


def scattered(atomic: str, element: str, old, index, values) -> np.ndarray:
    dtype = {"f32": np.float32, "i32": np.int32, "bf16": np.uint16}[element]
    parameters = {
        "v": (f"!vk.tensor<[N], {element}>", np.asarray(values, dtype)),
        "index": ("!vk.tensor<[N], i64>", np.array(index)),
        "out": (f"!vk.tensor<[M], {element}>", np.asarray(old, dtype)),
    }
    body = f"""
      %k = vk.load %index[i] : !vk.tensor<[N], i64> -> {tile("i64", "i")}
      %w = vk.load %v[i] : !vk.tensor<[N], {element}> -> {tile(element, "i")}
      vk.scatter %w {atomic} in %out[%k] : !vk.tensor<[M], {element}>, ({tile("i64", "i")}) <- {tile(element, "i")}
    """
    return program(body, parameters, {"i": "N"})["out"]


def test_scatters_write_and_atomics_combine():
    assert scattered("", "i32", [0, 0, 0], [2, 0], [5, 6]).tolist() == [6, 0, 5]
    assert scattered("atomic add", "i32", [1, 1], [0, 0, 1, 0], [1, 2, 3, 4]).tolist() == [8, 4]
    assert scattered("atomic max", "i32", [1, 1], [0, 0], [-5, 9]).tolist() == [9, 1]
    assert scattered("atomic min", "f32", [1, 1], [0, 1], [-5, 9]).tolist() == [-5, 1]
    assert scattered("atomic add", "i32", [2**31 - 1], [0], [1]).tolist() == [-(2**31)]


def test_atomic_bf16_sums_round_at_every_addition():
    out = scattered("atomic add", "bf16", bfloat16([256.0]), [0, 0], bfloat16([1.0, 1.0]))
    assert out.tolist() == bfloat16([256.0]).tolist()


SCRATCH = f"""
  vk.kernel @k(%x: !vk.tensor<[N], f32>, %c: i64, %out: !vk.tensor<[N], f32>) {{
    %n = vk.size N
    vk.whole j < %n
    %s = vk.scratch "features" : !vk.scratch<[j], f32>
    %v = vk.load %x[j] : !vk.tensor<[N], f32> -> {tile("f32", "j")}
    vk.store %v in %s[j] within (j < %c) : !vk.scratch<[j], f32> <- {tile("f32", "j")}
    %w = vk.load %s[j] LOAD : !vk.scratch<[j], f32> -> {tile("f32", "j")}
    vk.store %w in %out[j] : !vk.tensor<[N], f32> <- {tile("f32", "j")}
  }}
"""


def test_scratch_must_be_written_before_it_is_read():
    x = vector(1, 2, 3)
    out = outside(3)
    run(SCRATCH.replace("LOAD", ""), x=x, c=3, out=out)
    np.testing.assert_array_equal(out, x)
    with pytest.raises(CheckError, match=r"`features\[2\]` is read before anything has been written to it\nat j = 2"):
        run(SCRATCH.replace("LOAD", ""), x=x, c=2, out=out)
    run(SCRATCH.replace("LOAD", "within (j < %c)"), x=x, c=2, out=out)
    np.testing.assert_array_equal(out, [1, 2, 0])


@pytest.mark.parametrize("n", [0, 1])
def test_axes_may_be_empty(n):
    assert shifted("i", "", np.ones(n, np.float32), n).tolist() == [1] * n
    assert gathered([0] * n)[1].shape == (n, 3)


def test_nothing_can_be_loaded_from_an_empty_dimension():
    with pytest.raises(CheckError, match="index 0 is outside dimension 0 of `x`, which has 0 elements"):
        shifted("i", "", np.ones(0, np.float32), 2)
    assert shifted("i", "guarding [0]", np.ones(0, np.float32), 2).tolist() == [0, 0]
