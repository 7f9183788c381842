"""A budget below what any plan takes is an error in the author's terms; one that a plan keeps to is kept."""

from __future__ import annotations

import random

import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.default_session import default_session
from vkernels.compiler.specialise import kernel_in
from vkernels.targets import limits_of, target_named


def body(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)


def plans_for(target, budget, body=body, shape=(4096, 1000), **plan):
    kernel = vk.kernel(budget=budget, **plan)(body)
    module = kernel.build(kernel.signature(x="float32", out="float32"))
    sizes = dict(zip("MN", shape, strict=True))
    dtypes = {"x": "float32", "out": "float32"}
    return default_session().plans_for(kernel, kernel_in(module), sizes, dtypes, limits_of(target_named(target)))


def test_the_error_names_phase_resource_needed_allowed_and_the_costliest_value():
    with pytest.raises(vk.BudgetError) as caught:
        next(plans_for("h100-sxm5-80", vk.Budget(threads=31)).ranked())
    line = body.__code__.co_firstlineno + 3
    assert str(caught.value) == (
        f"{__file__}:{line}:11: error: body: phase `max` needs 32 threads a program, its budget allows 31; "
        "most of them for `row`\n"
        "    row = x[i, j]\n"
        "          ^\n"
        "Even the leanest plan takes so much: allow as many (`vk.Budget(threads=32)`), or set no bound; "
        "threads come in whole warps."
    )


@pytest.mark.parametrize("target", ["h100-sxm5-80", "mi300x", "t4"])
@pytest.mark.parametrize("bound", ["registers", "threads"])
def test_what_the_error_says_is_needed_is_enough_and_one_less_is_not(target, bound):
    with pytest.raises(vk.BudgetError) as caught:
        next(plans_for(target, vk.Budget(**{bound: 1})).ranked())
    needed = int(str(caught.value).partition(f"vk.Budget({bound}=")[2].partition(")")[0])
    assert next(plans_for(target, vk.Budget(**{bound: needed})).ranked()).use.threads >= 1
    with pytest.raises(vk.BudgetError, match=f"needs {needed} .* allows {needed - 1};"):
        next(plans_for(target, vk.Budget(**{bound: needed - 1})).ranked())


def summed(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    kept = vk.scratch((i, j), vk.float32)
    kept[i, j] = x[i, j] * 2
    out[i, j] = kept[i, j] + vk.sum(x[i, j], axis=j)


def test_a_pinned_home_that_exceeds_the_budget_is_named():
    plans = plans_for(
        "h100-sxm5-80", vk.Budget(shared=1000), summed, plan=vk.Pin(homes={"kept": "shared"}, tiles={"i": 4})
    )
    with pytest.raises(vk.BudgetError, match=r"bytes of shared memory a program.*allows 1000; most of them for `kept`"):
        list(plans.ranked())


def test_shared_memory_is_never_more_than_the_budget():
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(5):
        bound = draw.choice([draw.randrange(4, 1 << 10), draw.randrange(1 << 10, 1 << 18)])
        chosen = next(plans_for("h100-sxm5-80", vk.Budget(shared=bound), summed).ranked())
        assert chosen.use.shared_bytes <= bound


def test_the_first_call_raises_it_and_so_does_the_next(monkeypatch, session):
    x = torch.randn(7, 300)
    for patience in (0.0, 600.0):
        monkeypatch.setattr(session, "patience", patience)
        kernel = vk.kernel(budget=vk.Budget(registers=1))(body)
        for _ in range(2):
            with pytest.raises(vk.BudgetError, match="vector registers, its budget allows 1"):
                kernel(x, torch.empty_like(x))


def test_a_call_within_its_budget_is_right():
    x = torch.randn(7, 300)
    out = torch.full_like(x, torch.nan)
    vk.kernel(budget=vk.Budget(registers=8, shared=0))(body)(x, out)
    torch.testing.assert_close(out, x.double().softmax(-1).float())


def test_an_authors_plan_beyond_the_budget_is_an_error_and_one_within_is_taken():
    plan = vk.Plan({"i": 4}, {"j": 64}, lanes="j", warps=8)
    assert plans_for("h100-sxm5-80", vk.Budget(threads=256), plan=plan).author_plan() == plan
    with pytest.raises(vk.BudgetError, match=r"needs 256 threads a program, its budget allows 128(.|\n)*author gives"):
        plans_for("h100-sxm5-80", vk.Budget(threads=128), plan=plan).author_plan()


def test_what_runs_meanwhile_keeps_to_the_budget_too():
    for bound in (32, 64, 100, 1024):
        plans = [plan for plan, _ in plans_for("h100-sxm5-80", vk.Budget(threads=bound)).plain()]
        assert all(32 * plan.warps <= bound for plan in plans)
    (wide, _), _ = plans_for("h100-sxm5-80", None, shape=(4096, 1 << 14)).plain()
    assert wide.chunks["j"] > 1
    ((bottom, rung),) = plans_for("h100-sxm5-80", vk.Budget(registers=10), shape=(4096, 1 << 14)).plain()
    assert (bottom.chunks["j"], rung) == (1, "bottom")
