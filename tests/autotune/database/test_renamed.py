"""Renaming what is local to a kernel keeps its tuning; changing what the kernel does does not."""

from __future__ import annotations

import importlib
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import product
from math import comb
from operator import ne
from pathlib import Path
from typing import Any

import pytest

import vkernels as vk
from vkernels.autotune.arguments import built
from vkernels.autotune.database import Database
from vkernels.autotune.database import launches as asking
from vkernels.autotune.database.entry import hash_with_names, kernel_hash
from vkernels.autotune.history import History
from vkernels.autotune.measure import Candidate, Measurement
from vkernels.autotune.plan_space import MIN_POINTS, PlanSpace, read
from vkernels.autotune.report import choices_of, groups_of
from vkernels.autotune.slice_names import slice_target
from vkernels.autotune.study import Study, StudyHistory
from vkernels.compiler.default_session import default_session
from vkernels.compiler.tuned_plans import PlanQuery
from vkernels.inspect.task import Task, strides_of
from vkernels.ir.canonical_names import AXES, NAMED, PHASES, TENSORS, VALUES, names_of
from vkernels.ir.plan import Home, Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.planning.decisions.decisions import DECISION_OF
from vkernels.library.tasks import library_tasks
from vkernels.runtime.present_target import present_target

from ...renamed import renamed, renamed_file

TASKS = library_tasks(["all"])
MEASURED = Measurement(1e-6, 1e-6, 1e-6, 9)


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(asking, "_source", asking._Source())
    default_session().forget_tuned_plans()
    yield
    default_session().forget_tuned_plans()


@pytest.fixture
def choose() -> random.Random:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


def other_names(choose: random.Random) -> Callable[[str], str]:
    """Names that no compiler gives; a variable that is named as compilers do keeps its name."""
    return lambda old: old if old == "value" else "".join(choose.choices(string.ascii_letters, k=9))


def elsewhere(task: Task, folder: Path, new_name: Callable[[str], str]) -> tuple[Task, dict[str, str]]:
    """A task of the library whose kernel has other names, in a file; and these."""
    source = Path(str(importlib.import_module(task.source.module).__file__))
    names = renamed_file(source, folder / source.name, new_name)
    return replace(task, kernel=f"{folder / source.name}:{task.source.name}"), names


def asked(task: Task) -> PlanQuery:
    return PlanQuery(built(task), task.shape, task.dtypes, present_target("cpu").limits, strides_of(task))


def history_of(database: Database, task: Task) -> History:
    return History(database, task, present_target("cpu").limits, slice_target("cpu"), "cpu")


def any_plan(task: Task, choose: random.Random) -> Plan:
    """A plan of whatever names the kernel has; it need not fit."""
    names = names_of(built(task))

    def some(found: Any) -> list[str]:
        return choose.sample(sorted(found), choose.randint(0, len(found)))

    counts = {field: {name: choose.randint(1, 64) for name in some(names.axes)} for field in ("tiles", "chunks")}
    homes = {name: choose.choice([*Home]) for name in some(names.values)}
    order = choose.sample(sorted(names.axes), len(names.axes))
    return Plan(
        **counts, homes=homes, copies=tuple(some(names.values)), launches=tuple(some(names.phases)),
        online=tuple(some(names.axes)), lanes=choose.choice(order), order=tuple(order), packs=tuple(some(task.dtypes)),
        warps=choose.choice([1, 2, 4]),
    )  # fmt: skip


def with_names(plan: Plan, names: dict[str, str]) -> Plan:
    """A plan as its author would write it after a renaming."""
    changed: dict[str, Any] = {}
    for field in (name for name, kind in NAMED.items() if kind != TENSORS):
        value = getattr(plan, field)
        if isinstance(value, str):
            changed[field] = renamed(value, names)
        elif isinstance(value, tuple):
            changed[field] = tuple(renamed(name, names) for name in value)
        elif value is not None:
            changed[field] = {renamed(name, names): entry for name, entry in value.items()}
    return replace(plan, **changed)


@pytest.mark.sample(3)
@pytest.mark.parametrize("task", TASKS, ids=str)
def test_a_renamed_kernel_has_the_tuned_plan_of_the_first(task: Task, tmp_path: Path, choose: random.Random):
    path, plan = tmp_path / "a.sqlite", any_plan(task, choose)
    with Database.open(str(path)) as database:
        history_of(database, task).add(Candidate(plan, {}), MEASURED, 0)
    vk.use_database(str(path))
    (found,) = asking.plans_for(asked(task))
    assert found.plan == plan
    other, names = elsewhere(task, tmp_path, other_names(choose))
    assert kernel_hash(built(other)) == kernel_hash(built(task))
    assert names
    assert hash_with_names(built(other)) != hash_with_names(built(task))
    (found,) = asking.plans_for(asked(other))
    assert found.plan == with_names(plan, names)


def test_kernels_of_the_library_are_told_apart():
    assert len({kernel_hash(built(task)) for task in TASKS}) == len(TASKS)


LABELS = ("value", "value2", "value3", "max", "sum", "dot", "out_", "phase", "x_1", "x_2", "e", "loop", "axis", "naïve")
"""Names that compilers give as well, that lose a number, or that are no names in IR."""


