"""Private copies change which program updates what, and nothing that a caller sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generated.random_kernels.native import run_native
from tests.library.reference import fresh_seed
from vkernels.ir.analysis.private_copies import meeting_axes, private_tensors
from vkernels.ir.dialect import LaunchOp, MappedOp, ScatterOp, StoreOp
from vkernels.ir.errors import CheckError, PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.lowering.llvm.lower_to_llvm import lower_to_llvm
from vkernels.ir.plan import Home, Plan
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan import apply_plan

from ..lowering.ttir.lowering import copied
from .three_ways import run_three_ways

ALL = Facts(distinct=True)


def _text(text: str, **words: str) -> str:
    """A kernel's text with words and types of tiles filled in."""
    for word, spelled in words.items():
        text = text.replace(word, spelled)
    for element in ("i8", "i16", "i32", "i64", "bf16", "f16", "f32", "f64"):
        text = text.replace(f"TILE_{element}", f"tensor<?x{element}, #vk.axes<i>>")
        text = text.replace(f"TILES_{element}", f"tensor<?x?x{element}, #vk.axes<i, c>>")
    return text


COUNT = """
vk.kernel @count(%index: !vk.tensor<[N], i64>, %value: !vk.tensor<[N], ELEMENT>, %out: !vk.tensor<[B], ELEMENT>) {
  %N = vk.size N
  vk.tile i < %N
  %at = vk.load %index[i] : !vk.tensor<[N], i64> -> TILE_i64
  %v = vk.load %value[i] : !vk.tensor<[N], ELEMENT> -> TILE_ELEMENT
  vk.scatter %v atomic KIND in %out[%at] guarding [0] : !vk.tensor<[B], ELEMENT>, (TILE_i64) <- TILE_ELEMENT
}
"""
ROWS = """
vk.kernel @rows(%index: !vk.tensor<[N], i64>, %value: !vk.tensor<[N, C], ELEMENT>, %out: !vk.tensor<[B, C], ELEMENT>) {
  %N = vk.size N
  vk.tile i < %N
  %C = vk.size C
  vk.tile c < %C
  %at = vk.load %index[i] : !vk.tensor<[N], i64> -> TILE_i64
  %v = vk.load %value[i, c] : !vk.tensor<[N, C], ELEMENT> -> TILES_ELEMENT
  vk.scatter %v atomic KIND in %out[%at, c] : !vk.tensor<[B, C], ELEMENT>, (TILE_i64) <- TILES_ELEMENT
}
"""
TWO = """
vk.kernel @two(%x: !vk.tensor<[N], i64>, %one: !vk.tensor<[B], i64>, %other: !vk.tensor<[B], i64>) {
  %N = vk.size N
  vk.tile i < %N
  %at = vk.load %x[i] : !vk.tensor<[N], i64> -> TILE_i64
  vk.scatter %at atomic add in %one[%at] : !vk.tensor<[B], i64>, (TILE_i64) <- TILE_i64
  vk.scatter %at atomic SECOND in %SAME[%at] : !vk.tensor<[B], i64>, (TILE_i64) <- TILE_i64
}
"""


def _count(element: str, kind: str):
    return parse_module(_text(COUNT, ELEMENT=element, KIND=kind))


def _values(random, dtype: str, count: int):
    return (100 * random.standard_normal(count)).astype(dtype)


