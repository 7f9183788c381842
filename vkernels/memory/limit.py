"""Run a training step in less memory than it needs: record two calls, plan, then follow the plan."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Generic, ParamSpec, TypeVar

from vkernels.ir.errors import ArgumentError, TraceError

from .following import StepTimes, simulated, simulated_times
from .links import ANY_SIZE, MemoryMachine

P = ParamSpec("P")
R = TypeVar("R")

LINKS = MemoryMachine(
    device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0,
    to_host=5e9, from_host=5e9, to_flash=1e9, from_flash=1e9, host_seconds=1e-5, flash_seconds=1e-4,
    operation_seconds=1e-5, made_seconds=2e-5, made_rate=1e10, absence_seconds=2e-5, hand_over_seconds=2e-5,
    at_once=1 << 19, flash_at_once=1 << 18,
)  # fmt: skip
"""Rates of a CPU's memory copies and of a common drive, and the overhead of a plan: round figures, not measured. The
last two are of `CpuDevice`."""
CHANGES = 2
"""Consecutive calls that deviate from the recording, after which the step is recorded again."""
TIMED = 64
"""Number of recent calls whose times are kept."""


@dataclass(frozen=True)
class Report:
    """Statistics of the calls. Bytes, and seconds.

    `planned`: calls that ran entirely under the plan; `changed`: those that left it, `why` the last one did. `peak`:
    live at once without a plan; `arena`: of the device, at most the limit; `host`, `flash`: arenas of these.
    `out_bytes`, `back_bytes`: moved by all calls. `escapes`: tensors that outlived their recorded lifetime and got
    memory of their own. `strays`: uses of tensors that were not on the device.

    `modelled_seconds`: of a call, simulated before any ran, with the recorded times. Medians of the last planned calls:
    `seconds`, measured; `own_seconds` of the operations and the program in them; `simulated_seconds`, simulated with
    each call's own times, so that transfers and overhead are modelled. These three are 0 for asynchronous devices.
    """

    calls: int = 0
    planned: int = 0
    changed: int = 0
    why: str = ""
    peak: int = 0
    arena: int = 0
    host: int = 0
    flash: int = 0
    modelled_seconds: float = 0.0
    out_bytes: int = 0
    back_bytes: int = 0
    escapes: int = 0
    strays: int = 0
    seconds: float = 0.0
    own_seconds: float = 0.0
    simulated_seconds: float = 0.0


def limit(
    step: Callable[P, R],
    bytes: int,
    *,
    host_bytes: int | None = None,
    flash_bytes: int | None = None,
    flash: Path | str | None = None,
    links: MemoryMachine = LINKS,
    warm_up: int = 1,
) -> Limited[P, R]:
    """Return `step` with its tensors in an arena of `bytes`: call it in place of `step`.

    What does not fit is swapped to the host, within `host_bytes` (default: unlimited), or to a file without a name in
    the folder `flash`, of up to `flash_bytes`. `links`: speeds to plan with. Results have the same bits. The first
    calls run unlimited: `warm_up`, and two that are recorded. Later calls follow the plan; one that deviates continues
    without it.

    Raises `ArgumentError` for invalid sizes. Calls raise, before they run anything: `MemoryPlanError` if the limit is
    too low, with the minimum; `FileError` if flash cannot be written or the disk is full; `OutOfMemoryError` if the
    device or the host cannot allocate the arena; `SetupError` for tensors on several GPUs, or on a device that is
    neither a GPU nor the CPU. After an iteration in which flash failed, which completes without the plan, `FileError`.
    All tensors of the program stay intact.
    """
    for name, size in (("bytes", bytes), ("host_bytes", host_bytes), ("flash_bytes", flash_bytes)):
        if size is not None and (type(size) is not int or size < 0):
            raise ArgumentError(f"{name}: expected a number of bytes, got {size!r}")
    if warm_up < 0:
        raise ArgumentError(f"warm_up: expected at least 0, got {warm_up}")
    folder = Path(tempfile.gettempdir() if flash is None else flash)
    there = flash is not None or flash_bytes is not None
    machine = replace(
        links, device_bytes=bytes, host_bytes=links.host_bytes if host_bytes is None else host_bytes,
        flash_bytes=(inf if flash_bytes is None else flash_bytes) if there else 0,
    )  # fmt: skip
    return Limited(step, machine, folder, warm_up)


class Limited(Generic[P, R]):
    """A step under a limit, made by `limit`. `close` frees the arenas, and gives all tensors memory of their own.

    `times`: of the last calls that followed the current plan. `layout`: the `layout.MemoryLayout` of the last plan,
    None before there is one.
    """

    def __init__(self, step: Callable[P, R], machine: MemoryMachine, folder: Path, warm_up: int):
        self._report = Report()
        self._step, self._machine, self._folder, self._warm_up = step, machine, folder, warm_up
        self._tracer: Any = None
        self._follow: Any = None
        self._changes = 0
        self.layout: Any = None
        self.times: deque[StepTimes] = deque(maxlen=TIMED)
        self._simulated = 0, 0.0
        """Planned calls when the times were last simulated, and the result."""

    @property
    def report(self) -> Report:
        """Statistics of the calls so far. After timed calls this takes milliseconds."""
        if not self.times:
            return self._report
        if self._simulated[0] != self._report.planned:
            self._simulated = self._report.planned, simulated_times(self.layout, self.times)
        return replace(
            self._report, seconds=median(each.seconds for each in self.times),
            own_seconds=median(sum(each.own) for each in self.times), simulated_seconds=self._simulated[1],
        )  # fmt: skip

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run one iteration. Raises as `limit` says; exceptions of the step pass through."""
        if self._follow is None and self._tracer is not None and len(self._tracer.watched.iterations) == 2:
            self._plan()
        self._report = replace(self._report, calls=self._report.calls + 1)
        if self._follow is not None:
            return self._followed(*args, **kwargs)
        if self._report.calls <= self._warm_up:
            return self._step(*args, **kwargs)
        return self._recorded(*args, **kwargs)

    def close(self) -> None:
        """Free the arenas, and give all tensors memory of their own. The next call records again."""
        self._tracer, follow, self._follow = None, self._follow, None
        if follow is not None:
            follow.there.close()

    def _recorded(self, *args: P.args, **kwargs: P.kwargs) -> R:
        from .op_tracer import OpTracer

        tracer, self._tracer = self._tracer or OpTracer(), None
        with tracer:
            result = self._step(*args, **kwargs)
            tracer.end_iteration()
        self._tracer = tracer  # not if the step raises
        return result

    def _plan(self) -> None:
        """Plan from two recorded iterations; if they differ, record again."""
        from .schedule_executor import executor_for

        try:
            name = getattr(self._step, "__name__", "step")
            self._follow = executor_for(self._tracer, name, self._machine, self._folder)
        except TraceError as error:
            self._report = replace(self._report, why=str(error))
            self._tracer = None
            return
        self._tracer, layout = None, self._follow.schedule.layout
        self.layout = layout
        self.times.clear()
        self._report = replace(
            self._report, peak=layout.trace.peak, arena=layout.device_bytes, host=layout.host_bytes,
            flash=layout.flash_bytes, modelled_seconds=simulated(layout).seconds,
        )  # fmt: skip

    def _followed(self, *args: P.args, **kwargs: P.kwargs) -> R:
        follow = self._follow
        begun = follow.clock()
        follow.begin()
        try:
            with follow:
                return self._step(*args, **kwargs)
        finally:
            follow.end()
            self._count(follow.clock() - begun)

    def _count(self, seconds: float) -> None:
        follow, old = self._follow, self._report
        counts, changed = follow.there.counts, bool(follow.changed)
        self._report = replace(
            old, planned=old.planned + (not changed), changed=old.changed + changed, why=follow.changed or old.why,
            out_bytes=counts.out_bytes, back_bytes=counts.back_bytes, escapes=counts.escapes, strays=follow.strays,
        )  # fmt: skip
        if not changed and follow.on.in_step:  # asynchronous operations have not ended yet
            self.times.append(StepTimes(seconds, follow.own()))
        self._changes = self._changes + 1 if changed else 0
        failed = follow.there.failed
        if failed is not None or self._changes >= CHANGES:
            self._changes = 0
            self.close()
        if failed is not None:
            raise failed