@pytest.mark.sample(2)
@pytest.mark.parametrize("task", library_tasks(["softmax", "attention", "spdnn"]), ids=str)
def test_names_that_coincide_with_labels_keep_a_plan_or_give_none(task: Task, tmp_path: Path, choose: random.Random):
    known: list[str] = []

    def new_name(old: str) -> str:
        name = choose.choice([each for each in LABELS if each.isascii() and each not in known] or [f"{old}_other"])
        known.append(name)
        return name

    other, _ = elsewhere(task, tmp_path, new_name)
    own, theirs = names_of(built(task)), names_of(built(other))
    assert kernel_hash(own.kernel) == kernel_hash(theirs.kernel)
    for _ in range(20):
        canonical = own.to_canonical(any_plan(task, choose))
        found = theirs.to_author(canonical)
        assert found is None or theirs.to_canonical(found) == canonical


def test_a_plan_that_two_values_of_one_name_cannot_have_is_none(tmp_path: Path):
    text = """
import vkernels as vk
from jaxtyping import Float

@vk.kernel
def twice(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    first = vk.exp(x[i, j] - vk.max(x[i, j], axis=j))
    second = first / vk.sum(first, axis=j)
    third = second * vk.sum(second * second, axis=j)
    out[i, j] = third * vk.sum(third * third, axis=j)
"""
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "b.py").write_text(text.replace("second", "first"))
    one, other = (
        names_of(built(Task(f"{tmp_path / name}:twice", {"M": 8, "N": 8}, {"x": "float32", "out": "float32"})))
        for name in ("a.py", "b.py")
    )
    assert kernel_hash(one.kernel) == kernel_hash(other.kernel)
    apart = one.to_canonical(Plan(homes={"first": Home.SHARED, "second": Home.MEMORY}))
    assert one.to_author(apart) is not None
    assert other.to_author(apart) is None
    alike = one.to_canonical(Plan(homes={"first": Home.SHARED, "second": Home.SHARED}))
    assert other.to_author(alike) == Plan(homes={"first": Home.SHARED})


