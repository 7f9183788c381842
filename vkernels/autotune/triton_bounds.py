"""Static bounds of plain Triton kernels' configurations, compiled in worker processes for any device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, Self

from vkernels.compiler.artifact_cache import ArtifactCache
from vkernels.compiler.backends.resources import taken_by
from vkernels.compiler.backends.triton_adapter import GpuOptions
from vkernels.compiler.binaries.carried_registers import carried_registers
from vkernels.compiler.binaries.launch_loops import launch_loops
from vkernels.compiler.binaries.read_code import read_binary
from vkernels.compiler.workers.compile_cached import compile_cached
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompiledBinary, CompileJob
from vkernels.inspect.cases import JitSignature, KernelSource
from vkernels.inspect.worker_client import InspectPool, answer_of, failure_of
from vkernels.ir.analysis.needs.needs import SPILL_ALLOWANCE
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import Error
from vkernels.ir.planning.resources import held, misfit, spill
from vkernels.ir.system_resources import ThreadPool
from vkernels.targets import Target, limits_of

from .drive import Stop, end_of
from .expressions import Expression
from .slice_names import usable
from .triton_configs import Ahead, OutOfTimeError, TritonConfig, grid_of

AT_ONCE = 8
"""Configurations under way together, at least: some take ten times as long to compile as others, and the cores go on
meanwhile. With so many, the same seed tries the same configurations on all machines of up to eight cores."""
MIN_COMPILE, MAX_COMPILE, COMPILE_PART = 20.0, 60.0, 1 / 3
"""Limits of the seconds that compiling one configuration may take, and their part of the budget."""


@dataclass(frozen=True)
class TritonTask:
    """A plain Triton kernel and its launch. `arguments`: integers that a launch passes, by name. `grid`: of these and
    the constants."""

    source: KernelSource
    signature: JitSignature
    arguments: Mapping[str, int]
    grid: Expression

    def programs(self, config: TritonConfig) -> tuple[int, ...]:
        """The grid with a configuration. Raises `OptionError` for an impossible one."""
        return grid_of(self.grid, {**self.arguments, **dict(self.signature.constants), **config.constants})


@dataclass(frozen=True)
class BoundTools:
    """Pools for lowering and for compiling, and a cache if there is one."""

    preparing: InspectPool
    compiling: CompilePool
    cache: DiskCache | None = None


def compile_seconds(stop: Stop) -> float:
    """How long one configuration may take to compile, with this budget."""
    part = MAX_COMPILE if stop.seconds is None else COMPILE_PART * stop.seconds
    return min(MAX_COMPILE, max(MIN_COMPILE, part))


class StaticBounds:
    """Bounds of configurations for a device that need not be here, several at once. For one thread.

    Raises what is wrong with the kernel as a whole, and `OutOfTimeError` where the time of `stop`, which begins now,
    ends before the seconds of a configuration are known that is not the first one. What is under way when the `with`
    block ends is left to the pools.
    """

    def __init__(self, task: TritonTask, target: Target, tools: BoundTools, stop: Stop):
        self._task, self._target, self._tools = task, target, tools
        self._at_once = max(AT_ONCE, len(usable()))
        self._threads = ThreadPool(self._at_once)
        self._begun: dict[TritonConfig, Future[float | str]] = {}
        self._until = end_of(stop)
        self._is_first = True
        self._reading = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def ahead(self) -> Ahead:
        """How configurations are compiled ahead."""
        return Ahead(self.begin, lambda: self._at_once, rolling=True)

    def begin(self, configs: Sequence[TritonConfig]) -> None:
        """Compile configurations, and do not wait for them."""
        for config in configs:
            self._begun[config] = self._threads.submit(self._found, config)

    def seconds(self, configs: Sequence[TritonConfig]) -> Iterator[float | str]:
        """The bound of each configuration, or why it has none."""
        for config in configs:
            if config not in self._begun:
                self.begin([config])
            is_limited = not self._is_first and self._until != float("inf")
            future, self._is_first = self._begun.pop(config), False
            wait([future], max(0.0, self._until - monotonic()) if is_limited else None)
            if not future.done():
                raise OutOfTimeError
            yield future.result()

    def _found(self, config: TritonConfig) -> float | str:
        lowered = lowered_text(self._task, config, self._target.architecture, self._tools.preparing)
        if "text" not in lowered:
            return f"does not compile: {lowered['message']}"
        limits = limits_of(self._target)
        carried = carried_registers(lowered["text"], config.warps * limits.warp, limits)
        if carried > limits.registers + SPILL_ALLOWANCE / limits.register_bytes:
            return f"spills: its loop carries {carried:.0f} registers a thread, which has {limits.registers}"
        job = CompileJob(lowered["text"], self._target.architecture, GpuOptions(**lowered["options"]))
        (done,) = compile_cached([job], self._tools.compiling, self._tools.cache)
        if not isinstance(done.outcome, CompiledBinary):
            return f"does not compile: {done.outcome.message}"
        return self._bound(config, done.outcome, lowered)

    def _bound(self, config: TritonConfig, outcome: CompiledBinary, lowered: Mapping[str, Any]) -> float | str:
        limits = limits_of(self._target)
        try:
            reading = read_binary(outcome.binary, ArtifactCache(self._tools.cache))
            if reading.code is None:
                return f"its binary cannot be read: {reading.unread}"
            taken = taken_by(reading.resources, outcome.binary.threads)
            short = misfit(taken, limits) or spill(taken)
            if short is not None:
                return short.reason
            with self._reading:
                found = launch_loops(
                    reading.code, lowered["text"], limits, held(taken, limits).blocks, self._task.programs(config),
                    self._task.arguments, parameters=lowered["parameters"],
                )  # fmt: skip
        except Error as error:
            return str(error)
        return "its loops have no bound" if found.bound is None else found.bound.seconds


def lowered_text(task: TritonTask, config: TritonConfig, architecture: str, pool: InspectPool) -> dict[str, Any]:
    """The TTIR of a configuration with its options, or an error's `message`, from a worker process.

    Raises what is wrong with the kernel as a whole.
    """
    request = {
        "kind": "configuration", "source": vars(task.source), "types": dict(task.signature.types),
        "constants": dict(task.signature.constants), "divisible": list(task.signature.divisible),
        "architecture": architecture,
        "configuration": {
            "constants": dict(config.constants), "warps": config.warps, "stages": config.stages,
            "settings": dict(config.settings),
        },
    }  # fmt: skip
    answer = pool.submit(request).result()
    failure = failure_of(answer)
    return {"message": failure} if failure else dict(answer_of(answer, task.source.shown)["lowered"])
