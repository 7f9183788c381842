"""kernel_tuner's strategies on a recorded space, in its simulation mode, with or without seeds.

Seeds are measured first, count like any other point, and are what a strategy begins with: the best is its `x0`, where
it takes one, and all are the first of the random samples that it draws for its first population.
"""

from __future__ import annotations

import contextlib
import io
import math
import random
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from kernel_tuner import util
from kernel_tuner.interface import Options, strategy_map
from kernel_tuner.runners.simulation import SimulationRunner
from kernel_tuner.searchspace import Searchspace

from vkernels.autotune.recordings import RecordedSpace
from vkernels.autotune.space import Point

LEFT_OUT = {
    "brute_force": "goes through the space in its order",
    "skopt": "needs scikit-optimize, which kernel_tuner does not install",
    "pyatf_strategies": "needs pyatf, which kernel_tuner does not install",
    "nsga2": "for several objectives",
    "nsga3": "for several objectives",
}
STRATEGIES = tuple(name for name in strategy_map if name not in LEFT_OUT)
OPTIONS = {"random_sample": {"fraction": 1.0}}
"""What a strategy is told beside the budget: only that random sampling is not to end after a tenth of the space."""
TAKES_NO_START = {"random_sample", "bayes_opt", "hybrid_vndx", "adaptive_tabu_greywolf"}
MOST_ASKED = 100
"""Points asked for by evaluation allowed, known ones included, when a strategy that finds no new ones is stopped."""


class SeededSpace(Searchspace):
    """A search space whose first random samples begin with what `begin_with` was given."""

    _first: Sequence[Point] = ()

    def begin_with(self, points: Sequence[Point]) -> None:
        self._first = points

    def get_random_sample(self, num_samples: int) -> list[Point]:
        return self._with_seeds(super().get_random_sample(num_samples))

    def get_LHS_sample(self, num_samples: int, *args: Any, **named: Any) -> list[Point]:
        return self._with_seeds(super().get_LHS_sample(num_samples, *args, **named))

    def _with_seeds(self, drawn: Sequence[Point]) -> list[Point]:
        first, self._first = self._first[: len(drawn)], self._first[len(drawn) :]
        rest = [point for point in drawn if tuple(point) not in first]
        return [*first, *rest][: len(drawn)]


class Replayed(SimulationRunner):
    """Notes the milliseconds of each new point, infinite for failures; ends at the optimum, where no curve changes."""

    def __init__(self, optimum: float) -> None:
        super().__init__(None, Options(kernel_name="replayed"), Options(quiet=True), 1, [])
        self.found: list[float] = []
        self._optimum = optimum
        self._asked = 0

    def run(self, parameter_space: Iterable[Point], tuning_options: Any) -> list[Any]:
        budget = tuning_options.budget
        results: list[Any] = []
        for point in parameter_space:
            before = len(self.visited_results)
            results += super().run([point], tuning_options)
            self._asked += 1
            if len(self.visited_results) > before:
                failed = "__error__" in results[-1]
                self.found.append(math.inf if failed else float(results[-1]["time"]))
            if (self.found and self.found[-1] <= self._optimum) or self._asked > MOST_ASKED * budget.max_fevals:
                budget.max_fevals = budget.num_fevals
        return results


class Theirs:
    """kernel_tuner on one recording."""

    def __init__(self, recording: RecordedSpace) -> None:
        self.recording = recording
        self._parameters = {name: list(values) for name, values in zip(*self._named(), strict=True)}
        self._points = dict(enumerate(recording.space.named(point) for point in recording.outcomes))
        self._cache = {",".join(map(str, point)): self._result(point) for point in recording.outcomes}

    def run(self, strategy: str, evaluations: int, seed: int, seeds: Sequence[Point] = ()) -> list[float]:
        """Milliseconds of the new points, in turn, at most `evaluations`; shorter where the optimum was found.

        Each run has a space of its own: a space keeps which neighbours it gave, so that one run would help the next.
        """
        random.seed(seed)
        np.random.seed(seed)
        space = SeededSpace(None, None, None, from_cache={"tune_params": self._parameters, "cache": self._points})
        runner = Replayed(1e3 * self.recording.optimum)
        options = self._options(evaluations, OPTIONS.get(strategy, {}))
        quiet = contextlib.redirect_stdout(io.StringIO())
        with warnings.catch_warnings(), np.errstate(all="ignore"), quiet, contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            with contextlib.suppress(util.StopCriterionReached):
                runner.run(seeds, options)
                ranked = sorted(seeds, key=lambda point: util.get_result_cost(self._at(point), ["time"], [False]))
                space.begin_with(ranked)
                if ranked and strategy not in TAKES_NO_START:
                    options.strategy_options["x0"] = list(ranked[0])
                if not options.budget.is_done():
                    strategy_map[strategy].tune(space, runner, options)
        return runner.found

    def _named(self) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        return self.recording.space.names, self.recording.space.values

    def _at(self, point: Point) -> dict[str, Any]:
        return self._cache[",".join(map(str, point))]

    def _result(self, point: Point) -> dict[str, Any]:
        outcome = self.recording.outcomes[point]
        result: dict[str, Any] = dict(zip(self.recording.space.names, point, strict=True))
        if isinstance(outcome, float):
            return result | {"time": 1e3 * outcome, "times": [1e3 * outcome]}
        return result | {"time": util.RuntimeFailedConfig(), "__error__": util.RuntimeFailedConfig()}

    def _options(self, evaluations: int, more: dict[str, Any]) -> Options:
        return Options(
            cache=self._cache,
            budget=util.TuningBudget(None, evaluations),
            strategy_options=Options(max_fevals=evaluations, **more),
            objective=["time"],
            objective_higher_is_better=[False],
            tune_params=self._parameters,
            restrictions=[],
            metrics=None,
            verbose=False,
            eps=1e-3,
        )
