"""Where the binaries of a plan do not fit, the next that a call would try is explained."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from vkernels.commands.options import target_named
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.inspect.explain import explain as module
from vkernels.inspect.explain.analyze import Question, find
from vkernels.ir.errors import PlanError
from vkernels.ir.planning.resources import Resource, Shortage
from vkernels.library.rows import layer_norm_rows, softmax_rows
from vkernels.targets.slices import planned_limits

KERNELS = {
    "softmax": (softmax_rows, {"x": "float32", "out": "float32"}, {"M": 64, "N": 70000}, {}),
    "layer_norm": (
        layer_norm_rows, dict.fromkeys(("x", "weight", "bias", "out"), "float16"), {"M": 64, "N": 9000}, {"eps": "f64"}
    ),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "tried",
    [(), (Resource.SHARED,) * 3, (Resource.REGISTERS,), (Resource.CODE, Resource.SHARED), (Resource.REGISTERS,) * 4],
)
@pytest.mark.parametrize("target", ["h100-sxm5-80", "t4", "mi300x"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_next_plan_is_that_of_calls(name, target, tried):
    kernel, dtypes, sizes, scalars = KERNELS[name]
    limits = planned_limits(target_named(target, None, None))
    lacks = tuple(lack.value for lack in tried)
    preparer = KernelPreparer(kernel, sizes, dtypes, scalars, {})
    found = find(Question(kernel, sizes, dtypes, scalars, {}, limits, True, (), lacks))
    if found.refused:
        with pytest.raises(PlanError, match="no plan gives code"):
            preparer.prepare(limits, lacks)
        return
    expected = preparer.prepare(limits, lacks).planned
    assert found.plan == expected.plan
    assert found.tried == expected.tried
    assert found.rung in ("", expected.rung)
    assert (found.rung == "bottom") == (expected.rung == "bottom")


@dataclass(frozen=True)
class Found:
    """What a plan's binaries came to, in place of an explanation."""

    number: int
    fits: bool
    rejected: tuple[str, ...] = ()


def steps(*plans: tuple[str, str, str]) -> list[SimpleNamespace]:
    """Plans one after another: rung, what its binaries do (`fits`, `spills`, `short`), who made it."""
    return [SimpleNamespace(rung=rung, does=does, origin=origin) for rung, does, origin in plans]


@pytest.mark.parametrize(
    ("plans", "shown"),
    [
        (steps(("registers", "fits", "chosen")), 0),
        (steps(("registers", "short", "chosen"), ("shared", "fits", "chosen")), 1),
        (steps(("registers", "spills", "chosen"), ("shared", "fits", "chosen")), 1),
        (steps(("registers", "spills", "chosen"), ("shared", "short", "chosen"), ("bottom", "fits", "chosen")), 0),
        (steps(("registers", "spills", "chosen"), ("shared", "short", "chosen"), ("bottom", "spills", "chosen")), 0),
        (steps(("registers", "spills", "tuned")), 0),
        (steps(("registers", "short", "tuned"), ("registers", "fits", "chosen")), 1),
        (steps(("registers", "short", "author")), 0),
        (steps(("bottom", "short", "chosen")), 0),
    ],
)
def test_what_binaries_take_too_much_of_leads_down(monkeypatch, plans, shown):
    """What merely spills is kept where the bottom rung is next, and where it is a tuned plan."""
    asked: list[tuple[str, ...]] = []

    def found(case: Any, target: Any, tools: Any, only_stage: str, tried: tuple[str, ...]) -> Any:
        asked.append(tried)
        plan = plans[len(tried)]
        return SimpleNamespace(
            rung=plan.rung, origin=plan.origin, refused="", stages={}, tried=tried, is_kept=plan.origin == "tuned"
        )

    def compiled(case: Any, target: Any, findings: Any, tools: Any) -> Any:
        plan = plans[len(findings.tried)]
        shortage = None if plan.does == "fits" else Shortage(Resource.REGISTERS, 0, 0, plan.does)
        return Found(len(findings.tried), plan.does != "short"), shortage

    monkeypatch.setattr(module, "_found", found)
    monkeypatch.setattr(module, "_compiled", compiled)
    monkeypatch.setattr(module, "refuse_unless_compiles", lambda architecture, triton: None)
    target = SimpleNamespace(vendor="nvidia", architecture="sm_90")
    last = module._without_judging(None, target, SimpleNamespace(triton="3.6.0"), "")
    assert (last.number, last.rejected) == (shown, tuple(plan.does for plan in plans[:shown]))
    assert asked == [("registers",) * number for number in range(len(asked))]
