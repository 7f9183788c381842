"""A bench that measures nothing: times follow from a plan, so that what tuning does can be told exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vkernels.autotune.measure import Candidate, Failed, FailureReason, Measurement, Measures, Outcome, Setting
from vkernels.autotune.plan_space import PlanSpace

Times = Callable[[Candidate], float | FailureReason]


@dataclass
class FakeBench(Measures):
    """`times`: seconds of a candidate, or why it has none. `noise`: part by which a single measurement is off, in
    turns up and down; duels are exact. `interrupted`: after how many measurements somebody presses Ctrl-C.
    `settings`: other times in some settings."""

    times: Times
    noise: float = 0.0
    interrupted: int | None = None
    settings: Mapping[Setting, Times] = field(default_factory=dict)
    measured: list[Candidate] = field(default_factory=list)
    comparisons: list[Sequence[Candidate]] = field(default_factory=list)

    def measure(self, candidate: Candidate, timeout: float = 60.0, *, setting: Setting = Setting.COLD) -> Outcome:
        if self.interrupted is not None and len(self.measured) >= self.interrupted:
            raise KeyboardInterrupt
        self.measured.append(candidate)
        return self._outcome(candidate, 1 + self.noise * (-1) ** len(self.measured), setting)

    def paired_comparison(
        self, candidates: Sequence[Candidate], *, setting: Setting = Setting.COLD
    ) -> list[Outcome]:  # fmt: skip
        self.comparisons.append(candidates)
        return [self._outcome(candidate, 1.0, setting) for candidate in candidates]

    def _outcome(self, candidate: Candidate, factor: float, setting: Setting) -> Outcome:
        found = self.settings.get(setting, self.times)(candidate)
        if isinstance(found, FailureReason):
            return Failed(found, "so it goes")
        return Measurement(found * factor, found * factor * 0.999, found * factor * 1.001, 7)


def by_model(space: PlanSpace) -> Times:
    """Times as modelled, but for one kind of plan that the model has too slow: rows held at once take a tenth."""

    def times(candidate: Candidate) -> float:
        point = space.point(candidate.plan, candidate.constants or None)
        return 1.0 if point is None else space.seconds(point)

    return times
