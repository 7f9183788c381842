"""Loops that warps divide by role: which have the mark, what plans are refused, and that results stay the same."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Int8, Int32

import vkernels.language as vk
from vkernels.ir.analysis.warp_roles import why_not_on
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.ttir import LoweredTtir, print_ttir
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Home, Plan
from vkernels.ir.planning.check_pin import check_pin
from vkernels.ir.planning.choose_plan import choose_bottom, choose_plan
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped
from vkernels.targets import limits_of, target_named

from .lowering import kernel, lowered
from .test_descriptors import aligned, assert_same

ROWS = {"a": (-1, 1), "b": (-1, 1), "out": (-1, 1), "bias": (1,)}
FULL = Facts(
    multiples={"M": 32, "N": 16, "K": 32}, least={"K": 32}, strides=ROWS, aligned=tuple(ROWS), distinct=True
)  # fmt: skip
PLAN = Plan(
    {"i": 32, "j": 16}, {"k": 32}, order=("i", "j"), stages=3, descriptors=("a", "b"), warp_specialized=("k",)
)  # fmt: skip


def text_of(ttir: LoweredTtir) -> str:
    (launch,) = ttir.launches
    return print_ttir(launch.module)


def test_the_loop_is_marked_and_its_launch_assumes_nothing() -> None:
    mapped = apply_plan(kernel("matmul"), PLAN, FULL)
    verify_mapped(mapped)
    printed = print_module(mapped)
    assert re.search(r"scf\.yield %\w+ : .*\n\s*} \{vk\.warp_specialized\}", printed)
    assert print_module(parse_module(printed, "again")) == printed
    text = text_of(lowered(kernel("matmul"), PLAN, FULL))
    assert re.search(r"\"scf\.yield\"[^\n]*\n\s*\}\) \{tt\.warp_specialize\}", text)
    assert "assume" not in text
    assert "assume" in text_of(lowered(kernel("matmul"), replace(PLAN, warp_specialized=()), FULL))


@pytest.mark.parametrize("facts", [
    replace(FULL, multiples={"M": 32, "N": 16}),  # the last chunk is another loop's
    replace(FULL, multiples={"N": 16, "K": 32}),  # full and partial tiles have loops of their own
    replace(FULL, aligned=("a",)),  # threads move an operand
])  # fmt: skip
def test_elsewhere_warps_have_no_roles(facts: Facts) -> None:
    text = text_of(lowered(kernel("matmul"), PLAN, facts))
    assert "warp_specialize" not in text
    assert "assume" in text


@pytest.mark.parametrize("rows", [{}, {"b": (1, -1)}], ids=["N", "K"])
def test_integers_beside_each_other_along_another_axis_are_no_operands_of_roles(
    rows: dict[str, tuple[int, int]],
) -> None:
    """Groups of warps take bytes from shared memory only as they lie along the dot's axis."""

    def product(a: Int8[vk.Tensor, "M K"], b: Int8[vk.Tensor, "K N"], out: Int32[vk.Tensor, "M N"]) -> None:
        i, j, k = vk.tile("M"), vk.tile("N"), vk.whole("K")
        out[i, j] = vk.dot(a[i, k], b[k, j])

    made = vk.kernel(product)
    module = made.build(made.signature(a="int8", b="int8", out="int32"))
    strides = dict.fromkeys(("a", "b", "out"), (-1, 1)) | rows
    facts = replace(FULL, strides=strides, aligned=tuple(strides))
    text = text_of(lowered(module, PLAN, facts))
    assert ("warp_specialize" in text) == bool(rows)
    assert text.count("tt.descriptor_load") == 2


def test_values_stay_the_same() -> None:
    a, b, out = aligned((64, 96), np.float16), aligned((96, 32), np.float16), aligned((64, 32), np.float32)
    numbers = np.random.default_rng(0)
    a[...], b[...] = numbers.integers(-3, 4, a.shape), numbers.integers(-3, 4, b.shape)
    arguments = {"a": a, "b": b, "bias": aligned((32,), np.float32), "out": out}
    arguments["bias"][...] = 1
    ttir = lowered(kernel("matmul"), PLAN, FULL)
    assert "warp_specialize" in text_of(ttir)
    assert_same(kernel("matmul"), ttir, arguments, {"M": 64, "N": 32, "K": 96})


PINNED = Pin(warp_specialized=("k",))
REFUSED = {
    "no whole axis": (replace(PLAN, warp_specialized=("i",)), "i is no whole axis of matmul"),
    "few warps": (replace(PLAN, warps=2), "a program has 2 warps; it takes 4 or 8"),
    "one stage": (replace(PLAN, stages=1), "one stage"),
    "persistent": (replace(PLAN, resident_programs=8), "persistent"),
    "no descriptors": (replace(PLAN, descriptors=()), "no tensor is moved by descriptors"),
    "one operand": (replace(PLAN, descriptors=("a",)), "b is moved by threads"),
    "shared": (replace(PLAN, splits={"k": 2}), "programs share k"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_plans_without_room_for_roles_are_refused(case: str) -> None:
    plan, words = REFUSED[case]
    with pytest.raises(
        PlanError, match=f"the plan divides loops over {plan.warp_specialized[0]} among warps: .*{words}"
    ):
        apply_plan(kernel("matmul"), plan, FULL)


def test_loops_that_do_more_than_multiply_are_refused() -> None:
    plan = Plan({"i": 4}, {"j": 64}, {"e": Home.RECOMPUTE}, stages=2, descriptors=("x",), warp_specialized=("j",))
    with pytest.raises(PlanError, match="j has 0 dots"):
        apply_plan(kernel("softmax"), plan, Facts(strides={"x": (-1, 1)}, aligned=("x",), distinct=True))


def test_pins_say_why_not_and_plain_plans_have_no_roles() -> None:
    (matmul,) = kernel("matmul").ops
    limits, sizes = limits_of(target_named("h100-sxm5-80")), {"M": 256, "N": 256, "K": 256}
    for pin, words in (
        (Pin(warp_specialized=("k",), warps=2), "matmul: warp_specialized pins 'k'; a program has 2 warps"),
        (Pin(warp_specialized=("k",), descriptors=("a",)), "warp_specialized pins 'k'; b is moved by threads"),
    ):
        with pytest.raises(PlanError, match=words):
            check_pin(pin, matmul)
    for pin, size, roles in ((PINNED, 256, ("k",)), (PINNED, 250, ()), (replace(PINNED, warps=8), 256, ())):
        chosen = choose_plan(matmul, dict.fromkeys(sizes, size), limits, pin=pin)
        assert (chosen.plan.warp_specialized, chosen.rung) == (roles, "registers"), "no pin leads to the bottom"
    reason = "it divides loops over k among 8 warps; this GPU takes 4"
    assert why_not_on(limits, replace(PLAN, warps=8)) == reason
    assert why_not_on(limits_of(target_named("b200-sxm-180")), replace(PLAN, warps=8)) is None
    assert choose_bottom(matmul, sizes, limits, pin=PINNED).plan.warp_specialized == ()
