"""Ranges, ragged ones too, control on scalars, mapped kernels and their programs, arguments."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.ir.errors import ArgumentError, CheckError, IRError
from vkernels.ir.interpret import interpret
from vkernels.ir.text import parse_module

from .kernels import program, run, tile

I64, ROW = tile("i64", "i"), tile("f32", "i")


def f32(*values):
    return np.array(values, np.float32)


def test_ranges_carry_values_and_may_be_empty():
    body = """
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %a, %b = vk.range %k = %lo to %hi carrying (%x = %zero : i64, %y = %one : i64) {
        %sum = arith.addi %x, %y : i64
        %next = arith.addi %sum, %k : i64
        vk.yield %y, %next : i64, i64
      }
      vk.store %a in %out[%zero] : !vk.tensor<[2], i64> <- i64
      vk.store %b in %out[%one] : !vk.tensor<[2], i64> <- i64
    """
    for lo, hi in ((2, 6), (3, 3), (5, 2)):
        parameters = {"lo": ("i64", lo), "hi": ("i64", hi), "out": ("!vk.tensor<[2], i64>", np.zeros(2, np.int64))}
        a, b = 0, 1
        for k in range(lo, hi):
            a, b = b, a + b + k
        assert program(body, parameters)["out"].tolist() == [a, b]


RAGGED = f"""
vk.kernel @csr(%start: !vk.tensor<[M], i64>, %stop: !vk.tensor<[M], i64>, %w: !vk.tensor<[K], f32>,
               %out: !vk.tensor<[M], f32>, %steps: !vk.tensor<[M], i64>) {{
  %m = vk.size M
  vk.tile i < %m
  %lo = vk.load %start[i] : !vk.tensor<[M], i64> -> {I64}
  %hi = vk.load %stop[i] : !vk.tensor<[M], i64> -> {I64}
  %none = arith.constant 0.0 : f32
  %zero = vk.broadcast %none : f32 -> {ROW}
  %one = arith.constant 1.0 : f32
  %ones = vk.broadcast %one : f32 -> {ROW}
  %total, %count = vk.range %k = %lo to %hi : {I64} carrying (%sum = %zero : {ROW}, %n = %zero : {ROW}) {{
    %v = vk.gather %w[%k] : !vk.tensor<[K], f32>, ({I64}) -> {ROW}
    %next = arith.addf %sum, %v : {ROW}
    %more = arith.addf %n, %ones : {ROW}
    vk.store %k in %steps[i] : !vk.tensor<[M], i64> <- {I64}
    vk.yield %next, %more : {ROW}, {ROW}
  }}
  %both = arith.addf %total, %count : {ROW}
  vk.store %both in %out[i] : !vk.tensor<[M], f32> <- {ROW}
}}
"""


def test_elements_of_a_ragged_range_finish_each_in_its_own_time():
    """Finished ones keep their carried values, read nothing (position 6 and beyond do not exist) and store nothing."""
    start, stop = np.array([0, 4, 4, 6, 5]), np.array([4, 4, 6, 6, 2])
    w = np.arange(1, 7, dtype=np.float32)
    out, steps = np.full(5, np.nan, np.float32), np.full(5, -1)
    run(RAGGED, start=start, stop=stop, w=w, out=out, steps=steps)
    assert out.tolist() == [10 + 4, 0, 11 + 2, 0, 0]
    assert steps.tolist() == [3, -1, 5, -1, -1]


def test_a_ragged_range_reads_past_the_end_if_its_bounds_do():
    arrays = {"w": np.ones(3, np.float32), "out": f32(0, 0), "steps": np.zeros(2, np.int64)}
    with pytest.raises(CheckError, match=r"index 3 is outside dimension 0 of `w`, which has 3 elements\nat i = 1"):
        run(RAGGED, start=np.array([0, 2]), stop=np.array([1, 4]), **arrays)


def test_ragged_ranges_nest_and_predicate_tiles_of_more_axes():
    """The inner range's bounds depend on the outer position; out[i, j] += 1 in every step of both."""
    text = f"""vk.kernel @k(%n: !vk.tensor<[M], i64>, %one: i64, %out: !vk.tensor<[M, 2], i64>, %two: i64) {{
      %m = vk.size M
      vk.tile i < %m
      vk.whole j < %two
      %zero = arith.constant 0 : i64
      %lo = vk.broadcast %zero : i64 -> {I64}
      %hi = vk.load %n[i] : !vk.tensor<[M], i64> -> {I64}
      vk.range %a = %lo to %hi : {I64} {{
        vk.range %b = %lo to %a : {I64} {{
          %ones = vk.broadcast %one : i64 -> {tile("i64", "j", "i")}
          vk.store %ones atomic add in %out[i, j] : !vk.tensor<[M, 2], i64> <- {tile("i64", "j", "i")}
          vk.yield
        }}
        vk.yield
      }}
    }}"""
    out = np.zeros((4, 2), np.int64)
    run(text, n=np.array([0, 1, 4, 3]), one=1, two=2, out=out)
    assert out.tolist() == [[0, 0], [0, 0], [6, 6], [3, 3]]


