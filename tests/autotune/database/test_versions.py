"""Calls that leave tunable constants open take the values that were tuned, with their plan; none that is not theirs."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkernels as vk
from vkernels.autotune.database import Database
from vkernels.autotune.database import launches as asking
from vkernels.autotune.drive import Stop
from vkernels.autotune.history import History
from vkernels.autotune.measure import Candidate, Measurement
from vkernels.autotune.plan_space import PlanSpace, read
from vkernels.autotune.report import groups_of
from vkernels.autotune.tune import tune
from vkernels.compiler.default_session import default_session
from vkernels.inspect.explain.analyze import Question, find
from vkernels.inspect.task import Task
from vkernels.ir.plan import Plan
from vkernels.runtime.present_target import present_target

from ..fake_bench import FakeBench

N = 1000
TEXT = """
import vkernels as vk
from jaxtyping import Float


@vk.kernel
def scaled(
    x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"],
    times: vk.Constant = vk.tunable(2, 1, 4, 8, where=lambda times, N: times * 100 <= N),
    kind: vk.Constant = vk.tunable("a", "b"), other: vk.Constant = 3,
):
    i = vk.tile("N")
    total = vk.zeros((i,), vk.float32)
    for _ in vk.range(times):
        total += x[i] / times
    if other == 4:
        total += 0 * x[i]
    out[i] = total if kind == "a" else total * 1