KINDS = [
    *((element, kind) for element in ("i32", "i64") for kind in ("add", "max", "min", "maxui", "minui")),
    *((element, kind) for element in ("f32", "f64") for kind in ("add", "max", "min")),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize(("bins", "length"), [(1, 300), (37, 1001), (200, 0), (129, 7)])
@pytest.mark.parametrize(("element", "kind"), KINDS)
def test_updates_are_those_of_atomics(element, kind, bins, length, copies):
    """Equal indices, few and many, indices out of range that a guard leaves out, and none at all."""
    random = np.random.default_rng(fresh_seed())
    dtype = f"{element[0]}{int(element[1:]) // 8}"
    index = random.integers(-1, bins + 1, length)
    arguments = {"index": index, "value": _values(random, dtype, length), "out": _values(random, dtype, bins)}
    tolerance = 1e-4 if element == "f32" else 1e-12 if element == "f64" else 0
    plan = Plan({"i": 16}, lanes="i", private_copies=copies)
    run_three_ways(_count(element, kind), arguments, {"N": length, "B": bins}, plan, ALL, tolerance)


@pytest.mark.sample(3)
@pytest.mark.parametrize("order", [("i", "c"), ("c", "i")])
@pytest.mark.parametrize("lanes", ["i", "c", None])
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("kind", ["add", "max"])
def test_rows_are_updated_by_programs_that_do_not_meet(kind, copies, lanes, order):
    random = np.random.default_rng(fresh_seed())
    sizes = {"N": 53, "C": 21, "B": 6}
    arguments = {
        "index": random.integers(0, 6, 53),
        "value": _values(random, "i4", 53 * 21).reshape(53, 21),
        "out": _values(random, "i4", 6 * 21).reshape(6, 21),
    }
    plan = Plan({"i": 4, "c": 8}, lanes=lanes, order=order, private_copies=copies)
    text = run_three_ways(parse_module(_text(ROWS, ELEMENT="i32", KIND=kind)), arguments, sizes, plan, ALL, 0)
    assert ("over (%p_c = " in text) == (copies == 1)  # programs along c never meet


@settings(max_examples=20, deadline=None)
@given(copies=st.integers(2, 9), programs=st.integers(0, 40))
def test_every_program_has_one_copy(copies, programs):
    """More copies than programs leave some with nothing to do."""
    mapped = apply_plan(_count("i64", "add"), Plan({"i": 1}, private_copies=copies), ALL)
    out = np.zeros(1, np.int64)
    interpret(
        mapped, {"index": np.zeros(programs, np.int64), "value": np.ones(programs, np.int64), "out": out}, order=1
    )
    assert out == programs


@pytest.mark.sample(3)
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("kind", ["add", "max"])
@pytest.mark.parametrize("element", ["f16", "bf16", "i8", "i16"])
def test_narrow_elements_are_updated_one_after_another_or_side_by_side(element, kind, rows):
    """Whole numbers so small that any order gives the same; native code alone, as GPUs have no such atomics."""
    random = np.random.default_rng(fresh_seed())
    dtype = {"f16": "f2", "bf16": "u2", "i8": "i1", "i16": "i2"}[element]
    shape, bins = ((60, 40), (5, 40)) if rows else ((60,), (5,))
    value, out = (random.integers(0, 4, size).astype(dtype) for size in (shape, bins))
    if element == "bf16":
        value, out = ((each.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for each in (value, out))
    arguments = {"index": random.integers(0, 5, 60), "value": value, "out": out}
    module = parse_module(_text(ROWS if rows else COUNT, ELEMENT=element, KIND=kind))
    tiles = {"i": 4, "c": 16} if rows else {"i": 16}
    expected, actual = copied(arguments), copied(arguments)
    interpret(module, expected)
    plan = Plan(tiles, lanes="c" if rows else "i", private_copies=2)
    run_native(apply_plan(module, plan, ALL), actual, {"N": 60, "B": 5, "C": 40})
    np.testing.assert_array_equal(actual["out"], expected["out"])


@pytest.mark.parametrize("copies", [0, 1, 2])
def test_a_cpu_locks_nothing_where_no_programs_meet(copies):
    mapped = apply_plan(_count("i64", "add"), Plan({"i": 8}, lanes="i", private_copies=copies), ALL)
    text = lower_to_llvm(next(op for op in mapped.ops if isinstance(op, MappedOp))).text
    assert ("atomicrmw" in text) == (copies == 0)


@pytest.mark.parametrize("copies", [1, 2])
def test_elements_without_an_update_keep_their_bits(copies):
    out = np.array([-0.0, np.inf, np.nan, 1e-45], np.float32)
    arguments = {"index": np.zeros(0, np.int64), "value": np.zeros(0, np.float32), "out": out}
    plan = Plan({"i": 8}, lanes="i", private_copies=copies)
    for kind in ("add", "min"):
        run_three_ways(_count("f32", kind), arguments, {"N": 0, "B": 4}, plan, ALL, 0)
        interpret(apply_plan(_count("f32", kind), plan, ALL), arguments)
        np.testing.assert_array_equal(np.signbit(out[[0, 1, 3]]), [True, False, False])


def test_tensors_with_copies_are_only_updated_and_by_one_operation():
    def able(text: str, distinct: bool = True) -> set[str | None]:
        kernel = next(iter(parse_module(text).ops))
        return {tensor.name_hint for tensor in private_tensors(kernel, distinct)}

    assert able(_text(TWO, SAME="one", SECOND="add")) == {"one"}
    assert able(_text(TWO, SAME="one", SECOND="max")) == set()
    assert able(_text(TWO, SAME="other", SECOND="max")) == {"one", "other"}
    assert able(_text(TWO, SAME="other", SECOND="max"), distinct=False) == set()


def test_programs_meet_along_axes_that_an_index_does_not_fix():
    kernel = next(iter(parse_module(_text(ROWS, ELEMENT="i32", KIND="add")).ops))
    assert meeting_axes(kernel, private_tensors(kernel, True)) == {"i"}


@pytest.mark.parametrize("copies", [1, 4])
def test_several_tensors_have_copies(copies):
    module = parse_module(_text(TWO, SAME="other", SECOND="max"))
    x = np.random.default_rng(fresh_seed()).integers(0, 9, 100)
    arguments = {"x": x, "one": np.zeros(9, np.int64), "other": np.full(9, -3)}
    run_three_ways(module, arguments, {"N": 100, "B": 9}, Plan({"i": 8}, lanes="i", private_copies=copies), ALL, 0)


SHARES = """
vk.kernel @shares(%index: !vk.tensor<[M], i64>, %x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[B, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole c < %N
  %at = vk.load %index[i] : !vk.tensor<[M], i64> -> TILE_i64
  %row = vk.load %x[i, c] : !vk.tensor<[M, N], f32> -> TILES_f32
  %e = math.exp %row : TILES_f32
  %sum = vk.sum %e along c : TILES_f32 -> TILE_f32
  %all = vk.broadcast %sum : TILE_f32 -> TILES_f32
  %share = arith.divf %e, %all : TILES_f32
  vk.scatter %share atomic add in %out[%at, c] : !vk.tensor<[B, N], f32>, (TILE_i64) <- TILES_f32
}
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("resident", [0, 2])
@pytest.mark.parametrize("home", [Home.MEMORY, Home.SHARED])
@pytest.mark.parametrize("copies", [1, 3])
def test_homes_serve_one_program_after_another(copies, home, resident):
    random = np.random.default_rng(fresh_seed())
    arguments = {
        "index": random.integers(0, 4, 21),
        "x": random.standard_normal((21, 35), np.float32),
        "out": random.standard_normal((4, 35), np.float32),
    }
    plan = Plan({"i": 4}, {"c": 8}, {"e": home}, lanes="c", private_copies=copies)
    facts = Facts({"N": 35}, distinct=True)
    run_three_ways(
        parse_module(_text(SHARES)), arguments, {"M": 21, "N": 35, "B": 4}, plan, facts, resident_programs=resident
    )


REFUSED = {
    "no tensor that it only updates": Plan({"i": 4, "c": 4}, private_copies=2),
    "orders programs in groups": Plan({"i": 4, "c": 4}, private_copies=2, swizzle=4),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_kernel_that_can_have_no_copies_refuses_them(reason):
    text = _text(ROWS, ELEMENT="i32", KIND="add")
    text = text.replace("atomic add ", "") if "only updates" in reason else text
    with pytest.raises(PlanError, match=reason):
        apply_plan(parse_module(text), REFUSED[reason], ALL)


def test_a_kernel_with_one_program_has_no_copies_to_divide_it_among():
    text = _text(COUNT, ELEMENT="i64", KIND="add").replace("vk.tile", "vk.whole")
    with pytest.raises(PlanError, match="the kernel one program"):
        apply_plan(parse_module(text), Plan(chunks={"i": 4}, private_copies=2), ALL)
    arguments = {"index": np.zeros(9, np.int64), "value": np.ones(9, np.int64), "out": np.zeros(1, np.int64)}
    plan = Plan(chunks={"i": 4}, private_copies=1)
    run_three_ways(parse_module(text), arguments, {"N": 9, "B": 1}, plan, ALL, 0)


def test_updates_of_another_program_are_found_where_only_one_may_make_them():
    """Without the loop over programs, two of them update the same element."""
    mapped = apply_plan(_count("i64", "add"), Plan({"i": 4}), ALL)
    for op in mapped.walk():
        if isinstance(op, StoreOp | ScatterOp):
            op.exclusive = _exclusive()
    assert sum(isinstance(op, LaunchOp) for op in mapped.walk()) == 1
    arguments = {"index": np.zeros(9, np.int64), "value": np.ones(9, np.int64), "out": np.zeros(1, np.int64)}
    with pytest.raises(CheckError, match="updates alone"):
        interpret(mapped, arguments, check_races=True)


def _exclusive():
    mapped = apply_plan(_count("i64", "add"), Plan({"i": 4}, private_copies=1), ALL)
    return next(op.exclusive for op in mapped.walk() if isinstance(op, ScatterOp))