def test_finished_elements_are_not_asserted_and_print_as_dashes():
    lines: list[str] = []
    text = f"""vk.kernel @k(%n: !vk.tensor<[M], i64>) {{
      %m = vk.size M
      vk.tile i < %m
      %zero = arith.constant 0 : i64
      %lo = vk.broadcast %zero : i64 -> {I64}
      %hi = vk.load %n[i] : !vk.tensor<[M], i64> -> {I64}
      vk.range %a = %lo to %hi : {I64} {{
        %ok = arith.cmpi slt, %a, %hi : {I64}
        vk.assert %ok, "past the end" : {tile("i1", "i")}
        vk.print "" %a : {I64}
        vk.yield
      }}
    }}"""
    interpret(parse_module(text), {"n": np.array([1, 2])}, on_print=lines.append)
    assert lines == ["[0 0]", "[-- 1]"]


def test_control_on_scalars():
    body = """
      %one = arith.constant 1 : i64
      %two = arith.constant 2 : i64
      %three = arith.constant 3 : i64
      %zero = arith.constant 0 : i64
      %last, %steps = scf.while (%x = %n, %s = %zero) : (i64, i64) -> (i64, i64) {
        %more = arith.cmpi ne, %x, %one : i64
        scf.condition(%more) %x, %s : i64, i64
      } do {
      ^bb0(%x: i64, %s: i64):
        %bit = arith.andi %x, %one : i64
        %odd = arith.cmpi eq, %bit, %one : i64
        %next = scf.if %odd -> (i64) {
          %a = arith.muli %x, %three : i64
          %b = arith.addi %a, %one : i64
          scf.yield %b : i64
        } else {
          %h = arith.divsi %x, %two : i64
          scf.yield %h : i64
        }
        %t = arith.addi %s, %one : i64
        scf.yield %next, %t : i64, i64
      }
      vk.store %steps in %out[] : !vk.tensor<[], i64> <- i64
    """
    parameters = {"n": ("i64", 27), "out": ("!vk.tensor<[], i64>", np.zeros((), np.int64))}
    assert program(body, parameters)["out"] == 111


def test_phases_hand_on_their_results():
    text = f"""vk.kernel @k(%x: !vk.tensor<[M], f32>) {{
      %m = vk.size M
      vk.tile i < %m
      %v = vk.phase "load" -> ({ROW}) {{
        %a = vk.load %x[i] : !vk.tensor<[M], f32> -> {ROW}
        vk.yield %a : {ROW}
      }}
      vk.boundary "store"
      vk.phase "store" {{
        %w = arith.negf %v : {ROW}
        vk.store %w in %x[i] : !vk.tensor<[M], f32> <- {ROW}
        vk.yield
      }}
    }}"""
    x = f32(1, -2)
    run(text, x=x)
    assert x.tolist() == [-1, 2]


MAPPED = """
vk.mapped @reverse(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) {
  %n = vk.size N
  %four = arith.constant 4 : i64
  %programs = arith.ceildivsi %n, %four : i64
  %b = vk.buffer "packed" [%programs] : !vk.buffer<[?, 4], f32>
  vk.launch "pack" over (%p = %programs) {
    %i0 = arith.muli %p, %four : i64
    %left = arith.subi %n, %i0 : i64
    %v = vk.load %x[%i0 + i] within (i < %left) : !vk.tensor<[N], f32> -> tensor<4xf32, #vk.axes<i>>
    vk.store %v in %b[%p, i] : !vk.buffer<[?, 4], f32> <- tensor<4xf32, #vk.axes<i>>
  }
  vk.launch "reverse" over (%p = %programs) {
    %s = vk.scratch "here" : !vk.scratch<[4], f32>
    %i0 = arith.muli %p, %four : i64
    %left = arith.subi %n, %i0 : i64
    %v = vk.load %b[%p, i] : !vk.buffer<[?, 4], f32> -> tensor<4xf32, #vk.axes<i>>
    vk.store %v in %s[i] : !vk.scratch<[4], f32> <- tensor<4xf32, #vk.axes<i>>
    vk.barrier
    %c = arith.constant 3 : i64
    %w = vk.load %s[%c + -1 * i] : !vk.scratch<[4], f32> -> tensor<4xf32, #vk.axes<i>>
    %last = arith.subi %n, %i0 : i64
    %one = arith.constant 1 : i64
    %end = arith.subi %last, %one : i64
    %to = arith.subi %end, %c : i64
    vk.store %w in %out[%to + i] guarding [0] : !vk.tensor<[N], f32> <- tensor<4xf32, #vk.axes<i>>
  }
}
"""


