"""The model counts what programs keep for those after them as the code keeps it."""

from __future__ import annotations

import pytest
from jaxtyping import Float

import vkernels.language as vk
from vkernels.compiler.protocols import Signature
from vkernels.ir.cost_model.kept_loops import kept_along
from vkernels.ir.dialect import FirstOp
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.pipeline import cpu_pipeline, run_passes
from vkernels.ir.plan import Home, Plan
from vkernels.ir.planning.find_families import find_families
from vkernels.ir.planning.one_plan import batch_of, model_plan
from vkernels.ir.planning.space import read_space

from ..planning.kernels import kernel_of


@vk.kernel
def adapted(x: Float[vk.Tensor, "M K"], w: Float[vk.Tensor, "N K"], a: Float[vk.Tensor, "R K"],
            b: Float[vk.Tensor, "N R"], out: Float[vk.Tensor, "M N"]):  # fmt: skip
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    r = vk.whole("R")
    out[i, j] = vk.dot(x[i, k], w[j, k]) + vk.dot(vk.dot(x[i, k], a[r, k]), b[j, r])


WIDE = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)
SIZES = {"M": 256, "N": 512, "K": 512, "R": 16}


def built():
    return adapted.build(Signature(tuple((name, "float32") for name in adapted.function.__annotations__), (), ()))


@pytest.mark.parametrize("swizzle", [1, 4])
@pytest.mark.parametrize("order", [("i", "j"), ("j", "i")])
def test_programs_keep_what_the_model_says(order, swizzle):
    module = built()
    plan = Plan(
        {"i": 32, "j": 12}, {"k": 4, "r": 8}, {"value2": Home.SHARED}, lanes="i", order=order, swizzle=swizzle
    )  # fmt: skip
    at = batch_of(read_space(kernel_of(module), SIZES, WIDE), plan)
    modelled = {axis for loop in at.loops for axis in kept_along(loop, at)}
    mapped = run_passes(cpu_pipeline(plan, Facts(sizes=SIZES)), module)
    made = any(isinstance(op, FirstOp) for op in mapped.walk())
    assert modelled == ({"j"} if swizzle == 1 and order == ("i", "j") else set())
    assert made == bool(modelled)


def test_a_plan_takes_as_long_among_others_as_alone():
    """Families share what does not differ between them: whether programs run in groups does."""
    space = read_space(kernel_of(built()), SIZES, WIDE)
    grouped = [family for family in find_families(space) if family.choices.swizzle > 1]
    assert grouped
    for family in grouped:
        plan = family.batch.plan(family.best[0])
        assert family.least == pytest.approx(model_plan(space, plan).seconds, rel=0.1)