"""


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(asking, "_source", asking._Source())
    default_session().forget_tuned_plans()
    yield
    default_session().forget_tuned_plans()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("kernels") / "scaled.py"
    path.write_text(TEXT)
    return f"{path}:scaled"


@pytest.fixture
def task(file: str) -> Task:
    return Task(file, {"N": N}, {"x": "float32", "out": "float32"})


@pytest.fixture
def kernel(task: Task) -> Any:
    from vkernels.inspect.task import kernel_of

    return kernel_of(task)


def space_of(task: Task) -> PlanSpace:
    return read(task, present_target("cpu").limits)


def called(kernel: Any, n: int = N, **constants: Any) -> vk.LaunchEvent:
    """The event of a call whose result is right."""
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    out = np.full_like(x, np.nan)
    events: list[vk.LaunchEvent] = []
    with vk.on_launch(events.append):
        kernel(x, out, **constants)
    np.testing.assert_allclose(out, x, rtol=1e-5)
    return events[-1]


def history_of(database: Database, task: Task) -> History:
    from vkernels.autotune.slice_names import slice_target

    return History(database, task, present_target("cpu").limits, slice_target("cpu"), "cpu")


def unusual(plan: Plan, tile: int) -> Plan:
    return replace(plan, tiles={"i": tile})


def put(path: Path, task: Task, seconds: float, tile: int, **constants: Any) -> Plan:
    """What tuning would remember of a plan with these constants."""
    space = space_of(task)
    plan = unusual(space.plan(space.default), tile)
    with Database.open(str(path)) as database:
        history_of(database, task).add(Candidate(plan, constants), Measurement(seconds, seconds, seconds, 9), 0)
    return plan


def test_a_call_takes_the_best_constants_with_their_plan(tmp_path: Path, task: Task, kernel: Any):
    path = tmp_path / "a.sqlite"
    put(path, task, 3e-6, 16, times=2, kind="a")
    best = put(path, task, 1e-6, 32, times=4, kind="b")
    other = put(path, task, 2e-6, 64, times=4, kind="a")
    before = called(kernel)
    assert (before.called.constants, before.called.tuned) == ({"times": 2, "kind": "a", "other": 3}, False)
    assert before.called.left_open == ("times", "kind")
    vk.use_database(str(path))
    event = called(kernel)
    assert event.called.constants == {"times": 4, "kind": "b", "other": 3}
    assert event.called.tuned
    assert event.plan == best
    some = called(kernel, kind="a")
    assert (some.called.constants, some.plan) == ({"times": 4, "kind": "a", "other": 3}, other)
    assert (some.called.left_open, some.called.tuned) == (("times",), True)
    assert [each.plan for each in kernel.compile(shapes={"N": N}, targets="cpu")] == [best]
    assert [each.plan for each in kernel.compile(shapes={"N": N}, targets="cpu", kind="a")] == [other]
    vk.use_database(None)
    assert called(kernel).called.constants["times"] == 2


def test_a_constant_that_is_given_wins_and_has_the_plan_that_was_tuned_for_it(tmp_path: Path, task: Task, kernel: Any):
    path = tmp_path / "a.sqlite"
    put(path, task, 1e-6, 32, times=4, kind="a")
    own = put(path, task, 3e-6, 16, times=2, kind="a")
    vk.use_database(str(path))
    event = called(kernel, times=2, kind="a")
    assert (event.called.constants["times"], event.plan, event.called.left_open) == (2, own, ())
    assert called(kernel).called.constants["times"] == 4
    assert called(kernel, times=1, kind="a").called.tuned is False
    assert called(kernel, other=4).called.tuned is False


def test_positional_and_named_calls_are_told_apart_from_calls_that_leave_open(tmp_path: Path, task: Task, kernel: Any):
    path = tmp_path / "a.sqlite"
    put(path, task, 1e-6, 32, times=4, kind="a")
    vk.use_database(str(path))
    x, out = np.ones(N, np.float32), np.empty(N, np.float32)
    events: list[vk.LaunchEvent] = []
    with vk.on_launch(events.append):
        kernel(x, out, 2, "a", 3)
        kernel(x, out)
        kernel(x, out, 2, "a", 3)
        kernel(x, out)
    assert [event.called.constants["times"] for event in events] == [2, 4, 2, 4]
    assert [event.cache_hit for event in events] == [False, False, True, True]


def test_a_shape_of_another_class_or_that_the_constraint_forbids_is_not_served(tmp_path: Path, task: Task, kernel: Any):
    path = tmp_path / "a.sqlite"
    put(path, task, 1e-6, 32, times=8, kind="a")
    vk.use_database(str(path))
    assert called(kernel).called.constants["times"] == 8
    assert called(kernel, 999).called.constants["times"] == 8
    assert called(kernel, 3000).called.constants["times"] == 2
    narrow = replace(task, shape={"N": 799})
    put(path, narrow, 1e-6, 32, times=8, kind="a")
    vk.use_database(str(path))
    assert called(kernel, 799).called.constants["times"] == 2


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "constants",
    [{"times": 3, "kind": "a"}, {"times": 4}, {"times": 4, "kind": "a", "nobody": 1}, {"times": True, "kind": "a"},
     {"times": "4", "kind": "a"}, {"times": 4.0, "kind": "a"}, {"times": 4, "kind": None}, {"other": 3}],
    ids=str,
)  # fmt: skip
def test_constants_that_the_kernel_cannot_have_are_passed_over(
    tmp_path: Path, task: Task, kernel: Any, constants: dict[str, Any]
):
    path = tmp_path / "a.sqlite"
    put(path, task, 2e-6, 32, times=4, kind="b")
    with Database.open(str(path)) as database:
        (entry,) = database.entries()
        odd = replace(entry, constants=constants, seconds=1e-6, low=1e-6, high=1e-6)
        database.add(odd, replace(odd, plan=unusual(odd.plan, 8)))
    vk.use_database(str(path))
    event = called(kernel)
    assert event.called.constants == {"times": 4, "kind": "b", "other": 3}
    assert event.plan is not None
    assert event.plan.tiles == {"i": 32}


def test_what_was_tuned_for_another_text_of_that_version_is_passed_over(tmp_path: Path, task: Task, kernel: Any):
    path = tmp_path / "a.sqlite"
    put(path, task, 2e-6, 32, times=4, kind="b")
    with Database.open(str(path)) as database:
        (entry,) = database.entries()
        database.add(replace(entry, key=replace(entry.key, kernel_hash="0" * 64), seconds=1e-6, low=1e-6, high=1e-6,
                             constants={"times": 1, "kind": "a"}))  # fmt: skip
    vk.use_database(str(path))
    assert called(kernel).called.constants["times"] == 4


def test_a_plan_that_does_not_fit_is_passed_over_with_its_constants(tmp_path: Path, task: Task, kernel: Any):
    path = tmp_path / "a.sqlite"
    put(path, task, 1e-6, 1 << 50, times=4, kind="b")
    put(path, task, 2e-6, 64, times=1, kind="b")
    vk.use_database(str(path))
    assert called(kernel).called.constants["times"] == 1


def test_a_damaged_database_is_one_warning_and_the_authors_values(
    tmp_path: Path, kernel: Any, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"no database at all\n" * 100)
    vk.use_database(str(path))
    with caplog.at_level(logging.WARNING):
        assert called(kernel).called.constants["times"] == 2
        assert called(kernel, 17).called.constants["times"] == 2
    assert len([record for record in caplog.records if "database" in record.getMessage()]) == 1


def test_one_look_serves_a_call_and_what_is_known_is_not_asked_for_again(
    tmp_path: Path, task: Task, kernel: Any, monkeypatch: pytest.MonkeyPatch
):
    put(tmp_path / "a.sqlite", task, 1e-6, 32, times=4, kind="b")
    vk.use_database(str(tmp_path / "a.sqlite"))
    looks: list[object] = []
    found = asking._found
    monkeypatch.setattr(asking, "_found", lambda asked, look: looks.append(asked) or found(asked, look))
    for _ in range(3):
        assert called(kernel).called.tuned
        vk.set_threads(vk.get_threads())
    for launcher in (kernel._launcher,):
        launcher.forget()
    assert called(kernel).called.tuned
    assert len(looks) == 1


def test_a_database_of_before_gets_what_versions_are_found_by(tmp_path: Path, task: Task, kernel: Any):
    path = tmp_path / "a.sqlite"
    put(path, task, 1e-6, 32, times=2, kind="a")
    with sqlite3.connect(path) as raw:
        raw.execute("DROP INDEX vkernels_entries_versions")
        raw.execute("ALTER TABLE vkernels_entries DROP COLUMN asked")
    vk.use_database(str(path))
    assert called(kernel).called.tuned is False  # and the plan of the author's values is found
    put(path, task, 0.5e-6, 64, times=4, kind="a")
    default_session().forget_tuned_plans()
    assert called(kernel).called.constants["times"] == 4


@pytest.mark.slow
def test_what_tuning_finds_is_what_calls_take_and_explain_tells(tmp_path: Path, task: Task, kernel: Any):
    space = space_of(task)

    def times(candidate: Candidate) -> float:
        point = space.point(candidate.plan, candidate.constants)
        assert point is not None
        return space.seconds(point) * {2: 1.0, 1: 0.9, 4: 0.5, 8: 0.7}[int(candidate.constants["times"] or 0)]

    with Database.open(str(tmp_path / "a.sqlite")) as database:
        result = tune(task, "cpu", Stop(evaluations=60), bench=FakeBench(times), database=database, space=space)
        assert len(groups_of(database.entries())) == 1
    assert result.best is not None
    vk.use_database(str(tmp_path / "a.sqlite"))
    event = called(kernel)
    chosen = result.best.candidate
    assert {**event.called.constants} == {**chosen.constants, "other": 3}
    assert event.plan is not None
    assert space.point(event.plan, chosen.constants) == result.best.point
    asked = Question(
        kernel,
        task.shape,
        task.dtypes,
        {},
        {"times": 2, "kind": "a", "other": 3},
        present_target("cpu").limits,
        left_open=("times", "kind", "other"),
    )
    found = find(asked)
    assert (found.origin, dict(found.tuned)) == ("tuned", dict(chosen.constants))
    assert dict(find(replace(asked, left_open=())).tuned) == {}


def test_the_authors_own_plan_goes_with_the_authors_values(tmp_path: Path, task: Task, kernel: Any):
    put(tmp_path / "a.sqlite", task, 1e-6, 32, times=4, kind="b")
    own = vk.kernel(plan=unusual(called(kernel).plan or Plan(), 128))(kernel.function)
    vk.use_database(str(tmp_path / "a.sqlite"))
    event = called(own)
    assert event.called.constants["times"] == 2
    assert event.plan is not None
    assert event.plan.tiles == {"i": 128}