@pytest.mark.parametrize("order", [None, 0, 1])
@pytest.mark.parametrize("n", [0, 1, 4, 11])
def test_mapped_kernels_run_their_launches_one_after_another(n, order):
    x, out = np.arange(n, dtype=np.float32), np.full(n, np.nan, np.float32)
    interpret(parse_module(MAPPED), {"x": x, "out": out}, order=order, check_races=True)
    np.testing.assert_array_equal(out, x[::-1])


def mapped(body: str, *, x: np.ndarray, programs: int = 3, top: str = "", **options) -> None:
    text = f"""vk.mapped @k(%x: !vk.tensor<[N], f32>, %programs: i64) {{
      {top}
      vk.launch "only" over (%p = %programs) {{
        {body}
      }}
    }}"""
    interpret(parse_module(text), {"x": x, "programs": programs}, **options)


def test_every_program_has_scratchpad_and_swap_space_of_its_own():
    for own in ("""vk.scratch "own" : !vk.scratch<[1], f32>""", """vk.buffer "own" [] : !vk.buffer<[1], f32>"""):
        kind = "scratch" if "scratch" in own else "buffer"
        body = f"""
          %s = {own}
          %zero = arith.constant 0 : i64
          %first = arith.cmpi eq, %p, %zero : i64
          scf.if %first {{
            %v = vk.load %x[%zero] : !vk.tensor<[N], f32> -> f32
            vk.store %v in %s[%zero] : !vk.{kind}<[1], f32> <- f32
          }}
          %w = vk.load %s[%zero] : !vk.{kind}<[1], f32> -> f32
        """
        mapped(body, x=f32(1), programs=1)
        with pytest.raises(CheckError) as error:
            mapped(body, x=f32(1), programs=2)
        assert "`own[0]` is read before anything has been written to it" in str(error.value)
        assert 'in program (1) of launch "only"' in str(error.value)


READ = "%r = vk.load %x[%i] : !vk.tensor<[N], f32> -> f32"
WRITE = "vk.store %v in %x[%j] : !vk.tensor<[N], f32> <- f32"
ADD = "vk.store %v atomic add in %x[%j] : !vk.tensor<[N], f32> <- f32"
OWN = "%i = arith.addi %p, %zero : i64\n"
SAME = "%i = arith.addi %zero, %zero : i64\n"
NEXT = "%i = arith.addi %p, %one : i64\n"
ROUND = """
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %v = arith.constant 5.0 : f32
  %w = arith.sitofp %p : i64 to f32
"""


@pytest.mark.parametrize(
    ("body", "races"),
    [
        (OWN + READ + "\n" + WRITE.replace("%j", "%i"), False),
        (SAME + WRITE.replace("%j", "%i"), False),
        (SAME + WRITE.replace("%j", "%i").replace("%v", "%w"), True),
        (NEXT + READ + "\n" + WRITE.replace("%j", "%p").replace("%v", "%w"), True),
        (SAME + READ, False),
        (SAME + READ + "\n" + ADD.replace("%j", "%i"), True),
        (SAME + ADD.replace("%j", "%i"), False),
        (SAME + WRITE.replace("%j", "%i") + "\n" + READ, True),
    ],
)
def test_races_between_programs_of_a_launch_are_found(body, races):
    for order in (None, 1, 2):
        x = f32(9, 9, 9, 9)
        if not races:
            mapped(ROUND + body, x=x, check_races=True, order=order)
        else:
            with pytest.raises(CheckError, match="another of its launch has"):
                mapped(ROUND + body, x=x, check_races=True, order=order)


