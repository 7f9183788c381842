"""How `library.py` measures: results checked, torch's ways compiled, the fastest of them timed in turns with ours."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter, sleep, thread_time

import numpy as np
import torch
from common import PAUSE, MultiplyAdd, Quartiles, in_threads, times_faster
from library_cases.case import Case, Way, as_tuple

Clock = Callable[[], float]
SHORTEST_TURN = 1e-3
"""Seconds; a shorter call is repeated within its turn."""

MOST_PLANS = 8
"""Calls until all kernels of a function have their plans."""

SECONDS = 3.0
"""What a case's turns may take; fewer rounds then, but three."""


@dataclass(frozen=True)
class Result:
    """Seconds a call; `baseline`: the fastest of torch's, `all_seconds` of the first turns; `failed`: what was not run.

    `ceiling`: the part reached of what the machine can do, measured in this run; NaN where nothing is known of it.
    """

    function: str
    size: str
    shape: str
    seconds: Quartiles
    baseline: str
    torch_seconds: Quartiles
    ratio: Quartiles
    ceiling: float
    error: float
    tolerance: float
    all_seconds: dict[str, float]
    failed: dict[str, str]


class Ceilings:
    """Rates of this machine on so many threads: bytes copied a second by size, multiply-adds (counted twice)."""

    def __init__(self, threads: int, clock: Clock):
        self.threads, self.clock = threads, clock
        multiply_add = MultiplyAdd(threads)
        self.operations = multiply_add.operations / min(_seconds(multiply_add, clock) for _ in range(7))
        self._copies: dict[int, float] = {}

    def copy_rate(self, moved: int) -> float:
        """Of as many bytes, rounded up to a power of two, half of them read and half written."""
        size = 1 << max(12, min(moved, 1 << 28) - 1).bit_length()
        if size not in self._copies:
            self._copies[size] = self._measure(size)
        return self._copies[size]

    def _measure(self, size: int) -> float:
        threads = self.threads if size >= 1 << 22 else 1  # handing small ones out takes longer than they do
        half = size // 2 // threads
        arrays = [(np.zeros(half, np.uint8), np.ones(half, np.uint8)) for _ in range(threads)]
        repeats = max(1, (1 << 24) // size)

        def copy(number: int) -> None:
            for _ in range(repeats):
                np.copyto(*arrays[number])

        least = min(_seconds(partial(in_threads, threads, copy), self.clock) for _ in range(7))
        return repeats * size / least * (self.threads / threads)

    def seconds(self, case: Case) -> float:
        """The least that a case can take."""
        return max(case.bytes / self.copy_rate(case.bytes), case.operations / self.operations)


def measure(
    case: Case, ceilings: Ceilings, rounds: int, compiled: bool, seconds_of_turns: float = SECONDS,
    compile_seconds: int = 0,
) -> Result:  # fmt: skip
    """Check, then time: ours and the faster ones of torch's in turns.

    `compile_seconds`: what torch.compile may take for each way; 0 for no limit.
    """
    clock = ceilings.clock
    error = error_of(case)
    runs: dict[str, Callable[[], object]] = {"ours": partial(case.ours, *case.arguments)}
    failed: dict[str, str] = {}
    for name, way in case.ways.items():
        runs[f"eager {name}"] = partial(way.run, *_arguments(case, way))
        if compiled and way.compiled:
            try:
                with _limited(compile_seconds):
                    runs[f"compiled {name}"] = _compiled(case, way)
            except Exception as problem:  # a compiler's; said in the results
                failed[f"compiled {name}"] = f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
    first = {name: _first_seconds(run, clock) for name, run in runs.items()}
    theirs = sorted((seconds, name) for name, seconds in first.items() if name != "ours")[:2]
    kept = ["ours", *(name for _, name in theirs)]
    repeats = {name: max(1, round(SHORTEST_TURN / max(first[name], 1e-7))) for name in kept}
    turn = sum(first[name] * repeats[name] for name in kept) + PAUSE * len(kept)
    seconds = _turns(
        {name: runs[name] for name in kept}, repeats, max(3, min(rounds, int(seconds_of_turns / turn))), clock
    )
    fastest = min(kept[1:], key=lambda name: float(np.median(seconds[name])))
    ours = Quartiles.of(seconds["ours"])
    return Result(
        case.function, case.size, case.shape, ours, fastest, Quartiles.of(seconds[fastest]),
        times_faster(seconds[fastest], seconds["ours"]), ceilings.seconds(case) / min(seconds["ours"]),
        error, case.tolerance, first, failed,
    )  # fmt: skip


def _arguments(case: Case, way: Way) -> tuple[object, ...]:
    return tuple(case.arguments if way.arguments is None else way.arguments)


def _compiled(case: Case, way: Way) -> Callable[[], object]:
    """torch.compile's for these very shapes; raises what it raises. No part of it may run uncompiled unnoticed."""
    torch._dynamo.reset()
    run = partial(torch.compile(way.run, dynamic=False, fullgraph=True), *_arguments(case, way))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run()
    return run


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in the main thread after so many seconds; 0 for never."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"not compiled in {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def error_of(case: Case) -> float:
    """Greatest error of ours as a part of the greatest magnitude, over all results."""
    exact = [_wide(result).cpu() for result in case.exact_results()]
    results = as_tuple(case.ours(*(_own(value) for value in case.arguments)))
    compared = [case.compares_integers or result.is_floating_point() or result.is_complex() for result in results]
    ours = [_wide(result) for result in results]
    pairs = [pair for pair, is_compared in zip(zip(ours, exact, strict=True), compared, strict=True) if is_compared]
    errors = (float((a - b).abs().max() / b.abs().max().clamp_min(1e-30)) for a, b in pairs if b.numel())
    return max(errors, default=0.0)


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.to(torch.complex128) if value.is_complex() else value.double()


def _own(value: object) -> object:
    """A copy, since some functions work in place."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def _seconds(run: Callable[[], object], clock: Clock, repeats: int = 1) -> float:
    start = clock()
    for _ in range(repeats):
        run()
    return (clock() - start) / repeats


def _first_seconds(run: Callable[[], object], clock: Clock) -> float:
    """The least of some calls, warm: plans that are found meanwhile are taken over."""
    for _ in range(MOST_PLANS):
        run()
        if not (making := [thread for thread in threading.enumerate() if thread.name.startswith("vkernels-")]):
            break
        for thread in making:
            thread.join()
    once = _seconds(run, clock)
    repeats = max(3, min(100, int(0.02 / max(once, 1e-7))))
    return min(_seconds(run, clock) for _ in range(repeats))


def _turns(
    runs: dict[str, Callable[[], object]], repeats: dict[str, int], rounds: int, clock: Clock
) -> dict[str, list[float]]:
    """Seconds a call in each round; nobody is always the first."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            sleep(PAUSE)
            runs[name]()
            seconds[name].append(_seconds(runs[name], clock, repeats[name]))
    return seconds


def clock_for(threads: int) -> Clock:
    """On one thread the time that it ran itself, so that other work on the machine counts less."""
    return thread_time if threads == 1 else perf_counter