MEANINGS = {
    "reduce": ("vk.max", "vk.min"),
    "index": ("i, j", "j, i"),
    "sign": ("row - most", "most - row"),
    "result": ("e / total", "e * total"),
    "number": ("2.0", "3.0"),
    "loop": ("N", "M"),
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", [2, pytest.param(len(MEANINGS), marks=pytest.mark.thorough)])
def test_kernels_that_differ_in_meaning_differ(changes: int, tmp_path: Path, choose: random.Random):
    """All texts that differ from a random one in as many places as `changes`, or fewer."""
    text = """
import vkernels as vk
from jaxtyping import Float

@vk.kernel
def odd(x: Float[vk.Tensor, "M M"], out: Float[vk.Tensor, "M M"], n: Float[vk.Tensor, "N"]):
    i, j = vk.tile("M"), vk.whole("M")
    row = x[{index}]
    most = {reduce}(row, axis=j)
    e = vk.exp({sign})
    kept = vk.scratch((i, j), vk.float32)
    kept[i, j] = e * {number}
    total = vk.sum(kept[i, j], axis=j)
    for k in vk.range("{loop}"):
        total += 1.0
    out[i, j] = {result}
"""
    hashes: dict[str, tuple[str, ...]] = {}
    first = tuple(choose.choice(pair) for pair in MEANINGS.values())
    near = [each for each in product(*MEANINGS.values()) if sum(map(ne, each, first)) <= changes]
    for number, values in enumerate(near):
        path = tmp_path / f"odd{number}.py"
        path.write_text(text.format(**dict(zip(MEANINGS, values, strict=True))))
        task = Task(f"{path}:odd", {"M": 8, "N": 8}, dict.fromkeys(("x", "out", "n"), "float32"))
        for each in (task, _other_file(path, tmp_path / f"other{number}.py", task, choose)):
            assert hashes.setdefault(kernel_hash(built(each)), values) == values
    assert len(hashes) == sum(comb(len(MEANINGS), count) for count in range(changes + 1))


def _other_file(source: Path, target: Path, task: Task, choose: random.Random) -> Task:
    renamed_file(source, target, other_names(choose))
    return replace(task, kernel=f"{target}:{task.source.name}")


def test_every_field_of_a_plan_that_names_something_is_known():
    kinds = {"tile axis": AXES, "whole axis": AXES, "axis": AXES, "tensor": TENSORS, "scratchpad": VALUES,
             "phase": PHASES, "value that crosses phases, or scratchpad,": VALUES}  # fmt: skip
    numbers = {each.name for each in fields(Plan) if isinstance(getattr(Plan(), each.name), int)}
    assert NAMED.keys() == {each.name for each in fields(Plan)} - numbers
    for name, kind in NAMED.items():
        assert kinds.get(DECISION_OF[name].subject, kind) == kind


def earlier(database: Database, task: Task, plan: Plan, constants: Any = None) -> None:
    """Store a plan as earlier versions did: under the hash with names, with the author's names."""
    history = history_of(database, task)
    entry = history._entry(Candidate(plan, constants or {}), history._provenance(), {
        "seconds": 1e-6, "low": 1e-6, "high": 1e-6, "repeats": 9,
    })  # fmt: skip
    key = replace(entry.key, kernel_hash=hash_with_names(history._built(constants or {})))
    database.add(replace(entry, key=key, plan=plan, names={}, final=True))


def space_of(task: Task) -> PlanSpace:
    return read(task, present_target("cpu").limits, most=MIN_POINTS)


def test_entries_of_earlier_versions_serve_calls_and_tuning(tmp_path: Path, choose: random.Random):
    (task,) = library_tasks(["softmax_rows"])
    space = space_of(task)
    plan = space.plan(choose.choice(space.space.listed))
    path = tmp_path / "a.sqlite"
    with Database.open(str(path)) as database:
        earlier(database, task, plan)
        (known,) = history_of(database, task).before(space)
        assert (known.point, known.candidate.plan, known.final) == (space.point(plan), plan, True)
    vk.use_database(str(path))
    (found,) = asking.plans_for(asked(task))
    assert found.plan == plan
    other, _ = elsewhere(task, tmp_path, other_names(choose))
    assert asking.plans_for(asked(other)) == ()


def test_what_is_tuned_now_counts_beside_what_earlier_versions_chose(tmp_path: Path, choose: random.Random):
    (task,) = library_tasks(["softmax_rows"])
    space = space_of(task)
    first, second = (space.plan(point) for point in choose.sample(space.space.listed, 2))
    path = tmp_path / "a.sqlite"
    with Database.open(str(path)) as database:
        earlier(database, task, first)
        history_of(database, task).add(Candidate(second, {}), replace(MEASURED, seconds=1e-9, low=1e-9), 0)
    vk.use_database(str(path))
    assert [each.plan for each in asking.plans_for(asked(task))] == [first, second]  # a trial is no choice
    with Database.open(str(path)) as database:
        history_of(database, task).add(Candidate(second, {}), Measurement(1e-9, 1e-9, 1e-9, 9), 0, final=True)
    vk.use_database(str(path))
    assert [each.plan for each in asking.plans_for(asked(task))] == [second, first]


def test_a_tuning_run_after_a_renaming_goes_on_from_the_trials_before(tmp_path: Path, choose: random.Random):
    (task,) = library_tasks(["softmax_rows"])
    other, _ = elsewhere(task, tmp_path, other_names(choose))
    space, renamed_space = space_of(task), space_of(other)
    points = choose.sample(space.space.listed, 5)
    with Database.open(str(tmp_path / "a.sqlite")) as database:
        for trial, point in enumerate(points):
            history_of(database, task).add(Candidate(space.plan(point), {}), MEASURED, trial)
        found = history_of(database, other).before(renamed_space)
        own, theirs = names_of(built(task)), names_of(built(other))
        known = [plan_to_json(theirs.to_canonical(each.candidate.plan)) for each in found]
        assert len(known) == len(points)
        assert all(plan_to_json(own.to_canonical(space.plan(point))) in known for point in points)
        history_of(database, other).add(choose.choice(found).candidate, MEASURED, 9)
        assert len(database.entries()) == len(points)  # the same plan, by another name


def test_a_study_goes_on_after_a_renaming(tmp_path: Path, choose: random.Random):
    (task,) = library_tasks(["softmax_rows"])
    other, _ = elsewhere(task, tmp_path, other_names(choose))
    target, limits = slice_target("cpu"), present_target("cpu").limits
    space, renamed_space = space_of(task), space_of(other)
    candidates = [Candidate(space.plan(point), {}) for point in choose.sample(space.space.listed, 5)]
    with Study(tmp_path / "study", {"kernel_hash": kernel_hash(built(task))}) as study:
        history = StudyHistory(None, task, limits, target, "cpu", study=study)
        for trial, candidate in enumerate(candidates):
            history.add(candidate, MEASURED, trial)
    with Study(tmp_path / "study", {"kernel_hash": kernel_hash(built(other))}) as study:
        found = StudyHistory(None, other, limits, target, "cpu", study=study).before(renamed_space)
    own, theirs = names_of(built(task)), names_of(built(other))
    known = [plan_to_json(theirs.to_canonical(each.candidate.plan)) for each in found]
    assert all(plan_to_json(own.to_canonical(each.plan)) in known for each in candidates)


def test_people_see_the_names_of_the_latest_text(tmp_path: Path, choose: random.Random):
    (task,) = library_tasks(["softmax_rows"])
    other, names = elsewhere(task, tmp_path, other_names(choose))
    with Database.open(str(tmp_path / "a.sqlite")) as database:
        for each in (task, other):
            space = space_of(each)
            for point in choose.sample(space.space.listed, 3):
                history_of(database, each).add(Candidate(space.plan(point), {}), MEASURED, 0)
        (group,) = groups_of(replace(entry, kernel="softmax_rows") for entry in database.entries())
    shown = {name for entry in group.entries for name in choices_of(entry)}
    assert f"tile {names['i']}" in shown
    assert "tile i" not in shown
    assert not any("." in name for name in shown)
