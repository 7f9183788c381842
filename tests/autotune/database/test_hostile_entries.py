"""Plans that come from elsewhere: those that no choice would take are refused, and the call runs by another, soon."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from vkernels.autotune.arguments import built
from vkernels.autotune.database.entry_json import entry_from_text, entry_to_json
from vkernels.inspect.task import Task
from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home, Plan
from vkernels.ir.plan_json import plan_from_json
from vkernels.ir.planning.bounds import MOST_ON_CPU, beyond_bounds, most_shares
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.default_plan import default_plan
from vkernels.ir.planning.judge_plan import why_refused
from vkernels.ir.planning.one_plan import batch_of, registers_of
from vkernels.ir.planning.space import read_space

from ...cpus import CPUS
from .making import LIMITS, entry

SECONDS = 20.0
"""That one call may take: what is refused takes less than one, on a busy machine."""

ABSURD = {
    "softmax": [
        {"splits": {"j": 100_000}, "homes": {}, "streams": []},
        {"splits": {"j": 1 << 40}, "homes": {}},
        {"splits": {"j": 1 << 62}, "homes": {}, "chunks": {"j": 1 << 62}},
        {"tiles": {"i": 1 << 40}, "homes": {}},
        {"tiles": {"i": 1 << 62}, "chunks": {"j": 1 << 62}, "homes": {}},
        {"tiles": {"i": 2048}, "homes": {}},
        {"chunks": {"j": 1 << 30}, "homes": {}},
        {"tiles": {"i": 1, "nobody": 7}},
        {"order": ["i", "nobody"]},
        {"lanes": "nobody"},
        {"homes": {"nothing": "shared"}},
        {"homes": {"e": "registers"}},
        {"launches": ["nowhere"]},
        {"online": ["j"], "splits": {"j": 2}, "homes": {}},
        {"copies": ["e"]},
        {"packs": ["nothing"]},
        {"streams": ["nothing"]},
    ],
    "matmul": [
        {"splits": {"k": 1 << 20}, "packs": []},
        {"tiles": {"i": 300, "j": 300}},
        {"chunks": {"k": 1 << 35}},
        {"packs": ["a", "nothing"]},
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_plan_is_one_warning_and_the_call_runs_by_another_in_bounded_time(tmp_path, name):
    (tmp_path / "plans.json").write_text(json.dumps(ABSURD[name]))
    command = [sys.executable, "-m", "tests.autotune.database.hostile_calls", str(tmp_path), name, str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    reached = ABSURD[name][len(found) - 1 :]
    assert done.returncode == 0, f"{done.stderr}\nafter {reached[:2]}"
    assert len(found) == len(ABSURD[name])
    for each, changed in zip(found, ABSURD[name], strict=True):
        assert not each["taken"], changed
        (said,) = each["said"]
        assert "is not used: " in said
        assert "entry " in said
        assert f"{each['number']}.sqlite" in said


ABSURD_TASKS = {
    "softmax": Task("vkernels.library.rows:softmax_rows", {"M": 2048, "N": 1000}, {"x": "float32", "out": "float32"}),
    "matmul": Task("vkernels.library.dense:matmul_bias", {"M": 300, "N": 300, "K": 300},
                   dict.fromkeys(("a", "b", "bias", "out"), "float32")),
}  # fmt: skip


@pytest.mark.parametrize("name", ABSURD)
@pytest.mark.parametrize("cpu", CPUS)
def test_an_absurd_plan_is_refused_on_any_cpu(name, cpu):
    task = ABSURD_TASKS[name]
    space = read_space(built(task), task.shape, CPUS[cpu])
    chosen = choose_plan(space.kernel, task.shape, CPUS[cpu]).plan
    for changed in ABSURD[name]:
        assert why_refused(space, changed_by(chosen, changed)), changed


def changed_by(plan: Plan, changed: dict[str, object]) -> Plan:
    return replace(plan, **{field: getattr(plan_from_json(changed), field) for field in changed})


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("softmax", {"chunks": {"j": 1}, "homes": {}, "lanes": None, "streams": []}),
        ("matmul", {"tiles": {"i": 1, "j": 1}, "chunks": {"k": 1}, "lanes": None, "packs": []}),
    ],
)
def test_how_slow_a_plan_may_be_is_relative_to_the_best_of_that_cpu(name, changed):
    """One element at a time is far too slow for wide registers and one core, and just slow for narrow ones and many."""
    task, wide = ABSURD_TASKS[name], replace(CPUS["AVX-512"], multiprocessors=1)
    narrow = replace(wide, register_bytes=8, launch_seconds=1e-2)
    refused = []
    for limits in (wide, narrow):
        space = read_space(built(task), task.shape, limits)
        refused.append(why_refused(space, changed_by(choose_plan(space.kernel, task.shape, limits).plan, changed)))
    assert "times as long as the chosen plan" in str(refused[0])
    assert refused[1] is None


@pytest.mark.parametrize("cpu", CPUS)
def test_registers_of_a_cpu_are_no_reason(cpu):
    """They are estimated, what they cost is modelled, and what is tuned was measured."""
    task = TASKS[0]
    space = read_space(built(task), task.shape, CPUS[cpu])
    chosen = choose_plan(space.kernel, task.shape, CPUS[cpu]).plan
    wide = replace(chosen, tiles={"i": 4}, chunks={"j": 16 * space.width}, homes={}, lanes="j")
    batch = batch_of(space, wide)
    assert registers_of(batch, space.use_of(wide), space.limits) > space.limits.registers
    assert why_refused(space, wide) is None


COUNTS = {
    "a split over none": {"splits": {"j": 0}},
    "less than none": {"tiles": {"i": -4}},
    "true": {"chunks": {"j": True}},
    "a fraction": {"tiles": {"i": 1.5}},
    "no number": {"tiles": {"i": float("nan")}},
    "more than a machine counts": {"chunks": {"j": 1 << 80}},
    "no warp": {"warps": 0},
    "a million warps": {"warps": 1 << 20},
    "three warps": {"warps": 3},
    "a million stages": {"stages": 1_000_000},
    "no stage": {"stages": 0},
    "programs of nobody": {"resident_programs": -1},
    "a home in the attic": {"homes": {"e": "attic"}},
    "a launch twice": {"launches": ["a", "a"]},
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_that_no_plan_has_does_not_come_in(name):
    given = entry_to_json(entry(1))
    with pytest.raises(FileError, match=r"the entry: plan|no JSON"):
        entry_from_text(json.dumps({**given, "plan": {**given["plan"], **COUNTS[name]}}))


def test_no_depth_of_json_comes_in():
    text = json.dumps(entry_to_json(entry(1)))
    for depth in (50, 1000, 200_000):
        deep = text.replace('"tiles": {', '"tiles": {"i": ' + "[" * depth + "]" * depth + ", ", 1)
        with pytest.raises(FileError):
            entry_from_text(deep)


TASKS = [
    Task("vkernels.library.rows:softmax_rows", {"M": 4096, "N": 1000}, {"x": "float32", "out": "float32"}),
    Task("vkernels.library.rows:layer_norm_rows", {"M": 100, "N": 70000},
         dict.fromkeys(("x", "weight", "bias", "out"), "float32")),
    Task("vkernels.library.dense:matmul_bias", {"M": 256, "N": 512, "K": 128},
         dict.fromkeys(("a", "b", "bias", "out"), "float32")),
]  # fmt: skip
GPU = replace(LIMITS, registers=255, register_bytes=4, threads=1024, warp=32, multiprocessors=132, shared=1 << 17)


NOTHING = replace(GPU, shared=64, registers=16, threads=32, memory=1 << 12)
"""A GPU on which only the bottom rung is left."""


def spaces() -> list[tuple[Task, Limits]]:
    return [(task, limits) for task in TASKS for limits in (*CPUS.values(), GPU)]


@pytest.mark.parametrize(("task", "limits"), spaces(), ids=str)
def test_what_is_chosen_and_the_plain_plan_may_run_and_splits_without_end_may_not(task, limits):
    space = read_space(built(task), task.shape, limits)
    chosen = choose_plan(space.kernel, task.shape, limits).plan
    plain = default_plan(space.kernel, task.shape, limits)
    assert why_refused(space, chosen) is None
    assert why_refused(space, plain) is None
    whole = space.wholes[0]
    for programs in (most_shares(limits) + 1, 1 << 40):
        assert "programs" in str(why_refused(space, replace(plain, homes={}, splits={whole: programs})))


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_the_bottom_rung_may_run_where_nothing_fits(task):
    space = read_space(built(task), task.shape, NOTHING)
    chosen = choose_plan(space.kernel, task.shape, NOTHING)
    assert chosen.rung == "bottom"
    assert why_refused(space, chosen.plan) is None


@pytest.mark.sample(4)
@pytest.mark.parametrize(("task", "limits"), spaces(), ids=str)
def test_any_numbers_are_judged_without_an_error(task, limits):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    space = read_space(built(task), task.shape, limits)
    counts = [1, 2, 3, 8, 64, 1000, 1 << 16, 1 << 31, 1 << 53, 1 << 62]
    axes = [*space.tiles, *space.wholes, "nobody"]
    labels = [value.label for value in space.needs.crossing] + ["nothing"]
    for _ in range(60):
        plan = Plan(
            tiles={axis: draw.choice(counts) for axis in axes if draw.random() < 0.6},
            chunks={axis: draw.choice(counts) for axis in axes if draw.random() < 0.6},
            splits={axis: draw.choice(counts) for axis in axes if draw.random() < 0.3},
            homes={label: draw.choice(list(Home)) for label in labels if draw.random() < 0.3},
            online=tuple(axis for axis in axes if draw.random() < 0.2),
            launches=tuple(label for label in labels if draw.random() < 0.2),
            lanes=draw.choice([None, *axes]), order=tuple(draw.sample(axes, draw.randrange(len(axes)))),
            warps=draw.choice([1, 4, 64]), stages=draw.choice([1, 3, 64]), resident_programs=draw.choice([0, 1 << 62]),
        )  # fmt: skip
        reason = why_refused(space, plan)
        assert reason is None or reason, plan


def test_numbers_out_of_bounds_are_told_without_needs():
    task = TASKS[0]
    kernel = built(task)
    fine = Plan(tiles={"i": 1}, chunks={"j": 64})
    assert beyond_bounds(kernel, LIMITS, fine) is None
    assert "axis q" in str(beyond_bounds(kernel, LIMITS, replace(fine, tiles={"q": 1})))
    assert "axis j" in str(beyond_bounds(kernel, LIMITS, replace(fine, chunks={"j": MOST_ON_CPU + 1})))
    assert "tile axes" in str(beyond_bounds(kernel, LIMITS, replace(fine, tiles={"i": MOST_ON_CPU + 1})))
    assert "programs" in str(beyond_bounds(kernel, LIMITS, replace(fine, splits={"j": most_shares(LIMITS) + 1})))
