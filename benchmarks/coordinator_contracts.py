"""Contracts of latency: which calls `vk.admit` says will end in time beside a task of low priority, and which do.

Each pair of tasks has five targets, multiples of the high task's median alone. Answers are asked for twice: knowing
profiles of both tasks alone, and then also one beside each other, of a run before. After each answer the high task runs
beside the low one, whether it was admitted or not; and once alone, which tells what else goes on in the machine.
"""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from coordinator_tasks import HIGH, LOW, Beside

import vkernels as vk
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.default_session import default_session
from vkernels.runtime.events import LaunchRecord
from vkernels.runtime.observed_calls import See, observe, stop_observing

TARGETS = (0.8, 1.2, 2.0, 5.0, 20.0)
LEAST_CALLS = 200
FEW_CALLS = 50
"""Of the low task, of which only the median counts."""
FROM_ALONE, FROM_BESIDE = "alone and modelled", "measured beside"


@dataclass(frozen=True)
class Outcome:
    """One answer and what happened. `known`: what it was found by. `predicted`, `found`: p99 in seconds.

    `is_kept`: beside the low task; `is_kept_alone`: before that, without it.
    """

    high: str
    low: str
    target: float
    known: str
    is_admitted: bool
    predicted: float
    found: float
    is_kept: bool
    is_kept_alone: bool


class Durations:
    """Observes how long calls of high priority take, as contracts do: without Python's part of a call."""

    def __init__(self) -> None:
        self.took: list[float] = []

    def watch(self, compilation: Compilation, record: LaunchRecord) -> See:
        def see(start: float, end: float, is_alone: bool) -> None:
            if vk.get_priority() == "high":
                self.took.append(end - start)

        return see


def durations(
    call: Callable[[], object], low: Beside | None, seconds: float, gap: float, calls: int = LEAST_CALLS
) -> list[float]:
    """How long calls of high priority take beside the low task or alone, for so many seconds and calls at least."""
    found = Durations()
    observe(found)
    if low is not None:
        low.start("low")
    time.sleep(0.02)
    begin = time.perf_counter()
    with vk.priority("high"):
        while time.perf_counter() - begin < seconds or len(found.took) < calls:
            call()
            time.sleep(gap)
    if low is not None:
        low.stop()
    stop_observing(found)
    return found.took


def is_kept(took: list[float], p99: float) -> bool:
    """Whether at most one call of a hundred took longer."""
    return 100 * sum(each > p99 for each in took) <= max(100, len(took))


def outcomes(high_name: str, low_name: str, seconds: float, gap: float) -> Iterator[Outcome]:
    """What is answered and what happens to one pair."""
    default_session().call_profiles.store = None  # neither reads this user's database nor adds to it
    default_session().call_profiles.forget()
    high, low = HIGH[high_name](), Beside(low_name, ctypes.c_int64())
    with vk.profile(calls=LEAST_CALLS):
        with vk.priority("high"):
            for _ in range(2 * LEAST_CALLS):
                high()
                time.sleep(gap)
        with vk.priority("low"):
            begin, calls = time.perf_counter(), 0
            while calls < FEW_CALLS or (calls < 2 * LEAST_CALLS and time.perf_counter() - begin < seconds):
                low.call()
                calls += 1
    beside = [(low.call, ())]
    alone = vk.admit(high, (), p99=1e3, watch=False).p50
    assert alone is not None, "it was profiled"
    for known in (FROM_ALONE, FROM_BESIDE):
        if known == FROM_BESIDE:
            with vk.admit(high, (), p99=1e3, beside=beside):
                durations(high, low, seconds, gap)
        again = durations(high, None, seconds, gap)
        for factor in TARGETS:
            answer = vk.admit(high, (), p99=factor * alone, beside=beside, watch=False)
            took = durations(high, low, seconds, gap)
            yield Outcome(
                high_name, low_name, factor, known, answer.is_admitted, answer.p99 or float("inf"),
                float(np.quantile(took, 0.99)), is_kept(took, factor * alone), is_kept(again, factor * alone),
            )  # fmt: skip


def contracts_kept(seconds: float, gap: float, only: str) -> Iterator[str]:
    """A line for each pair, and in the end how many answers were right, as a table in Markdown."""
    yield f"| high | low | answered by | {' | '.join(f'{factor:g} ×' for factor in TARGETS)} | p99 predicted, found |"
    yield "|---|---|---|" + "---|" * (len(TARGETS) + 1)
    found = list[Outcome]()
    for high_name in HIGH:
        for low_name in LOW:
            if only not in f"{high_name} {low_name}":
                continue
            pair = list(outcomes(high_name, low_name, seconds, gap))
            found += pair
            for known in (FROM_ALONE, FROM_BESIDE):
                yield line_of([each for each in pair if each.known == known])
    yield ""
    for known in (FROM_ALONE, FROM_BESIDE):
        yield totals([each for each in found if each.known == known], known)


def line_of(pair: list[Outcome]) -> str:
    """What was answered and happened at each target."""
    first = pair[0]
    said = [f"{_said(each.is_admitted)}, {'kept' if each.is_kept else 'broken'}" for each in pair]
    p99 = float(np.median([each.found for each in pair]))
    times = f"{1e6 * first.predicted:.0f}, {1e6 * p99:.0f} µs"
    return f"| {first.high} | {first.low} | {first.known} | {' | '.join(said)} | {times} |"


def _said(is_admitted: bool) -> str:
    return "yes" if is_admitted else "no"


def totals(found: list[Outcome], known: str) -> str:
    """How many of those that were admitted are kept, and of those that were refused break."""
    count = Counter((each.is_admitted, each.is_kept) for each in found)
    admitted, refused = count[True, True] + count[True, False], count[False, True] + count[False, False]
    alone = sum(each.is_admitted and each.is_kept_alone for each in found)
    return (
        f"{known}: of {admitted} admitted {_percent(count[True, True], admitted)} are kept "
        f"({_percent(alone, admitted)} without the low task), "
        f"of {refused} refused {_percent(count[False, False], refused)} break"
    )


def _percent(part: int, of: int) -> str:
    return f"{100 * part / of:.0f} %" if of else "none"
