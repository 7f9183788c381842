"""Several slices are tuned at once, and what was found for one is run on all."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Lock

import pytest

import vkernels as vk
from tests.autotune.fake_benches import maker
from vkernels.autotune import slices as tuning
from vkernels.autotune.benches import Benches, core_sets
from vkernels.autotune.database import Database
from vkernels.autotune.database.database import EntryFilter
from vkernels.autotune.drive import Stop
from vkernels.autotune.history import History
from vkernels.autotune.measure import BenchOptions, Candidate, Effort, Failed, FailureReason, Measurement
from vkernels.autotune.plan_space import PlanSpace, read
from vkernels.autotune.rerank import FEW_ROUNDS
from vkernels.autotune.result import Success, TuningResult
from vkernels.autotune.slice_names import slice_limits, slice_target, usable
from vkernels.autotune.slices import tune_slices
from vkernels.autotune.tune import tune
from vkernels.inspect.task import Task
from vkernels.ir.plan import Plan
from vkernels.targets.host_cpu import usable_cores

TASK = Task("vkernels.library.rows:softmax_rows", {"M": 64, "N": 256}, {"x": "float32", "out": "float32"})
ONE, LEAN, TINY = "cpu:cores=1", "cpu:cores=1,l2=65536", "cpu:cores=1,registers=8"


def candidate(tile: int) -> Candidate:
    return Candidate(Plan(tiles={"i": tile}, chunks={"j": 64}, order=("i",), lanes="j", warps=1))


def test_benches_get_cores_of_their_own_as_far_as_there_are_any():
    assert core_sets(1, 2, [3, 5, 6]) == [(6,), (5,)]
    assert core_sets(1, 5, [3, 5]) == [(5,), (3,)]
    assert core_sets(2, 4, [0, 1, 2, 3, 4]) == [(3, 4), (1, 2)]
    assert core_sets(3, 4, [0, 1, 2]) == [(0, 1, 2)]


def test_what_one_slice_measured_serves_those_on_as_many_cores_and_no_others():
    make, made = maker(lambda slice, _: 1.0)
    names = [ONE, LEAN, *(["cpu:cores=2"] if usable_cores() > 1 else [])]
    with Benches(TASK, names, make=make) as benches:
        for name in names:
            for tile in (1, 2, 1):
                assert benches.on(name).measure(candidate(tile)) == Measurement(1.0, 1.0, 1.0, 9)
        assert benches.counted.asked == 3 * len(names)
        assert benches.counted.measured == 2 * (len(names) - 1)
    measured = [(bench.place.cores, each) for bench in made for each in bench.measured]
    assert len(measured) == 2 * (len(names) - 1)
    assert all(bench.closed for bench in made)


def test_a_renewed_slice_has_its_next_duel_on_other_arguments():
    make, made = maker(lambda slice, candidate: 1.0)
    with Benches(TASK, ["cpu:cores=1"], make=make) as benches:
        bench = benches.on("cpu:cores=1")
        renewed = []
        for stale in (False, True, True, False):
            if stale:
                bench.renew_inputs()
            bench.paired_comparison([Candidate(Plan())], alone=True)
            renewed.append(made[0].renewed)
        assert renewed == [0, 1, 2, 2]


def test_what_could_not_be_measured_is_tried_again():
    left = [vk.SetupError("no worker comes up")]

    def times(slice: str, _: Candidate) -> float:
        if left:
            raise left.pop()
        return 2.0

    with Benches(TASK, [ONE, LEAN], make=maker(times)[0]) as benches:
        with pytest.raises(vk.SetupError):
            benches.on(ONE).measure(candidate(1))
        assert isinstance(benches.on(LEAN).measure(candidate(1)), Measurement)
        assert isinstance(benches.on(ONE).measure(candidate(1)), Measurement)


def test_two_that_want_the_same_at_once_have_it_measured_once():
    make, made = maker(lambda slice, _: 1.0)
    with Benches(TASK, [ONE, LEAN], make=make) as benches, ThreadPoolExecutor(8) as pool:
        wanted = [candidate(1 + number % 5) for number in range(100)]
        found = list(pool.map(lambda each: benches.on(LEAN).measure(each), wanted))
    assert all(isinstance(each, Measurement) for each in found)
    assert sum(len(bench.measured) for bench in made) == 5


def test_after_an_interrupt_nobody_measures_any_more():
    make, made = maker(lambda slice, _: 1.0)
    with Benches(TASK, [ONE, LEAN], make=make) as benches:
        benches.interrupt()
        with pytest.raises(KeyboardInterrupt):
            benches.on(LEAN).measure(candidate(1))
        with pytest.raises(KeyboardInterrupt):
            benches.on(ONE).paired_comparison([candidate(1)])
    assert all(bench.interrupted and not bench.measured for bench in made)


def _tune(times, slices, **more):
    make, made = maker(times)
    return tune_slices(TASK, slices, Stop(evaluations=6), make=make, search="random", **more), made


def test_each_slices_best_is_run_on_all_and_slices_that_are_not_here_are_modelled():
    found, made = _tune(
        lambda slice, each: 1e-3 * (1 + len(str(each.plan)) % (7 if slice == ONE else 5)),
        [ONE, LEAN, "t4"],
    )
    crossed = found.crossed
    assert crossed.slices == (ONE, LEAN, "t4")
    assert crossed.origins == ("measured", "measured", "modelled")
    assert set(found.results) == {ONE, LEAN}
    for number, name in enumerate((ONE, LEAN)):
        result = found.results[name]
        assert result.best is not None
        (row,) = [row for row in crossed.rows if row.candidate == result.best.candidate]
        assert name in row.tuned_for
        assert isinstance(crossed.outcomes[crossed.rows.index(row)][number], Measurement)
    assert any("t4" in row.tuned_for for row in crossed.rows)
    best = crossed.best_on(2)
    assert best is not None
    assert "t4" in crossed.rows[best].tuned_for
    assert sum(len(bench.held) for bench in made) >= 2
    assert any(held == usable() for bench in made for held in bench.held)
    json.dumps(found.to_json(), allow_nan=False)


def test_a_plan_that_takes_more_than_a_slice_has_is_not_run_there(monkeypatch: pytest.MonkeyPatch):
    tiny = "cpu:cores=1,l2=1024"
    large = Candidate(Plan(tiles={"i": 1}, chunks={"j": 64}, homes={"e": vk.Home.SHARED}, lanes="j", warps=1))
    monkeypatch.setattr(tuning, "_rows", lambda results, spaces: [tuning.Row(large, (ONE,))])
    wide = Task("vkernels.library.rows:softmax_rows", {"M": 64, "N": 100_000}, TASK.dtypes)
    make, _ = maker(lambda slice, _: 1.0)
    found = tune_slices(wide, [ONE, tiny], Stop(evaluations=1), make=make, search="random")
    assert isinstance(found.crossed.outcomes[0][0], Measurement)
    refused = found.crossed.outcomes[0][1]
    assert isinstance(refused, Failed)
    assert refused.reason == FailureReason.DOES_NOT_FIT
    assert "1024" in refused.text


def test_slices_that_are_alike_fight_together_and_tasks_beside_another_have_fewer_cores():
    found, made = _tune(lambda slice, each: 1e-3 * (1 + len(str(each.plan)) % 7), [ONE, LEAN, TINY])
    fights = sum(held is None for bench in made for held in bench.held)  # the rest is the table of all on all
    assert 1 <= fights < 3 * 3 * FEW_ROUNDS  # three slices, each alone in three settings, would have more
    assert all(result.final for result in found.results.values())
    with Benches(TASK, [ONE, LEAN, TINY], make=maker(lambda slice, _: 1.0)[0], most=1) as benches:
        assert len({bench.place.cores for bench in benches._all}) == len(benches._all) == 1


def test_workers_of_a_task_have_the_reference_s_plans_from_the_first():
    make, made = maker(lambda slice, _: 1.0)
    with Benches(TASK, [ONE, *(["cpu:cores=2"] if usable_cores() > 1 else [])], make=make) as benches:
        made[0].plans = ["chosen"]
        benches.start()
    assert all(bench.plans == ["chosen"] for bench in made)


def test_what_is_wrong_on_one_slice_ends_all():
    def times(slice: str, _: Candidate) -> float:
        if slice == LEAN:
            raise vk.SetupError("no worker comes up")
        return 1.0

    with pytest.raises(vk.SetupError, match="comes up"):
        _tune(times, [LEAN])


def test_slices_that_stand_twice_or_are_not_there_are_refused():
    for names in ([], [ONE, ONE], ["cpu:cores=1", "nowhere"]):
        with pytest.raises(vk.OptionError):
            tune_slices(TASK, names)


@pytest.mark.thorough
def test_two_slices_of_this_machine_are_tuned_for_real():
    found = tune_slices(TASK, [ONE, LEAN], Stop(evaluations=4), BenchOptions(Effort(seconds=0.02)), search="random")
    assert found.counted.measured < found.counted.asked
    assert found.crossed.serving() is not None
    assert found.spent["timing"] > 0
    for result in found.results.values():
        assert result.best is not None


def test_a_search_is_told_what_others_measured_on_as_many_cores():
    space = read(TASK, slice_limits(LEAN))
    assert space.space.listed is not None
    other = next(point for point in reversed(space.space.listed) if point not in space.seeds)
    make, made = maker(lambda slice, _: 1.0)
    with Benches(TASK, [ONE, LEAN], make=make) as benches:
        benches.on(ONE).measure(Candidate(space.plan(other), space.constants(other)))
        found = tune(TASK, LEAN, Stop(evaluations=3), search="random", bench=benches.on(LEAN), space=space)
    assert other in [success.point for success in found.successes]
    assert len(found.successes) == 3
    assert sum(len(bench.measured) for bench in made) == 3


def test_the_database_knows_what_each_plan_takes_on_the_other_slices(tmp_path: Path):
    with Database.open(f"sqlite:///{tmp_path / 'tuned.db'}") as database:
        found, _ = _tune(lambda slice, each: 1e-3 * (1 + len(str(each.plan)) % 7), [ONE, TINY], database=database)
        kept = {slice: [entry.shown for entry in database.entries(EntryFilter(kernel=TASK.name))
                        if entry.provenance.slice == slice] for slice in (ONE, TINY)}  # fmt: skip
    for number, name in enumerate((ONE, TINY)):
        for row, outcomes in zip(found.crossed.rows, found.crossed.outcomes, strict=True):
            if isinstance(outcomes[number], Measurement):
                assert row.candidate.plan in kept[name]  # whatever the order of its homes


@pytest.mark.parametrize("fast", [ONE, TINY])
def test_where_another_slices_plan_is_surely_faster_it_becomes_the_best_there(
    tmp_path: Path, fast: str, monkeypatch: pytest.MonkeyPatch
):
    plans = {ONE: candidate(2), TINY: candidate(4)}
    other = TINY if fast == ONE else ONE
    monkeypatch.setattr(tuning, "_refused", lambda *asked: None)

    def times(slice: str, each: Candidate) -> float:
        return 1e-3 if each == plans[fast] else 2e-3

    make, _ = maker(times)
    with Database.open(f"sqlite:///{tmp_path / 'tuned.db'}") as database:
        more = {"make": make, "tune": _with_best(plans, database), "database": database, "caches": "cold"}
        found = tune_slices(TASK, [ONE, TINY], **more)
        for name in (ONE, TINY):
            (best, *_) = sorted(
                (each for each in database.entries(EntryFilter(kernel=TASK.name)) if each.provenance.slice == name),
                key=lambda entry: (-entry.standing, entry.rank),
            )
            assert best.shown == plans[fast].plan
            assert best.final
    for name in (ONE, TINY):
        result = found.results[name]
        assert result.best is not None
        assert result.best.candidate == plans[fast]
    taken = found.results[other]
    assert taken.best is not None
    assert (taken.best.seconds, taken.gain) == (1e-3, 2)
    crossed = found.crossed
    assert [set(row.tuned_for) for row in crossed.rows if row.tuned_for] == [{ONE, TINY}]
    assert all(row.tuned_for or row.default_of for row in crossed.rows)


def test_a_plan_that_may_be_as_fast_stays_the_best(monkeypatch: pytest.MonkeyPatch):
    plans = {ONE: candidate(2), TINY: candidate(4)}
    monkeypatch.setattr(tuning, "_refused", lambda *asked: None)

    turns = count()

    def times(slice: str, each: Candidate) -> Measurement:
        seconds = 1e-3 if each != plans[TINY] else 0.95e-3 if next(turns) % 2 else 1.05e-3
        return Measurement(seconds, 0.5e-3, 2e-3, 9)

    found = tune_slices(TASK, [ONE, TINY], make=maker(times)[0], tune=_with_best(plans))
    assert {name: result.best and result.best.candidate for name, result in found.results.items()} == plans


def test_a_slice_that_found_nothing_has_what_another_found(monkeypatch: pytest.MonkeyPatch):
    plans = {ONE: candidate(2), TINY: None}
    monkeypatch.setattr(tuning, "_refused", lambda *asked: None)
    found = tune_slices(TASK, [ONE, TINY], make=maker(lambda *_: 1e-3)[0], tune=_with_best(plans))
    assert found.results[TINY].best is not None
    assert found.results[TINY].best.candidate == candidate(2)


def _with_best(plans: dict[str, Candidate | None], database: Database | None = None):
    """What tunes a slice by knowing its plan, which a first duel had the time of wrong."""

    def tune_(task: Task, slice: str, stop: Stop, space: PlanSpace, **more) -> TuningResult:
        default = Success(Candidate(space.plan(space.default), {}), space.default, Measurement(2e-3, 2e-3, 2e-3, 9))
        known = plans[slice]
        best = (
            None if known is None else Success(known, space.point(known.plan) or (), Measurement(9e-4, 9e-4, 9e-4, 9))
        )
        if best is not None and database is not None:
            history = History(database, task, space.limits, slice_target(slice), slice)
            history.add(best.candidate, best.measured, 0, final=True)
        return TuningResult(
            task, slice, best, default, (), (), space.sizes, "measured", "seconds", "forest", 0, 1.0, True
        )

    return tune_


@pytest.mark.sample(1)
@pytest.mark.parametrize("budget", [20.0, 60.0])
def test_the_budget_is_for_reading_searching_and_comparing_all_slices(monkeypatch, budget):
    clock = {"now": 0.0}
    for module in ("slices", "tune", "drive"):
        monkeypatch.setattr(f"vkernels.autotune.{module}.monotonic", lambda: clock["now"])
    lock = Lock()

    def times(slice: str, candidate: Candidate) -> float:
        with lock:
            clock["now"] += 0.2  # in the search and for each finalist in each setting
        return 1e-3 / sum(candidate.plan.tiles.values()) * (2 if slice == ONE else 1)

    def slow_read(*given):
        clock["now"] += 3.0
        return read(*given)

    monkeypatch.setattr(tuning, "read", slow_read)
    make, _ = maker(times)
    found = tune_slices(TASK, [ONE, LEAN], Stop(seconds=budget), make=make)
    assert all(result.best is not None for result in found.results.values())
    assert 0.5 * budget < clock["now"] < 1.1 * budget
