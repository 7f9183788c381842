"""What is said of plans far from the roofline: which line costs most, and why."""

from __future__ import annotations

import pytest
from jaxtyping import Float, Int

import vkernels as vk
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.planning.choose_plan import choose_bottom, choose_plan
from vkernels.ir.planning.slow_plans import FAR_OFF, slow_plan
from vkernels.ir.planning.space import read_space
from vkernels.ir.slow_plan import SlowPlan
from vkernels.targets import limits_of, target_named

H100 = limits_of(target_named("h100-sxm5-80"))


@vk.kernel
def centred(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, j] - vk.max(x[i, j], axis=j)


@vk.kernel
def looked_up(index: Int[vk.Tensor, "M"], table: Float[vk.Tensor, "K"], out: Float[vk.Tensor, "M"]):
    i = vk.whole("M")
    for k in vk.range("K"):
        first = vk.exp(table[k])
        out[i] = table[index[i]] + first


def judged(kernel: vk.Kernel, sizes: dict[str, int], bottom: bool = False, **dtypes: str) -> SlowPlan | None:
    built = kernel_in(kernel.build(kernel.signature(**dtypes)))
    chosen = choose_bottom(built, sizes, H100) if bottom else choose_plan(built, sizes, H100)
    return slow_plan(read_space(built, sizes, H100), chosen.plan, chosen.seconds, "is refused" if bottom else None)


def line_of(slow: SlowPlan) -> str:
    assert slow.place is not None
    return slow.place.pointed().splitlines()[0].strip()


FLOATS = {"x": "float32", "out": "float32"}


def test_the_bottom_rung_is_slow_and_says_why_it_was_taken():
    slow = judged(centred, {"M": 4096, "N": 4096}, bottom=True, **FLOATS)
    assert slow is not None
    assert slow.times > FAR_OFF
    assert slow.reasons[0].endswith("everything in memory: the best plan is refused")
    assert "one element at a time" in slow.reasons
    assert line_of(slow).startswith("out[i, j] =")
    assert slow.message("centred", "h100").splitlines()[0].startswith(f"{__file__}:{slow.place.line}:")


@pytest.mark.parametrize(("sizes", "bottom"), [({"M": 4096, "N": 4096}, False), ({"M": 1, "N": 4}, True)])
def test_good_plans_and_small_calls_are_not(sizes, bottom):
    assert judged(centred, sizes, bottom, **FLOATS) is None


def test_scattered_accesses_of_few_programs_are_named():
    slow = judged(looked_up, {"M": 1000, "K": 5000}, index="int64", table="float32", out="float32")
    assert slow is not None
    assert "elements of `table` are found by indices" in slow.reasons
    assert f"1 of {H100.multiprocessors} multiprocessors have work" in slow.reasons
    assert line_of(slow) == "out[i] = table[index[i]] + first"
