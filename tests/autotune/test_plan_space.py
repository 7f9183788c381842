"""Search spaces of plans: what is in them, what is not, and what points mean."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import vkernels as vk
from tests.cpus import CPUS
from vkernels.autotune.arguments import built, make_arguments, outputs
from vkernels.autotune.drive import Stop
from vkernels.autotune.plan_space import MAX_POINTS, SLOWER, PlanSpace, enough_points, read
from vkernels.autotune.searches import SEARCHES
from vkernels.autotune.slice_names import slice_limits
from vkernels.compiler.tuned_plans import PlanQuery, why_unfit
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.task import Task, kernel_of, strides_of
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.limits import Limits
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.default_plan import default_plan
from vkernels.ir.planning.fits import why_not
from vkernels.ir.planning.one_plan import model_plan
from vkernels.language.kernel import Kernel, Options
from vkernels.library.tasks import library_tasks
from vkernels.targets import limits_of, target_named

CPU = Limits(registers=16, register_bytes=32, shared=1 << 20, multiprocessors=2, cache=32 << 20)
TINY = replace(CPU, registers=4, shared=4 << 10)
GPU = limits_of(target_named("h100-sxm5-80"))
FEW_DECISIONS = 0.2
"""How much more a plan's seconds may count, for all that it decides."""
QUICK = ["softmax_rows", "matmul_bias", "csr_times_dense", "spdnn", "stencil_square", "count_in_parts", "find_fall"]

MINE = """
import vkernels as vk
from jaxtyping import Float

@vk.kernel
def scaled(
    x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"],
    times: vk.Constant = vk.tunable(2, 1, 4, 8, where=lambda times, N: times <= N // 2),
    kind: vk.Constant = vk.tunable("a", "b"), other: vk.Constant = 3,
):
    i = vk.tile("N")
    total = vk.zeros((i,), vk.float32)
    for _ in vk.range(times):
        total += x[i] / times
    out[i] = total
"""

COUNTS = """
import vkernels as vk
from jaxtyping import Int

@vk.kernel
def counts(index: Int[vk.Tensor, "N"], total: Int[vk.Tensor, "B"]):
    i = vk.tile("N")
    vk.atomic_add(total[index[i]], 1)
"""


def one_task(name: str, **wanted: object) -> Task:
    return next(
        task
        for task in library_tasks([name], SpecialisationRequest(**wanted))
        if task.name == name.rpartition(".py:")[2] or ".py" in name
    )


@pytest.fixture(scope="module")
def spaces() -> dict[str, PlanSpace]:
    return {name: read(one_task(name), CPU) for name in QUICK}


