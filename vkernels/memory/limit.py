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

from .links import ANY_SIZE, MemoryMachine

P = ParamSpec("P")
R = TypeVar("R")

LINKS = MemoryMachine(
    device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0,
    to_host=5e9, from_host=5e9, to_flash=1e9, from_flash=1e9, host_seconds=1e-5, flash_seconds=1e-4,
    operation_seconds=1e-5, made_seconds=2e-5, made_rate=1e10, absence_seconds=2e-5, hand_over_seconds=2e-5,
    at_once=1 << 19, flash_at_once=1 << 18,
)  # fmt: skip
"""What a CPU copies in memory, and a common drive writes and reads, in bytes a second, and what following costs: round
figures, not measured here. The last two are the CPU's own."""
CHANGES = 2
"""Consecutive calls that deviate from the recording, after which the step is recorded again."""


TIMED = 64
"""Number of recent calls whose times are kept."""


@dataclass(frozen=True)
class Report:
    """Statistics of the calls. Bytes, and seconds.

    `planned`: calls that ran wholly under the plan; `changed`: those that left it, `why` says the last one's reason.
    `peak`: live at once without a plan; `arena`: of the device, which is never more than the limit; `host`, `flash`: of
    these. `out_bytes`, `back_bytes`: moved, all calls together. `escapes`: tensors that the program kept for longer
    than its iteration, or than when it was recorded, and that got memory of their own. `strays`: uses of tensors that
    were not on the device.

    `modelled_seconds`: of a call, simulated before any ran, with the times of the one that was watched. Of the last
    planned calls, medians: `seconds`, measured; `own_seconds`, what operations and the program took of that;
    `simulated_seconds`, simulated with each call's own times: what moving and following cost is the simulation's. These
    three are 0 for a device that the program does not wait for.
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
    """`step` with its tensors in an arena of `bytes`: call it in place of `step`.

    What does not fit is on the host for a while, in `host_bytes` (as many as it takes, if nothing is said), or in a
    file without a name in the folder `flash`, of up to `flash_bytes`. `links`: speeds to plan with. Results are the
    same bits. The first calls run as they are: `warm_up` and two that are watched. Then calls follow the plan; one that
    does otherwise runs on without it.

    Raises `ArgumentError` for sizes that are none. Calls raise, before they run anything, `MemoryPlanError` where so
    few bytes cannot do, with the least that would, `FileError` for a flash that cannot be written or a full disk,
    `OutOfMemoryError` where the device or the host has no such arena, `SetupError` for tensors on several GPUs, or on
    what is neither a GPU nor the CPU; and `FileError` after an iteration in which flash failed, and
    which ran to its end without the plan. All tensors of the program are intact then.
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
    """A step under a limit; `limit` makes it. `close` gives all tensors memory of their own, and the arenas back."""

    def __init__(self, step: Callable[P, R], machine: MemoryMachine, folder: Path, warm_up: int):
        self._report = Report()
        self._step, self._machine, self._folder, self._warm_up = step, machine, folder, warm_up
        self._watch: Any = None
        self._follow: Any = None
        self._changes = 0
        self._layout: Any = None
        self.times: deque[Any] = deque(maxlen=TIMED)
        """`following.Times` of the last calls that followed the plan, as it is now."""
        self._judged = 0, 0.0

    @property
    def report(self) -> Report:
        """What has become of the calls until now. Looking at it takes milliseconds where calls have been timed."""
        from .following import simulated_times

        if not self.times:
            return self._report
        if self._judged[0] != self._report.planned:
            self._judged = self._report.planned, simulated_times(self._layout, self.times)
        return replace(
            self._report, seconds=median(each.seconds for each in self.times),
            own_seconds=median(sum(each.own) for each in self.times), simulated_seconds=self._judged[1],
        )  # fmt: skip

    @property
    def layout(self) -> Any:
        """`layout.Layout` of the plan that is followed, or was last; None before there is one."""
        return self._layout

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """One iteration. Raises as `limit` says; what the step raises goes through."""
        if self._follow is None and self._watch is not None and len(self._watch.watched.iterations) == 2:
            self._plan()
        self._report = replace(self._report, calls=self._report.calls + 1)
        if self._follow is not None:
            return self._followed(*args, **kwargs)
        if self._report.calls <= self._warm_up:
            return self._step(*args, **kwargs)
        return self._watched(*args, **kwargs)

    def close(self) -> None:
        """All tensors get memory of their own; a call after this begins anew, by being watched."""
        self._watch, follow, self._follow = None, self._follow, None
        if follow is not None:
            follow.there.close()

    def _watched(self, *args: P.args, **kwargs: P.kwargs) -> R:
        from .op_tracer import OpTracer

        watch, self._watch = self._watch or OpTracer(), None
        with watch:
            result = self._step(*args, **kwargs)
            watch.end_iteration()
        self._watch = watch  # not where the step raises
        return result

    def _plan(self) -> None:
        """Where two iterations were not the same, they are watched anew."""
        from .devices import device_of
        from .following import running_ahead, simulated, with_program
        from .layout import lay_out
        from .op_schedule import op_schedule_of
        from .record import recorded_of
        from .residency import Whereabouts
        from .schedule_executor import Follow
        from .tiers import storage_of

        watch = self._watch
        try:
            recorded = recorded_of(watch.watched, getattr(self._step, "__name__", "step"))
        except TraceError as error:
            self._watch = None
            self._report = replace(self._report, why=str(error))
            return
        alive = {n: storage_of(reference) for n, reference in watch.alive.items() if n in recorded.tensors}
        storages = {recorded.tensors[n]: storage for n, storage in alive.items() if storage is not None}
        device = device_of(storages.values())
        machine = self._machine if device.in_step else running_ahead(self._machine)
        if device.in_step:
            recorded = replace(recorded, trace=with_program(recorded.trace, recorded.outside))
        trace = recorded.trace_on(device.kind)
        layout = self._layout = lay_out(trace, machine, device.alignment)
        there = Whereabouts(device, layout.device_bytes, layout.host_bytes, layout.flash_bytes, self._folder)
        self._follow, self._watch = Follow(op_schedule_of(recorded, layout), there, device), None
        for tensor, storage in storages.items():
            self._follow.bind(tensor, storage)
        self.times.clear()
        self._report = replace(
            self._report, peak=trace.peak, arena=layout.device_bytes, host=layout.host_bytes,
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
        from .following import StepTimes

        follow, old = self._follow, self._report
        counts, changed = follow.there.counts, bool(follow.changed)
        self._report = replace(
            old, planned=old.planned + (not changed), changed=old.changed + changed, why=follow.changed or old.why,
            out_bytes=counts.out_bytes, back_bytes=counts.back_bytes, escapes=counts.escapes, strays=follow.strays,
        )  # fmt: skip
        if not changed and follow.on.in_step:  # else nothing has ended yet
            self.times.append(StepTimes(seconds, follow.own()))
        self._changes = self._changes + 1 if changed else 0
        failed = follow.there.failed
        if failed is not None or self._changes >= CHANGES:
            self._changes = 0
            self.close()
        if failed is not None:
            raise failed