def test_a_tensor_passed_twice_races_with_itself():
    text = """vk.mapped @k(%x: !vk.tensor<[N], f32>, %y: !vk.tensor<[N], f32>, %n: i64) {
      vk.launch "only" over (%p = %n) {
        %one = arith.constant 1 : i64
        %q = arith.addi %p, %one : i64
        %v = vk.load %x[%q] guarding [0] : !vk.tensor<[N], f32> -> f32
        vk.store %v in %y[%p] : !vk.tensor<[N], f32> <- f32
      }
    }"""
    x, y = f32(1, 2, 3), f32(0, 0, 0)
    interpret(parse_module(text), {"x": x, "y": y, "n": 3}, check_races=True)
    assert y.tolist() == [2, 3, 0]
    with pytest.raises(CheckError, match="writes"):
        interpret(parse_module(text), {"x": x, "y": x, "n": 3}, check_races=True)


def test_a_loop_that_would_not_end_is_an_error():
    body = "%z = arith.constant 0 : i64\nscf.for %k = %z to %c step %z : i64 {\nscf.yield\n}"
    with pytest.raises(CheckError, match="a loop has step 0, expected 1 or more"):
        program(body, {"c": ("i64", 3)})


def test_a_kernel_with_an_empty_tile_axis_does_nothing():
    text = """vk.kernel @k(%x: !vk.tensor<[N], f32>, %one: i64, %out: !vk.tensor<[1], i64>) {
      %zero = arith.constant 0 : i64
      vk.store %one in %out[%zero] : !vk.tensor<[1], i64> <- i64
      %n = vk.size N
      %less = arith.subi %n, %one : i64
      vk.tile i < %less
    }"""
    for n, expected in ((0, 7), (1, 7), (2, 1)):
        out = np.array([7])
        run(text, x=np.ones(n, np.float32), one=1, out=out)
        assert out.tolist() == [expected]


SIMPLE = "vk.kernel @k(%x: !vk.tensor<[M, N], f32>, %y: !vk.tensor<[N, 3], f32>, %s: f64, %b: i1) {\n}"
GOOD = {"x": np.ones((2, 4), np.float32), "y": np.ones((4, 3), np.float32), "s": 1.5, "b": True}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones((2, 4))}, "argument `x` has dtype float64, expected float32"),
        ({"x": np.ones(2, np.float32)}, "argument `x` has 1 dimensions, expected 2"),
        ({"x": 3}, "argument `x` is a int, expected an array"),
        ({"y": np.ones((5, 3), np.float32)}, "dimension 0 of argument `y` has size 5, expected 4 (N of `x`)"),
        ({"y": np.ones((4, 2), np.float32)}, "dimension 1 of argument `y` has size 2, expected 3"),
        ({"s": np.ones(2)}, "argument `s` is an array, expected a number"),
        ({"b": 1}, "argument `b` is a int, expected a i1"),
        ({"z": 1}, "there is no parameter z; parameters are x, y, s, b"),
    ],
)
def test_arguments_must_fit_the_parameters(change, message):
    with pytest.raises(ArgumentError) as error:
        run(SIMPLE, **{**GOOD, **change})
    assert message in str(error.value)


def test_every_parameter_needs_an_argument():
    with pytest.raises(ArgumentError, match="no argument for parameter y, b"):
        run(SIMPLE, x=GOOD["x"], s=1)


def test_a_call_must_be_the_one_a_kernel_was_mapped_for():
    text = """vk.kernel @k(%x: !vk.tensor<[M, N], f32>) facts {sizes = {M = 2 : i64}, multiples = {N = 4 : i64},
      strides = {x = [-1 : i64, 1 : i64]}} {
    }"""
    run(text, x=np.ones((2, 8), np.float32))
    for x, message in (
        (np.ones((3, 8)), "size M is 3, but the kernel was mapped for 2"),
        (np.ones((2, 6)), "size N is 6, but the kernel was mapped for multiples of 4"),
        (np.ones((8, 2)).T, "dimension 1 of `x` has stride 2, but the kernel was mapped for 1"),
    ):
        with pytest.raises(ArgumentError, match=message):
            run(text, x=x.astype(np.float32, order="K"))


def test_a_module_must_hold_one_kernel():
    with pytest.raises(IRError, match="the module has 0 kernels"):
        run("builtin.module {\n}")


def test_a_size_that_no_tensor_has_is_an_error():
    with pytest.raises(IRError, match="no tensor parameter has a size M"):
        run("vk.kernel @k() {\n%m = vk.size M\n}")
