"""Judge finalists in several settings: a plan that is faster in one and slower in another must not win.

A plan that stores past the caches is the fastest where nobody reads its result, and makes the next kernel wait. Which
of both happens is not known when a kernel is tuned by itself, so plans win only if they lose in no setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import fmean

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError

from .database.entry import COLD, PROGRAM, WARM
from .measure import BySetting, Failed, Measurement, Outcome, Setting
from .rerank import WORTHWHILE, combined, rerank, scaled


@dataclass(frozen=True)
class Judging:
    """`search`: the setting in which plans are searched. `finals`: those in which finalists are judged."""

    search: Setting
    finals: tuple[Setting, ...]


CACHES: Mapping[str, Judging] = {
    PROGRAM: Judging(Setting.READ, (Setting.COLD, Setting.WARM, Setting.CHAIN)),
    COLD: Judging(Setting.COLD, (Setting.COLD,)),
    WARM: Judging(Setting.WARM, (Setting.WARM,)),
}
"""How plans are judged, by the value of `--caches`."""
MAX_UNSURE_LOSS = 0.03
"""A plan that seems to lose more than this fraction of its time in a setting loses there, however unsure that is."""


def judging_of(caches: str) -> Judging:
    """How plans are judged with `--caches`. Raises `OptionError` for an unknown name."""
    if caches not in CACHES:
        raise OptionError(f"--caches: there is no way of judging {caches!r}; {did_you_mean(caches, list(CACHES))}")
    return CACHES[caches]


@dataclass(frozen=True)
class Judged:
    """A finalist. `times`: its seconds in each setting, unless it failed.

    `outcome`: in one setting its time there; in several the base's time in the search, times the geometric mean over
    the settings of the finalist's seconds, divided by that of the base's: times of the search stay comparable.
    `loses_in`: settings in which it is slower than the base by more than the noise. The interval of a plan that loses
    somewhere reaches up to its time there, relative to the base: databases rank by that end.
    """

    outcome: Outcome
    times: Mapping[Setting, Measurement] = field(default_factory=dict)
    loses_in: tuple[Setting, ...] = ()


def loses(one: Measurement, base: Measurement) -> bool:
    """Whether a plan is slower than the base by more than the noise."""
    slower = one.seconds / base.seconds
    return slower > 1 + MAX_UNSURE_LOSS or (slower > 1 + WORTHWHILE and one.low > base.seconds)


def judge(
    settings: Sequence[Setting],
    compare: Callable[[Sequence[int]], Sequence[BySetting]],
    count: int,
    base: int,
    may: Callable[[int, int], bool],
    spare: Callable[[], bool] = lambda: True,
    favourite: int | None = None,
    usual: float = 0.0,
) -> list[Judged]:
    """`rerank` finalists in several settings at once; candidates that lose to the base in one do not fight on.

    `compare`: measures the candidates of these numbers in all settings. `usual`: seconds of the base in the search.
    """
    rounds: dict[Setting, list[dict[int, Outcome]]] = {setting: [] for setting in settings}

    def once(rivals: Sequence[int]) -> list[Outcome]:
        found = dict(zip(rivals, compare(rivals), strict=True))
        for setting, several in rounds.items():
            several.append({number: each[setting] for number, each in found.items()})
        return [_over_all(each) for each in found.values()]

    def beaten() -> list[int]:
        times = _times(rounds, base)
        return [number for number in range(count) if number != base and _is_beaten(times[number], times[base])]

    outcomes = rerank(once, count, base, may, spare, favourite, beaten)
    if len(settings) > 1:
        outcomes = _on_scale(outcomes, base, usual)
    times = _times(rounds, base)
    return [_judged(outcome, times[number], outcomes[base], times[base]) for number, outcome in enumerate(outcomes)]


def _on_scale(outcomes: Sequence[Outcome], base: int, usual: float) -> list[Outcome]:
    """Outcomes of which the base takes `usual` seconds: means over settings are compared with times of the search."""
    own = outcomes[base]
    if not isinstance(own, Measurement) or not usual:
        return list(outcomes)
    return [scaled(each, usual / own.seconds) for each in outcomes]


def _times(rounds: Mapping[Setting, Sequence[Mapping[int, Outcome]]], base: int) -> list[dict[Setting, Measurement]]:
    columns = {setting: combined(several, base) for setting, several in rounds.items()}
    count = len(next(iter(columns.values())))
    return [
        {s: each for s, column in columns.items() if isinstance(each := column[number], Measurement)}
        for number in range(count)
    ]


def _judged(
    outcome: Outcome, times: Mapping[Setting, Measurement], base: Outcome, usual: Mapping[Setting, Measurement]
) -> Judged:
    lost = _loses_in(times, usual)
    if lost and isinstance(outcome, Measurement) and isinstance(base, Measurement):
        worst = max(times[setting].seconds / usual[setting].seconds for setting in lost)
        outcome = replace(outcome, high=max(outcome.high, worst * base.high))
    return Judged(outcome, times, lost)


def _is_beaten(times: Mapping[Setting, Measurement], usual: Mapping[Setting, Measurement]) -> bool:
    """Whether a plan loses in a setting so clearly that further comparisons would be a waste."""
    return any(each.low > (1 + MAX_UNSURE_LOSS) * usual[s].high for s, each in times.items() if s in usual)


def _loses_in(times: Mapping[Setting, Measurement], usual: Mapping[Setting, Measurement]) -> tuple[Setting, ...]:
    return tuple(s for s, each in times.items() if s in usual and loses(each, usual[s]))


def _over_all(outcomes: BySetting) -> Outcome:
    """One outcome of those in all settings: a failure, or geometric means."""
    times: list[Measurement] = []
    for outcome in outcomes.values():
        if isinstance(outcome, Failed):
            return outcome
        times.append(outcome)
    if len(times) == 1:
        return times[0]
    seconds, low, high = (_mean([getattr(each, name) for each in times]) for name in ("seconds", "low", "high"))
    repeats, disturbed = sum(each.repeats for each in times), fmean(each.disturbed for each in times)
    loaded = any(each.loaded for each in times)
    return Measurement(seconds, min(low, seconds), max(high, seconds), repeats, disturbed, loaded)


def _mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(fmean(map(log, values)))
