"""Time several implementations in interleaved rounds, so that other load affects all of them equally."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter


@dataclass(frozen=True)
class Spread:
    """The median of several measurements, the smallest and the largest."""

    middle: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """The spread of one measurement or more."""
        return Spread(median(values), min(values), max(values))


def interleave(
    runs: Mapping[str, Callable[[], object]],
    rounds: int,
    patience: float = float("inf"),
    progress: Callable[[int], None] = lambda rounds: None,
) -> dict[str, list[float]]:
    """Seconds of each run in each round. After the first round, rounds end once `patience` seconds are over.

    `progress` receives the number of rounds done, before each round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    begin = perf_counter()
    for number in range(rounds):
        if number and perf_counter() - begin > patience:
            break
        progress(number)
        for name, run in runs.items():
            start = perf_counter()
            run()
            seconds[name].append(perf_counter() - start)
    return seconds


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> Spread:
    """How many times faster ours is, round by round."""
    return Spread.of([a / b for a, b in zip(theirs, ours, strict=True)])
