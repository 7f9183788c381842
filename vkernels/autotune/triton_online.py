"""Measure configurations of plain Triton kernels on a GPU, with the timer and checks of our own kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from math import inf
from time import monotonic
from typing import Any

import numpy as np

from vkernels.compiler.backends.triton_kernels import without_autotune
from vkernels.compiler.backends.triton_launches import Launch, launch_to_compile
from vkernels.inspect.cases import KernelSource
from vkernels.inspect.worker_client import LaunchPool, failure_of
from vkernels.ir.errors import ArgumentError, OptionError

from .arguments import copied, is_array, numbers, refill
from .drive import Stop, end_of
from .expressions import Expression
from .measure.expected import EPSILON
from .measure.measures import Effort
from .measure.timing import CallClock, TimedCall, Timer
from .slice_names import usable
from .triton_bounds import AT_ONCE, compile_seconds
from .triton_configs import Ahead, OutOfTimeError, TritonConfig, grid_of

EFFORT = Effort()
START_SECONDS = 2.0
"""Seconds of compiling before processes that compile ahead start: about what these cost; small kernels take less."""
ROUNDINGS = 64.0
"""Results may differ from those of the author's configuration by so many roundings of their dtype, relative to the
largest value: sums are added in another order."""


class MeasuredLaunch:
    """A kernel with its arguments by name; its results with the author's configuration are right by definition.

    `clock`: times calls. `grid`: of constants and of integers among the arguments.
    """

    def __init__(
        self, kernel: Any, arguments: Mapping[str, Any], grid: Expression, clock: CallClock, effort: Effort = EFFORT
    ):
        self._kernel, self._arguments, self._grid = without_autotune(kernel), dict(arguments), grid
        self._timer = Timer(clock, effort)
        self._tensors = {name: value for name, value in self._arguments.items() if is_array(value)}
        self._before = {name: copied(value) for name, value in self._tensors.items()}
        self._expected: dict[str, Any] | None = None
        self._best = float("inf")
        self._refused: dict[TritonConfig, str] = {}
        self.first_runs = 0.0
        """Seconds of all configurations' first runs, nearly all of which is compiling."""

    def seconds(self, configs: Sequence[TritonConfig]) -> Iterator[float | str]:
        """Run, check and time each configuration."""
        for config in configs:
            call = self._refused.get(config) or self._checked(config)
            if isinstance(call, str):
                yield call
                continue
            found = self._timer.time([call], self._best, self._restore).seconds
            self._best = min(self._best, found)
            yield found

    def compared(self, configs: Sequence[TritonConfig]) -> list[float]:
        """Seconds of configurations that work, timed in turns."""
        calls = [[self._call(config)] for config in configs]
        return [each.seconds for each in self._timer.paired_comparison(calls, [self._restore] * len(calls))]

    def to_compile(self, config: TritonConfig) -> Launch | None:
        """What a configuration's launch would compile; None if nothing, or if the launch has to say what is wrong."""
        try:
            call = partial(self._kernel.run, grid=self._programs(config), warmup=True, **self._passed(config))
            return launch_to_compile(self._kernel, call)
        except Exception:  # Triton's binder and the author's heuristics raise anything
            return None

    def refuse(self, config: TritonConfig, reason: str) -> None:
        """Do not run a configuration, which does not compile."""
        self._refused[config] = f"does not compile: {reason}"

    def _call(self, config: TritonConfig) -> TimedCall:
        return partial(self._kernel[self._programs(config)], **self._passed(config))

    def _programs(self, config: TritonConfig) -> tuple[int, ...]:
        known = {n: v for n, v in self._arguments.items() if not is_array(v)}
        return grid_of(self._grid, {**known, **config.constants})

    def _passed(self, config: TritonConfig) -> dict[str, Any]:
        settings = {n: v for n, v in config.settings.items() if v is not None}
        return {
            **self._arguments, **config.constants, "num_warps": config.warps, "num_stages": config.stages, **settings,
        }  # fmt: skip

    def _checked(self, config: TritonConfig) -> TimedCall | str:
        """The call of a configuration, after its first run; or why it has no right results."""
        self._restore()
        try:
            call = self._call(config)
            began = monotonic()
            try:
                call()
            finally:
                self.first_runs += monotonic() - began
            found = {name: numbers(value) for name, value in self._tensors.items()}
        except OptionError:
            raise
        except Exception as error:  # Triton's compiler and launcher raise anything
            return f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error).strip() else ''}"
        if self._expected is None:
            self._expected = {name: value.copy() for name, value in found.items()}
        for name, value in found.items():
            if not _is_near(value, self._expected[name], str(self._tensors[name].dtype).rpartition(".")[2]):
                return f"wrong answer: {name} differs from that of the author's configuration"
        return call

    def _restore(self) -> None:
        for name, value in self._tensors.items():
            refill(value, self._before[name])


