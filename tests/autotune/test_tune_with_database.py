"""Tuning with a database, and a bench whose times are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vkernels.autotune.database import Database
from vkernels.autotune.database import entry as entries_module
from vkernels.autotune.database.entry import compilers
from vkernels.autotune.drive import Stop
from vkernels.autotune.history import History
from vkernels.autotune.measure import Candidate, Measurement
from vkernels.autotune.plan_space import PlanSpace, read
from vkernels.autotune.report import find
from vkernels.autotune.slice_names import slice_limits, slice_target
from vkernels.autotune.tune import tune
from vkernels.inspect.task import Task
from vkernels.ir.plan import MEANING

from .fake_bench import FakeBench
from .tuned_softmax import LIMITS, SLICE, TASK, landscape, tuned


def test_what_a_run_settled_on_with_luck_gives_way_when_it_is_timed_again(space: PlanSpace, tmp_path: Path):
    other = next(point for point in space.space.listed if point != space.default)
    lucky = Candidate(space.plan(other))
    with Database.open(str(tmp_path / "tuning.db")) as database:
        history = History(database, TASK, space.limits, slice_target(SLICE), SLICE)
        history.add(lucky, Measurement(1e-4, 1e-4, 1e-4, 9), 0, final=True)
        times = lambda each: 2.0 if each.plan == lucky.plan else 1.0  # noqa: E731
        result = tuned(FakeBench(times), Stop(evaluations=5), database=database)
        assert result.best == result.default
        best = database.best(next(iter(database.entries())).key)
    assert best is not None
    assert best.shown == result.best.candidate.plan


def test_what_was_tried_is_not_tried_again_and_the_search_goes_on_where_it_was(space: PlanSpace, tmp_path: Path):
    times = landscape(space, 6)
    whole = FakeBench(times)
    tuned(whole, Stop(evaluations=40))
    with Database.open(str(tmp_path / "tuning.db")) as database:
        first, second = FakeBench(times, interrupted=25), FakeBench(times)
        tuned(first, Stop(evaluations=40), database=database)
        assert len(database.entries()) == 25
        result = tuned(second, Stop(evaluations=40), database=database)
    assert first.measured + second.measured == whole.measured
    assert len(result.successes) + len(result.failures) == len(whole.measured)


def test_the_final_entry_is_the_best_of_its_key(space: PlanSpace, tmp_path: Path):
    with Database.open(str(tmp_path / "tuning.db")) as database:
        result = tuned(FakeBench(landscape(space, 7)), database=database)
        (final,) = [entry for entry in database.entries() if entry.final]
        assert final.shown == result.best.candidate.plan
        assert final.seconds == result.best.seconds
        assert database.best(final.key) == final
        failures = [entry for entry in database.entries() if entry.failure]
        assert len(failures) == len(result.failures)


@pytest.mark.slow
def test_the_best_of_other_limits_are_seeds(space: PlanSpace, tmp_path: Path):
    other = replace(LIMITS, shared=LIMITS.shared // 2)
    times = landscape(space, 8)
    with Database.open(str(tmp_path / "tuning.db")) as database:
        found = tune(
            TASK, SLICE, Stop(evaluations=80), bench=FakeBench(times), space=read(TASK, other), database=database
        )
        bench = FakeBench(times)
        tuned(bench, Stop(evaluations=3), database=database)
    assert bench.measured[1].plan == found.best.candidate.plan


def test_what_is_best_on_the_whole_device_is_timed_beside_the_finalists(space: PlanSpace, tmp_path: Path):
    if slice_limits("cpu") == slice_limits(SLICE):
        pytest.skip("this machine has one core")
    times = landscape(space, 9)
    able = [point for point in space.space.listed if isinstance(times(Candidate(space.plan(point))), float)]
    last = space.plan(able[-1])
    whole, own = (FakeBench(lambda c, best=best: 1e-9 if c.plan == best else times(c)) for best in (last, None))
    with Database.open(str(tmp_path / "tuning.db")) as database:
        wide = replace(space, limits=slice_limits("cpu"), seeds=(space.default, able[-1]))
        on_all = tune(TASK, "cpu", Stop(evaluations=3), bench=whole, space=wide, database=database)
        result = tuned(own, Stop(evaluations=3), database=database)
    assert on_all.best.candidate.plan == last
    assert on_all.device_wide is None
    assert result.device_wide.candidate.plan == last
    assert result.device_wide.seconds == times(Candidate(last))


def test_a_resumed_run_has_each_trial_of_a_run_once(space: PlanSpace, tmp_path: Path):
    with Database.open(str(tmp_path / "tuning.db")) as database:
        tuned(FakeBench(landscape(space, 6), interrupted=25), Stop(evaluations=40), database=database)
        tuned(FakeBench(landscape(space, 6)), Stop(evaluations=40), database=database)
        entries = database.entries()
    places = [(entry.provenance.run, entry.provenance.trial) for entry in entries]
    assert len(set(places)) == len(places) > 40
    progress = find(entries, [entry.key.compilers for entry in entries]).subjects[0].slices[0].progress
    assert progress is not None
    assert [trial for trial, _, _ in progress.trials] == list(range(len(entries)))


KERNEL = """
import vkernels as vk
from jaxtyping import Float
@vk.kernel
def double(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = 2.0 * x[i]
"""


def test_a_kernel_by_another_spelling_of_its_path_is_the_same(tmp_path: Path, monkeypatch):
    (tmp_path / "spelt.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    one, other, longer = (
        Task(f"{path}:double", {"N": size}, {"x": "float32", "out": "float32"})
        for path, size in [("spelt.py", 64), (f"{tmp_path}/../{tmp_path.name}/spelt.py", 64), ("./spelt.py", 5000)]
    )
    space, larger = read(one, LIMITS), read(longer, LIMITS)
    with Database.open(str(tmp_path / "tuning.db")) as database:
        result = tune(
            one, SLICE, Stop(evaluations=8), bench=FakeBench(lambda each: 1.0), space=space, database=database
        )
        history = History(database, other, space.limits, slice_target(SLICE), SLICE, result.caches)
        assert len(history.before(space)) == len(result.successes)
        assert {entry.kernel for entry in database.entries()} == {"spelt.py:double"}
        assert History(database, longer, larger.limits, slice_target(SLICE), SLICE).elsewhere(larger)


def test_databases_outlive_changes_of_our_source_that_do_not_change_plans(monkeypatch):
    assert compilers.__wrapped__(False).endswith(f"vkernels=plans-{MEANING}")
    monkeypatch.setattr(entries_module, "MEANING", MEANING + 1)
    assert compilers.__wrapped__(False).endswith(f"vkernels=plans-{MEANING + 1}")