@pytest.fixture(scope="module")
def tunable(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("mine") / "scaled.py"
    path.write_text(MINE)
    return f"{path}:scaled"


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", QUICK)
def test_the_chosen_and_the_plain_plan_are_points_the_chosen_one_first(spaces: dict[str, PlanSpace], name: str):
    space, task = spaces[name], one_task(name)
    chosen = choose_plan(built(task), task.shape, CPU, strides=strides_of(task)).plan
    assert space.plan(space.default) == chosen
    assert space.point(chosen) == space.default
    assert space.point(default_plan(built(task), task.shape, CPU)) in space.space


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("limits", [CPU, TINY, GPU], ids=["cpu", "tiny", "gpu"])
def test_no_point_but_somebodys_own_exceeds_the_limits(name: str, limits: Limits):
    task = one_task(name)
    space = read(task, limits)
    needs = annotate_needs(built(task))
    random = np.random.default_rng(1)
    for number in random.choice(len(space.space.listed), min(60, len(space.space.listed)), replace=False):
        point = space.space.listed[number]
        if point not in space.given:
            use = needs.evaluate(space.plan(point), task.shape, NeedsDevice.of(limits))
            assert why_not(use, limits, 0.0) is None


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("limits", [TINY, *CPUS.values()], ids=["tiny", *CPUS])
def test_calls_take_each_point_which_runs_as_modelled(name: str, limits: Limits):
    """What tuning measures and keeps, a call does not refuse."""
    task = one_task(name)
    space, kernel = read(task, limits), kernel_of(task)
    query = PlanQuery(built(task), task.shape, task.dtypes, limits, strides_of(task))
    (version,) = space.versions
    others = [point for point in space.space.listed if point not in space.seeds]
    random = np.random.default_rng(1)
    chosen = random.choice(len(others), min(40, len(others)), replace=False)
    for point in (*space.seeds, *(others[number] for number in chosen)):
        plan = space.plan(point)
        assert why_unfit(kernel, query, plan) is None, plan
        modelled = float(model_plan(version.choices, plan).seconds)
        assert modelled == pytest.approx(space.seconds(point), rel=FEW_DECISIONS), plan


@pytest.mark.parametrize("name", QUICK)
def test_points_and_plans_go_into_one_another(spaces: dict[str, PlanSpace], name: str):
    space = spaces[name]
    points = list(islice(space.space, 0, None, max(1, len(space.space.listed) // 100)))
    assert [space.point(space.plan(point)) for point in points] == points
    assert len({repr(space.plan(point)) for point in points}) == len(points)


@pytest.mark.parametrize("name", QUICK)
def test_counts_shrink_and_the_model_bounds_what_is_left(spaces: dict[str, PlanSpace], name: str):
    space = spaces[name]
    own = len(space.given)
    assert space.sizes.before >= space.sizes.fitting >= space.sizes.after - own
    assert space.sizes.after == len(space.space.listed) <= MAX_POINTS + own
    chosen = [seconds for point, seconds in space.space.seconds.items() if point not in space.given]
    assert max(chosen, default=1.0) <= SLOWER * min(chosen, default=1.0)


def test_seeds_differ_in_more_than_sizes(spaces: dict[str, PlanSpace]):
    space = spaces["matmul_bias"]
    plans = [space.plan(seed) for seed in space.seeds]
    assert len(plans) > 8
    assert {bool(plan.packs) for plan in plans} == {True, False}
    assert {plan.order for plan in plans} >= {("i", "j"), ("j", "i")}


def test_the_space_is_the_same_each_time():
    task = one_task("softmax_rows")
    one, other = (read(task, CPU) for _ in range(2))
    assert one.space.listed == other.space.listed
    assert one.seeds == other.seeds
    assert one.space.names == other.space.names


@pytest.mark.parametrize("name", ["softmax_rows", "csr_times_dense"])
def test_plans_of_any_points_compute_what_the_default_does(spaces: dict[str, PlanSpace], name: str):
    space = spaces[name]
    task = space.task
    random = np.random.default_rng(7)
    kernel = kernel_of(task)
    (out,) = outputs(task)
    expected = make_arguments(task)
    kernel(**expected)
    for _ in range(4):
        plan = space.plan(space.space.sample(random))
        arguments = make_arguments(task)
        Kernel(kernel.function, Options(plan=plan))(**arguments)
        assert np.allclose(arguments[out], expected[out], rtol=1e-4, atol=1e-4), plan


def test_pinned_parts_hold_in_every_point(tmp_path: Path):
    path = tmp_path / "pinned.py"
    path.write_text(
        MINE.replace("@vk.kernel", '@vk.kernel(plan=vk.Pin(tiles={"i": 48}))')
        .replace("vk.tunable(2, 1, 4, 8, where=lambda times, N: times <= N // 2)", "2")
        .replace('vk.tunable("a", "b")', '"a"')
    )
    space = read(one_task(f"{path}:scaled", shape={"N": 1000}), CPU)
    assert {space.plan(point).tiles["i"] for point in space.space} == {48}


def test_an_authors_own_plan_is_the_default(tmp_path: Path):
    path = tmp_path / "planned.py"
    path.write_text(MINE.replace("@vk.kernel", '@vk.kernel(plan=vk.Plan(tiles={"i": 7}))'))
    space = read(one_task(f"{path}:scaled", shape={"N": 1000}), CPU)
    assert space.plan(space.default) == vk.Plan(tiles={"i": 7})


def test_tunable_constants_are_parameters_with_the_first_values_as_the_default(tunable: str):
    space = read(one_task(tunable, shape={"N": 10}), CPU)
    assert space.constants(space.default) == {"times": 2, "kind": "a"}
    every = {tuple(space.constants(point).values()) for point in space.space}
    assert every == {(times, kind) for times in (1, 2, 4) for kind in "ab"}  # 8 is ruled out by its constraint
    other = next(point for point in space.space if space.constants(point) == {"times": 4, "kind": "b"})
    assert space.point(space.plan(other), space.constants(other)) == other
    assert space.point(space.plan(other), {"times": 8, "kind": "b"}) is None


def test_a_call_without_tuning_takes_the_first_value_and_one_given_is_no_parameter(tunable: str):
    task = one_task(tunable, shape={"N": 100}, constants={"times": 8})
    space = read(task, CPU)
    assert {tuple(space.constants(point)) for point in space.space} == {("kind",)}
    kernel = kernel_of(task)
    assert [p.default for p in kernel.parameters if p.kind == "constant"] == [2, "a", 3]
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    kernel(x, out)
    assert np.allclose(out, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vk.tunable(), "expected the values"),
        (lambda: vk.tunable(1, 1), "is repeated"),
        (lambda: vk.tunable(1, True), "is repeated"),
        (lambda: vk.tunable([1]), "expected numbers"),
        (lambda: vk.tunable(float("nan")), "expected numbers"),
        (lambda: vk.tunable(1, 2, where=3), "where: expected a function"),
    ],
)
def test_what_no_constant_can_be_is_refused(make, message):
    with pytest.raises(vk.OptionError, match=message):
        make()


@pytest.mark.parametrize("where", ["lambda nothing: True", "lambda times: 1 / 0 > times"])
def test_constraints_that_cannot_be_asked_are_refused(tmp_path: Path, where: str):
    path = tmp_path / "wrong.py"
    path.write_text(MINE.replace("lambda times, N: times <= N // 2", where))
    with pytest.raises(vk.ArgumentError, match="times: `where`"):
        read(one_task(f"{path}:scaled", shape={"N": 10}), CPU)


def test_plans_that_no_point_has_have_none(spaces: dict[str, PlanSpace]):
    space = spaces["matmul_bias"]
    chosen = space.plan(space.default)
    assert space.point(replace(chosen, tiles={"i": 10**6, "j": 3})) is None
    assert space.point(replace(chosen, packs=("no tensor",))) == space.point(replace(chosen, packs=()))
    assert space.point(replace(chosen, streams=("no tensor",))) is None
    assert space.point(replace(chosen, splits={"k": 2, "j": 3})) is None


def test_a_longer_chunk_than_an_axis_is_the_one_that_holds_it():
    space = read(one_task("softmax_rows", shape={"M": 100, "N": 16}), CPU)
    held = next(point for point in space.space if space.plan(point).chunks == {"j": 16})
    assert space.point(replace(space.plan(held), chunks={"j": 4096})) == held


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_finds_the_best_of_a_small_space_by_its_modelled_times(spaces: dict[str, PlanSpace], search: str):
    space = spaces["csr_times_dense"]
    seeking = SEARCHES[search](space.space, seed=1, seeds=space.seeds)
    while (point := seeking.ask()) is not None:
        seeking.tell(point, space.seconds(point))
    assert len(seeking.told) == len(space.space.listed)
    assert seeking.best.seconds == min(space.space.seconds.values())


def test_a_short_search_has_a_space_of_the_best_modelled_plans_and_the_default_all_the_same():
    task = Task(
        "vkernels.library.rows:layer_norm_rows",
        {"M": 512, "N": 256},
        dict.fromkeys(("x", "weight", "bias", "out"), "float32"),
    )
    whole, some = (read(task, slice_limits("cpu:cores=1"), *most) for most in ((), (64,)))
    assert 64 <= some.sizes.after < whole.sizes.after
    assert whole.plan(whole.default) == some.plan(some.default)
    kept = sorted(some.seconds(point) for point in some.space.listed if point not in some.seeds)
    best = sorted(whole.seconds(point) for point in whole.space.listed)
    assert kept[-1] <= best[some.sizes.after - 1]
    assert enough_points(Stop(evaluations=8)) < enough_points(Stop(evaluations=20)) < enough_points(Stop(seconds=60))
    assert enough_points(Stop(seconds=60.0, evaluations=8)) == enough_points(Stop(evaluations=8))
    assert enough_points(Stop()) == MAX_POINTS


def test_private_copies_are_a_parameter_on_a_cpu(tmp_path: Path):
    (tmp_path / "counts.py").write_text(COUNTS)
    space = read(one_task(f"{tmp_path / 'counts.py'}:counts", shape={"N": 100_000, "B": 16}), CPU)
    copies = dict(zip(space.space.names, space.space.values, strict=True))["private copies"]
    assert {0, 1, 2} <= set(copies)
    assert space.plan(space.default).private_copies == 2
    for point in space.space.listed:
        assert space.point(space.plan(point)) == point
