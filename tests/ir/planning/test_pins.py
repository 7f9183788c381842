"""Pinned parts of plans stay as they are, and the rest is chosen for them."""

from __future__ import annotations

import pytest

from tests.ir.planning.kernels import build, kernel_of
from tests.ir.planning.test_choose_plan import CPU, GPU
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.facts import Facts
from vkernels.ir.pin import Pin, with_pin
from vkernels.ir.plan import Home
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped

SIZES = {"M": 4096, "N": 4096}
PINS = {
    "tiles": Pin(tiles={"i": 4}),
    "chunks": Pin(chunks={"j": 128}),
    "a held row": Pin(chunks={"j": 4096}),
    "homes": Pin(homes={"e": "memory"}),
    "nothing kept": Pin(homes={"e": "recompute"}),
    "splits": Pin(splits={"j": 4}),
    "no splits": Pin(splits={"j": 1}),
    "lanes": Pin(lanes="j", streams=(), packs=()),
    "warps": Pin(warps=2),
    "residents": Pin(resident_programs=3),
    "online": Pin(online=("j",)),
}
MATMUL = {"M": 4096, "N": 4096, "K": 4096}


@pytest.mark.parametrize("limits", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", PINS)
def test_a_pinned_part_stays_and_the_kernel_can_have_the_plan(name, limits):
    module, pin = build("softmax_rows")[1], PINS[name]
    chosen = choose_plan(kernel_of(module), SIZES, limits, pin=pin)
    assert with_pin(chosen.plan, pin) == chosen.plan
    assert chosen.rung != "bottom"
    verify_mapped(apply_plan(module, chosen.plan, Facts(SIZES)))


def test_the_rest_of_a_pinned_plan_is_chosen_for_what_is_pinned():
    module = build("matmul_bias", "float16")[1]
    kernel, sizes = kernel_of(module), MATMUL
    pin = Pin(tiles={"i": 256, "j": 256})
    free, pinned = choose_plan(kernel, sizes, GPU), choose_plan(kernel, sizes, GPU, pin=pin)
    assert free.plan.tiles != pinned.plan.tiles
    use = annotate_needs(kernel).evaluate(with_pin(free.plan, pin), sizes, NeedsDevice.of(GPU))
    taken = annotate_needs(kernel).evaluate(pinned.plan, sizes, NeedsDevice.of(GPU))
    assert use.spills or use.shared_bytes > GPU.shared  # pinned afterwards, it would not fit
    assert not taken.spills
    assert taken.shared_bytes <= GPU.shared


@pytest.mark.parametrize("swizzle", [1, 3, 8])
def test_pinned_groups_of_programs_stay_and_nothing_is_split_beside_them(swizzle):
    module = build("matmul_bias", "float16")[1]
    for sizes in (MATMUL, {"M": 256, "N": 256, "K": 65536}):
        plan = choose_plan(kernel_of(module), sizes, GPU, pin=Pin(swizzle=swizzle)).plan
        assert plan.swizzle == swizzle
        assert swizzle == 1 or plan.split is None
        verify_mapped(apply_plan(module, plan, Facts(sizes)))


def test_a_pinned_home_of_a_long_row_is_kept_where_another_would_be_chosen():
    module = build("softmax_rows")[1]
    free = choose_plan(kernel_of(module), SIZES, CPU).plan.homes.get("e")
    assert free is Home.SHARED
    pinned = choose_plan(kernel_of(module), SIZES, CPU, pin=Pin(homes={"e": Home.RECOMPUTE})).plan
    assert pinned.homes.get("e", Home.RECOMPUTE) is Home.RECOMPUTE
