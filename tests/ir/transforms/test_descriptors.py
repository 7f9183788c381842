"""A plan's descriptors move boxes of tensors: which accesses are marked, and which plans are refused."""

from __future__ import annotations

import re

import pytest

from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped

from ..lowering.ttir.lowering import kernel

ROWS = {"a": (-1, 1), "b": (-1, 1), "out": (-1, 1), "bias": (1,)}
ALIGNED = Facts(strides=ROWS, aligned=tuple(ROWS), distinct=True)
PLAN = Plan({"i": 16, "j": 16}, {"k": 16}, order=("i", "j"), descriptors=("a", "b", "out"))


def accesses(facts: Facts = ALIGNED, plan: Plan = PLAN, text: str = "") -> list[str]:
    """The accesses of a mapped kernel, a line each."""
    mapped = apply_plan(parse_module(text, "k") if text else kernel("matmul"), plan, facts)
    verify_mapped(mapped)
    printed = print_module(mapped)
    assert print_module(parse_module(printed, "again")) == printed
    return [line.strip() for line in printed.splitlines() if re.search(r"vk\.(load|store) ", line)]


def described(lines: list[str]) -> set[str]:
    return {match[1] for line in lines if (match := re.search(r"%(\w+)\[", line)) and " described :" in line}


def test_boxes_are_marked_in_full_tiles_and_in_those_that_end_with_the_tensor():
    lines = accesses()
    partial = lines[-4:]
    assert lines[0] == (
        "%x = vk.load %a[%i0 + i, %k0 + k] described : !vk.tensor<[M, K], f16> -> tensor<16x16xf16, #vk.axes<i, k>>"
    )
    assert any(line.startswith("vk.store %r in %out[%i0 + i, %j0 + j] described :") for line in lines)
    assert re.search(r"%a\[%i0 \+ i, %k0_?\d* \+ k\] within \(i < .*, k < .*\) described :", partial[0])
    assert described(lines) == {"a", "b", "out"}
    assert not any(" described" in line for line in lines if "%bias" in line)


@pytest.mark.parametrize("facts", [
    Facts(),
    Facts(strides=ROWS, distinct=True),
    Facts(strides=ROWS, aligned=tuple(ROWS), large=tuple(ROWS), distinct=True),
    Facts(strides=ROWS, aligned=tuple(ROWS)),
    Facts(strides=dict.fromkeys(("a", "b", "out"), (-1, -1)), aligned=tuple(ROWS), distinct=True),
    Facts(strides=dict.fromkeys(("a", "b", "out"), (1, 1)), aligned=tuple(ROWS), distinct=True),
    Facts(strides=dict.fromkeys(("a", "b", "out"), (0, 1)), aligned=tuple(ROWS), distinct=True),
])  # fmt: skip
def test_where_the_layout_of_a_call_allows_none_threads_move_everything(facts: Facts) -> None:
    """Addresses and strides that are no multiples of 16 bytes, far elements, memory that may be shared, no or several
    dimensions of stride 1, repeated rows."""
    assert described(accesses(facts)) == set()


def test_one_tensor_of_a_layout_that_allows_none_leaves_the_others() -> None:
    assert described(accesses(Facts(strides=ROWS, aligned=("a", "bias"), distinct=True))) == {"a"}


STENCIL = """
vk.kernel @shifted(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %one = arith.constant 1 : i64
  %a = vk.load %x[%one + i, j] GUARD: !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %a in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
"""


def test_a_shifted_box_is_marked_where_no_bound_cuts_it() -> None:
    """Beside a bound of the axis, the shifted box would have elements that the bound leaves out."""
    facts = Facts(strides={"x": (-1, 1), "out": (-1, 1)}, aligned=("x", "out"), distinct=True)
    plan = Plan({"i": 16, "j": 16}, order=("i", "j"), descriptors=("x",))
    lines = accesses(facts, plan, STENCIL.replace("GUARD", "guarding [0] "))
    assert ["described" in line for line in lines if "%x[" in line] == [True, False]


REFUSED = {
    "the parameter is none": (PLAN, ("c",), "no parameter c of matmul"),
    "long rows": (Plan({"i": 512, "j": 16}, {"k": 16}), ("a",), "a box has 512 positions.* takes 256"),
    "short rows": (Plan({"i": 16, "j": 16}, {"k": 4}), ("a",), "rows of 8 bytes side by side.* takes 16 or more"),
    "packed too": (Plan({"i": 16, "j": 16}, {"k": 16}, packs=("b",)), ("b",), "and packs it: not both"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_plans_of_boxes_that_no_descriptor_has_are_refused(case: str) -> None:
    plan, names, words = REFUSED[case]
    plan = Plan(plan.tiles, plan.chunks, packs=plan.packs, order=("i", "j"), descriptors=names)
    with pytest.raises(PlanError, match=rf"the plan moves {names[0]} by descriptors.*{words}"):
        accesses(plan=plan)


KERNEL = """
vk.kernel @k(%x: !vk.tensor<[SHAPE], ELEMENT>, %out: !vk.tensor<[M, N], ELEMENT>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  BODY
}
"""
TILE = "tensor<?x?xELEMENT, #vk.axes<i, j>>"
LOAD = f"%a = vk.load %x[INDEX] : !vk.tensor<[SHAPE], ELEMENT> -> {TILE}"
STORE = f"vk.store %a in %out[i, j] : !vk.tensor<[M, N], ELEMENT> <- {TILE}"
SECOND = f"%b = vk.load %out[i, j] : !vk.tensor<[M, N], ELEMENT> -> {TILE}"
KERNELS = {
    "i1 has no format": ("x", "i, j", "M, N", "i1", [LOAD, STORE], "elements of i1"),
    "six dimensions": ("x", "i, j, 0, 0, 0, 0", "M, N, 1, 1, 1, 1", "f32", [LOAD, STORE], "6 dimensions"),
    "every second row": ("x", "2 * i, j", "M, N", "f32", [LOAD, STORE], "no access takes an unmasked box of x"),
    "both axes in one": ("x", "i + j, 0", "M, N", "f32", [LOAD, STORE], "no access takes an unmasked box of x"),
    "read and written": ("out", "i, j", "M, N", "f32", [LOAD, SECOND, STORE], "stored, and accessed elsewhere"),
}  # fmt: skip


@pytest.mark.parametrize("case", KERNELS)
def test_tensors_that_no_descriptor_has_are_refused(case: str) -> None:
    name, index, shape, element, body, words = KERNELS[case]
    text = KERNEL.replace("BODY", "\n  ".join(body))
    for key, value in (("INDEX", index), ("SHAPE", shape), ("ELEMENT", element)):
        text = text.replace(key, value)
    plan = Plan({"i": 16, "j": 16}, order=("i", "j"), descriptors=(name,))
    with pytest.raises(PlanError, match=f"the plan moves {name} by descriptors: .*{words}"):
        accesses(plan=plan, text=text)


def test_a_store_in_a_loop_is_refused_since_its_boxes_may_meet() -> None:
    loop = f"%c0 = arith.constant 0 : i64\n  vk.range %t = %c0 to %M {{\n  {STORE}\n  }}"
    text = KERNEL.replace("BODY", "\n  ".join([LOAD, loop]))
    for key, value in (("INDEX", "i, j"), ("SHAPE", "M, N"), ("ELEMENT", "f32")):
        text = text.replace(key, value)
    with pytest.raises(PlanError, match="out is stored in a loop"):
        accesses(plan=Plan({"i": 16, "j": 16}, order=("i", "j"), descriptors=("out",)), text=text)
