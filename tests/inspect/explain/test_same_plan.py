"""The plan that an explanation shows is the one that a call runs: chosen, tuned, pinned, given, or fallen back to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels.autotune.arguments import make_arguments, scalars
from vkernels.commands.explain.results import as_json
from vkernels.commands.options import target_named
from vkernels.compiler import (
    compile_cpu as compiling,
)
from vkernels.compiler.default_session import default_session, patient
from vkernels.compiler.tuned_plans import PlanQuery, TunedPlan, TunedVariant
from vkernels.inspect.explain.analyze import Question, find
from vkernels.inspect.explain.explanation import ExplainFindings
from vkernels.inspect.task import Task, kernel_of, signature_of, strides_of
from vkernels.ir.errors import PlanError
from vkernels.ir.plan_json import plan_from_json
from vkernels.language.kernel import Kernel
from vkernels.library.catalogue import CATALOGUE
from vkernels.library.tasks import library_tasks
from vkernels.targets.slices import planned_limits

NAMES = sorted({entry.name for entry in CATALOGUE})
SAMPLE = 8


@pytest.fixture(autouse=True)
def without_threads_set() -> Iterator[None]:
    before = vk.get_threads()
    yield
    vk.set_threads(before)


def ran(kernel: Kernel, *args: Any, **kwargs: Any) -> vk.LaunchEvent:
    """The event of a call that waits for the best plan."""
    events: list[vk.LaunchEvent] = []
    with vk.on_launch(events.append), patient():
        kernel(*args, **kwargs)
    (event,) = events
    return event


def explained_here(
    kernel: Kernel,
    event: vk.LaunchEvent,
    scalars: Mapping[str, str] = {},
    target: str = "cpu",
    strides: Mapping[str, Sequence[int]] = {},
) -> ExplainFindings:
    """What `vk explain` finds out of a call with these sizes and dtypes."""
    called = event.called
    limits = planned_limits(target_named(target, None, None))
    open_ = tuple(called.left_open)
    return find(
        Question(kernel, called.sizes, called.dtypes, scalars, called.constants, limits, True, open_, (), strides)
    )


def assert_same(found: ExplainFindings, event: vk.LaunchEvent) -> None:
    assert found.refused == ""
    assert event.plan is not None
    assert plan_from_json(found.plan) == event.plan


def check_library(name: str) -> None:
    task = next(task for task in library_tasks([name]) if task.name == name)
    kernel = kernel_of(task)
    arguments = make_arguments(task, fresh_seed() % 1000)
    event = ran(kernel, **{**task.constants, **arguments})
    kinds = dict(signature_of(task, scalars(task)).scalars)
    assert_same(explained_here(kernel, event, kinds, strides=strides_of(task)), event)


@pytest.mark.slow
def test_kernels_of_the_library():
    for name in random.Random(fresh_seed()).sample(NAMES, SAMPLE):
        print(name)
        check_library(name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_each_kernel_of_the_library(name):
    check_library(name)


@pytest.mark.parametrize("name", ["softmax_rows", "layer_norm_rows", "matmul_bias"])
def test_the_code_that_is_shown_is_that_of_the_call(name):
    """Every stage, down to the assembly."""
    task = next(task for task in library_tasks([name]) if task.name == name)
    kernel, arguments = kernel_of(task), make_arguments(task, fresh_seed() % 1000)
    arguments = {**task.constants, **arguments}
    event = ran(kernel, **arguments)
    kinds = dict(signature_of(task, scalars(task)).scalars)
    limits = planned_limits(target_named("cpu", None, None))
    called = event.called
    asked = Question(
        kernel, called.sizes, called.dtypes, kinds, called.constants, limits, True, called.left_open,
        strides=strides_of(task),
    )  # fmt: skip
    assert find(asked).stages == kernel.compile(**arguments).stages


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "matmul", "convolve"])
def test_what_the_command_writes_as_json(explained, name):
    found = explained(name, "cpu")
    case = found.case
    task = Task(case.source.reference, case.shape, case.dtypes)
    event = ran(kernel_of(task), **make_arguments(task))
    assert plan_from_json(as_json(found, "")["plan"]) == event.plan


def centred(**options: Any) -> Kernel:
    """A new kernel each time, so that nothing of it is remembered by this process."""

    def centred(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i, j = vk.tile("M"), vk.whole("N")
        out[i, j] = x[i, j] - vk.max(x[i, j], axis=j)

    return vk.kernel(**options)(centred)


def call(kernel: Kernel, shape: tuple[int, int]) -> vk.LaunchEvent:
    x = torch.randn(shape)
    out = torch.full(shape, torch.nan)
    event = ran(kernel, x, out)
    torch.testing.assert_close(out, x - x.amax(1, keepdim=True))
    return event


def shape() -> tuple[int, int]:
    """One that no test before has planned for."""
    random = np.random.default_rng(fresh_seed())
    return int(random.integers(20, 4000)), int(random.integers(20, 4000))


@pytest.mark.parametrize(
    ("options", "origin"),
    [
        ({"plan": vk.Pin(tiles={"i": 3})}, "chosen"),
        ({"plan": vk.Plan({"i": 2}, {"j": 16}, lanes="j")}, "author"),
        ({"budget": vk.Budget(registers=8)}, "chosen"),
        ({}, "chosen"),
    ],
    ids=["pinned", "the author's", "budget", "chosen"],
)
def test_plans_by_who_made_them(options, origin):
    kernel = centred(**options)
    event = call(kernel, shape())
    found = explained_here(kernel, event)
    assert_same(found, event)
    assert found.origin in (origin, "plain")


@contextmanager
def tuned_plan(plan: vk.Plan) -> Iterator[None]:
    class Provider:
        def plans(self, query: PlanQuery) -> tuple[TunedPlan, ...]:
            return (TunedPlan(plan, lambda: "entry 1"),)

        def variants(self, query: PlanQuery) -> tuple[TunedVariant, ...]:
            return ()

    session = default_session()
    before = session.tuned_plans.provider
    session.use_provider(Provider())
    try:
        yield
    finally:
        session.use_provider(before)


@contextmanager
def refusing(monkeypatch: pytest.MonkeyPatch, refused: Callable[[vk.Plan], bool]) -> Iterator[list[vk.Plan]]:
    """A compiler that has no code for some plans."""
    compile_kernel, seen = compiling.compile_kernel, []

    def picky(module: Any, plan: vk.Plan, *args: Any, **kwargs: Any) -> Any:
        if refused(plan):
            seen.append(plan)
            raise PlanError("no code for this one")
        return compile_kernel(module, plan, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(compiling, "compile_kernel", picky)
        yield seen


TUNED = vk.Plan({"i": 5}, {"j": 48}, lanes="j", warps=1)


def test_a_tuned_plan():
    kernel = centred()
    with tuned_plan(TUNED):
        event = call(kernel, shape())
        found = explained_here(kernel, event)
    assert event.plan == TUNED
    assert found.origin == "tuned"
    assert_same(found, event)


def test_a_tuned_plan_that_has_no_code(monkeypatch):
    kernel = centred()
    with tuned_plan(TUNED), refusing(monkeypatch, lambda plan: plan == TUNED) as seen:
        event = call(kernel, shape())
        count = len(seen)
        found = explained_here(kernel, event)
        assert count
        assert len(seen) > count
    assert event.plan != TUNED
    assert found.origin != "tuned"
    assert_same(found, event)


@pytest.mark.parametrize("is_explained_first", [True, False])
def test_plans_fallen_back_to(monkeypatch, is_explained_first):
    """Before the call is remembered, and after: what fitted once is not chosen anew."""
    size, kernel = shape(), centred()
    best = call(kernel, size).plan
    monkeypatch.setattr("vkernels.compiler.plan_cache.PlanCache.get", lambda *of: None)
    again = centred()
    with refusing(monkeypatch, lambda plan: plan == best):
        if is_explained_first:
            probe = vk.LaunchEvent("centred", None, "cpu", "cpu", 0, 0, 0, "", 1, 0, False, call_of(size))
            before = explained_here(again, probe)
        event = call(again, size)
        assert event.plan != best
        assert_same(before if is_explained_first else explained_here(again, event), event)


def call_of(size: tuple[int, int]) -> Any:
    from vkernels.runtime.events import CallRecord

    return CallRecord("", dict(zip("MN", size, strict=True)), {"x": "float32", "out": "float32"}, {})


def test_what_a_call_remembers_is_explained(monkeypatch):
    """A compiler that has become better since does not change the plan that calls take, nor what is shown."""
    size = shape()
    first = centred()
    with refusing(monkeypatch, lambda plan: plan.chunks.get("j", 0) >= min(size[1], 64)):
        event = call(first, size)
    second = centred()
    assert_same(explained_here(second, event), call(second, size))


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_a_slice(threads):
    if threads > vk.get_threads():
        pytest.skip("fewer cores than that")
    vk.set_threads(threads)
    kernel = centred()
    event = call(kernel, shape())
    assert_same(explained_here(kernel, event, target=f"cpu:cores={threads}"), event)


@pytest.mark.parametrize("is_in_place_first", [True, False])
def test_an_explanation_is_of_tensors_that_share_no_memory(is_in_place_first):
    """A call in place has a plan of its own, as half the bytes are touched. It is not the one that is shown."""
    size, kernel = shape(), centred()
    if is_in_place_first:
        call_in_place(kernel, size)
    event = call(kernel, size)
    if not is_in_place_first:
        call_in_place(kernel, size)
    assert_same(explained_here(kernel, event), event)


def call_in_place(kernel: Kernel, shape: tuple[int, int]) -> None:
    x = torch.randn(shape)
    expected = x - x.amax(1, keepdim=True)
    ran(kernel, x, x)
    torch.testing.assert_close(x, expected)
