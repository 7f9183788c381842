"""A tuned model is compared with the untuned one, and plans that do not pay in it are taken back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from vkernels.autotune.database import Database
from vkernels.autotune.history import History
from vkernels.autotune.measure import Candidate, Measurement
from vkernels.autotune.model_tuning import EndToEnd, ModelResult
from vkernels.autotune.model_turns import MAX_ROUNDS, ROUNDS, PlanDatabases, in_turns, tuned_parts, with_end_to_end
from vkernels.autotune.models import ModelTasks, Part
from vkernels.autotune.plan_space import PlanSpace
from vkernels.autotune.result import MEASURED, Success, TuningResult
from vkernels.autotune.slice_names import slice_limits, slice_target

from .tuned_softmax import SLICE, TASK


class FakeModel:
    """A part's tuned plan saves so much of a second of a run. `noise`: of a run; `drift`: from one to the next."""

    def __init__(self, saves: Mapping[int, float], noise: float = 0.0, drift: float = 0.0, seed: int = 0):
        self.saves, self.noise, self.drift = saves, noise, drift
        self.random = np.random.default_rng(seed)
        self.runs: list[frozenset[int]] = []

    def __call__(self, parts: frozenset[int]) -> float:
        self.runs.append(parts)
        seconds = 1.0 - sum(self.saves[part] for part in parts)
        return seconds * (1 + self.drift) ** len(self.runs) * (1 + self.noise * self.random.uniform(-1, 1))


@pytest.mark.parametrize("seed", range(8))
def test_plans_that_slow_the_model_down_are_taken_back_and_the_others_stay(seed: int):
    model = FakeModel({0: 0.2, 3: -0.1, 4: 0.1, 7: -0.05}, noise=0.01, drift=0.001, seed=seed)
    end = in_turns([0, 3, 4, 7], model)
    assert end.taken_back == (3, 7)
    assert end.gain == pytest.approx(1 / 0.7, rel=0.03)
    assert end.low <= end.gain <= end.high
    assert end.untuned / end.tuned == pytest.approx(end.gain, rel=0.03)


def test_a_model_that_is_not_faster_gets_all_its_plans_back_though_each_seems_to_pay():
    """One plan alone is the model with and without it; of several none is to blame."""
    (one, both) = in_turns([5], FakeModel({5: -0.1})), in_turns([1, 2], lambda parts: 1.0 + 0.1 * bool(parts))
    assert one.taken_back == (5,)
    assert both.taken_back == (1, 2)
    assert one.high < 1
    assert both.gain == pytest.approx(1 / 1.1)


@pytest.mark.parametrize("seed", range(8))
def test_noise_takes_nothing_back_where_all_pay(seed: int):
    end = in_turns(list(range(6)), FakeModel(dict.fromkeys(range(6), 0.03), noise=0.02, seed=seed))
    assert end.taken_back == ()
    assert end.low > 1


def test_what_is_unsure_is_run_more_often():
    sure, unsure = FakeModel({0: 0.1}), FakeModel({0: 0.001}, noise=0.05)
    assert in_turns([0], sure).rounds == ROUNDS
    assert in_turns([0], unsure).rounds == MAX_ROUNDS


def test_without_time_for_each_part_the_whole_is_compared_and_without_any_nothing_is():
    model = FakeModel(dict.fromkeys(range(50), 0.001))
    end = in_turns(list(range(50)), model, lambda runs: len(model.runs) + runs <= 40)
    assert end.taken_back == ()
    assert set(model.runs) == {frozenset(), frozenset(range(50))}
    assert in_turns([1], model, lambda runs: False) is None
    assert in_turns([], model) is None


def _result(space: PlanSpace, seconds: float) -> tuple[ModelResult, TuningResult]:
    def success(point, seconds: float) -> Success:
        return Success(Candidate(space.plan(point)), point, Measurement(seconds, seconds, seconds, 9))

    best, default = success(space.seeds[1], seconds), success(space.default, 1.0)
    tuned = TuningResult(TASK, SLICE, best, default, (), (), space.sizes, MEASURED, "seconds", "random", 0, 0.1)
    model = ModelTasks((Part(TASK, 2, 1.0),), 1.0)
    return ModelResult(model, (SLICE,), {0: {SLICE: tuned}}, {}, (), 0, 0, 1.0, {}), tuned


def test_calls_use_the_default_plan_again_after_the_tuned_one_was_taken_back(space: PlanSpace, tmp_path: Path):
    found, tuned = _result(space, 0.5)
    assert tuned_parts(found, SLICE) == [0]
    with Database.open(str(tmp_path / "tuning.db")) as database:
        history = History(database, TASK, slice_limits(SLICE), slice_target(SLICE), SLICE, "program")
        history.add(tuned.best.candidate, tuned.best.measured, 3, final=True)
        key = database.entries()[0].key
        assert database.best(key, TASK.shape).shown == tuned.best.candidate.plan
        end = EndToEnd(1.0, 1.1, 0.9, 0.88, 0.92, 6, (0,))
        after = with_end_to_end(found, {SLICE: end}, database)
        assert database.best(key, TASK.shape).shown == tuned.default.candidate.plan
        withdrawn = [each for each in database.entries() if each.shown == tuned.best.candidate.plan]
        assert [each.final for each in withdrawn] == [False]
        assert [each.seconds for each in withdrawn] == [0.5]
    assert after.results[0][SLICE].best == tuned.default
    assert after.before_and_after(SLICE) == (2.0, 2.0)
    assert after.to_json()["end_to_end"][SLICE]["taken_back"] == [0]
    assert tuned_parts(after, SLICE) == []
    assert with_end_to_end(found, {}, None).results == found.results


def test_a_database_of_some_parts_has_their_tuned_plans(space: PlanSpace, tmp_path: Path):
    found, tuned = _result(space, 0.5)
    databases = PlanDatabases(tmp_path, found, SLICE)
    assert databases.of(frozenset()) is None
    path = databases.of(frozenset([0]))
    assert databases.of(frozenset([0])) == path
    with Database.open(path, read_only=True) as database:
        (entry,) = database.entries()
        assert database.best(entry.key, TASK.shape).shown == tuned.best.candidate.plan
        assert entry.final