@contextmanager
def compiled_ahead(launch: MeasuredLaunch, source: KernelSource, stop: Stop) -> Iterator[Ahead]:
    """Compile configurations in worker processes, several at once, while nothing is timed.

    Launches find the binaries in Triton's cache. A launch that no worker can compile is left to this process, and so
    are the first ones, until they have taken `START_SECONDS`. `begin` raises `OutOfTimeError` where the time of `stop`,
    which begins now, ends meanwhile.
    """
    until, workers = end_of(stop), min(AT_ONCE, len(usable()))
    with LaunchPool(workers, compile_seconds(stop)) as pool:
        warmed: list[object] = []

        def begin(configs: Sequence[TritonConfig]) -> None:
            if not warmed:  # each worker executes the file first, and no configuration's limit counts that
                warmed.extend(pool.submit({"kind": "describe", "source": vars(source)}) for _ in range(workers))
            awaited = {config: launch.to_compile(config) for config in configs}
            begun = {
                config: pool.submit({"kind": "launch", "source": vars(source), "launch": each})
                for config, each in awaited.items()
                if each is not None
            }
            done, _ = wait(begun.values(), None if until == inf else max(0.0, until - monotonic()))
            if len(done) < len(begun):
                raise OutOfTimeError
            for config, future in begun.items():
                answer = future.result() if future.done() and future.exception() is None else {}
                reason = failure_of(answer) or answer.get("refused", "")
                if reason:
                    launch.refuse(config, reason)

        yield Ahead(begin, lambda: AT_ONCE if launch.first_runs >= START_SECONDS else 1)


def _is_near(found: Any, expected: Any, dtype: str) -> bool:
    if dtype not in EPSILON:
        return bool(np.array_equal(found, expected))
    scale = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    return bool(np.allclose(found, expected, rtol=0.0, atol=ROUNDINGS * EPSILON[dtype] * scale, equal_nan=True))


def launch_inputs(kernel_names: Sequence[str], made: object, where: str) -> dict[str, Any]:
    """Arguments by name, from what a user's function returns: a dict, or values in the order of the parameters.

    Raises `ArgumentError` for anything else.
    """
    if isinstance(made, Mapping):
        unknown = [name for name in made if name not in kernel_names]
        if unknown:
            raise ArgumentError(f"{where}: the kernel has no parameter {unknown[0]}; it has {', '.join(kernel_names)}")
        return dict(made)
    if not isinstance(made, list | tuple) or len(made) > len(kernel_names):
        raise ArgumentError(f"{where}: expected the arguments, as a dict or a tuple, got {type(made).__name__}")
    return dict(zip(kernel_names, made, strict=False))


def measured_launch(kernel: Any, arguments: Mapping[str, Any], grid: Expression, device: str) -> MeasuredLaunch:
    """A launch that is timed on a GPU of this machine. `device`: as torch names it."""
    import torch

    from .measure.clocks import CudaClock

    return MeasuredLaunch(kernel, arguments, grid, CudaClock(device, torch))
