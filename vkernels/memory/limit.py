"""Run a training step in less memory than it needs: on demand at first, and by a plan once calls repeat."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Generic, ParamSpec, TypeVar

from vkernels.ir.errors import ArgumentError, MemoryPlanError, OverLimitWarning, TraceError, warn_caller

from .account import MemoryAccount, Share, Tenant
from .byte_sizes import check_size, parse_share
from .following import StepTimes, simulated, simulated_times
from .links import ANY_SIZE, MemoryMachine
from .report import Report
from .schedule_check import check_possible
from .trace_file import load

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
MAX_PAUSE = 64
"""Maximum calls between two recordings of a step whose calls differ."""
GROWTH, LINK_CHANGE = 1.05, 0.25
"""A step is planned again where it may have so many times its bytes, or so much more or less of the link's time."""
TIMED = 64
"""Number of recent calls whose times are kept."""


def limit(
    step: Callable[P, R],
    bytes: int | str,
    *,
    trace: Path | str | None = None,
    strict: bool = False,
    host_bytes: int | str | None = None,
    flash_bytes: int | str | None = None,
    flash: Path | str | None = None,
    links: MemoryMachine = LINKS,
    warm_up: int = 1,
    account: MemoryAccount | None = None,
) -> Limited[P, R]:
    """Return `step` with its tensors within `bytes` of device memory: call it in place of `step`.

    `bytes`: a number, a size such as "4GiB", or with a `trace` a share of its peak such as "60%". What does not fit is
    swapped to the host, within `host_bytes` (default: unlimited), or, under a plan, to a file without a name in the
    folder `flash`, of up to `flash_bytes`. `links`: speeds to plan with. Results have the same bits.

    Calls keep the limit from the first operation on, by evicting what is needed last. After `warm_up` calls they are
    recorded until they repeat, and later ones follow a plan; one that deviates from it continues on demand. Where
    nothing has to move, later calls are not watched until one differs in its arguments, modules or optimisers. An
    operation that needs more than the limit at once runs above it, with one `OverLimitWarning`; if `strict`, it raises
    `OutOfMemoryError` before it runs, and all calls are watched. `trace`: of the step, as `vk memory record` writes
    it, to know before the first call that the limit is enough.

    `account`: of the device, where it has other tasks. The step has its part of the bytes and of the link's time, and
    is recorded and planned again when that changes, as other tasks come or go.

    Raises `ArgumentError` for invalid sizes; `FileError` for a trace that cannot be read; `MemoryPlanError` if the
    limit is too low for the trace, with the minimum. Calls raise `FileError` if flash cannot be written or the disk is
    full, before they run anything; `OutOfMemoryError` if the device or the host cannot allocate the arena;
    `SetupError` for tensors on several GPUs, or on a device that is neither a GPU nor the CPU. After an iteration in
    which flash failed, which completes without the plan, `FileError`. All tensors of the program stay intact.
    """
    if warm_up < 0:
        raise ArgumentError(f"warm_up: expected at least 0, got {warm_up}")
    recorded = None if trace is None else load(trace)
    share = parse_share(bytes) if isinstance(bytes, str) else None
    if share is not None and recorded is None:
        raise ArgumentError(f"bytes: {bytes!r} is a share of a trace's peak, and no trace is given")
    size = check_size("bytes", bytes) if share is None or recorded is None else int(share * recorded.peak)
    host, file = (None if each is None else check_size(name, each)
                  for name, each in (("host_bytes", host_bytes), ("flash_bytes", flash_bytes)))  # fmt: skip
    folder = Path(tempfile.gettempdir() if flash is None else flash)
    there = flash is not None or flash_bytes is not None
    machine = replace(
        links, device_bytes=size, host_bytes=links.host_bytes if host is None else host,
        flash_bytes=(inf if file is None else file) if there else 0,
    )  # fmt: skip
    if recorded is not None:
        check_possible(recorded, machine)
    return Limited(step, machine, folder, warm_up, strict, account)


class Limited(Generic[P, R]):
    """A step under a limit, made by `limit`. `close` frees the arenas, and gives all tensors memory of their own.

    `times`: of the last iterations that followed the current plan, each of `report.period` calls. `layout`: the
    `layout.MemoryLayout` of the last plan, None before there is one.
    """

    def __init__(
        self, step: Callable[P, R], machine: MemoryMachine, folder: Path, warm_up: int = 1, strict: bool = False,
        account: MemoryAccount | None = None,
    ):  # fmt: skip
        self._account = account
        self._tenant: Tenant | None = None
        self._version, self._planned_share = -1, Share(0.0)
        """Of the account, and what the plan counts on."""
        self._facts = asdict(Report())
        self._step, self._machine, self._folder, self._strict = step, machine, folder, strict
        self._demand: Any = None
        self._tracer: Any = None
        self._follow: Any = None
        self._search: Any = None
        self._unwatched: Any = None
        self._passages: Any = None
        """Of the calls that the tracer has recorded."""
        self._wait = warm_up
        """Calls until the step is recorded."""
        self._pause = 1
        """Calls to wait if the next recording fails, or its plan is never followed."""
        self._was_followed = False
        self._changes = 0
        self._warned = False
        self.layout: Any = None
        self.times: deque[StepTimes] = deque(maxlen=TIMED)
        self._seconds: list[float] = []
        """Of the planned calls of this iteration."""
        self._simulated = 0, 0.0
        """Planned calls when the times were last simulated, and the result."""

    @property
    def report(self) -> Report:
        """Statistics of the calls so far. After timed calls this takes milliseconds."""
        report = Report(**self._facts)
        if not self.times:
            return report
        if self._simulated[0] != report.planned:
            self._simulated = report.planned, simulated_times(self.layout, self.times)
        calls = report.period
        return replace(
            report, seconds=median(each.seconds for each in self.times) / calls,
            own_seconds=median(sum(each.own) for each in self.times) / calls,
            simulated_seconds=self._simulated[1] / calls,
        )  # fmt: skip

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run one iteration. Raises as `limit` says; exceptions of the step pass through."""
        self._share_memory()
        if self._demand is None:
            self._demand = self._begin(args, kwargs)
        if self._follow is None and self._tracer is not None and len(self._tracer.watched.iterations) > 1:
            self._plan()
        self._facts["calls"] += 1
        if self._follow is not None:
            return self._followed(*args, **kwargs)
        if self._unwatched is not None:
            return self._run_unwatched(*args, **kwargs)
        self._wait -= 1
        return self._on_demand(self._wait < 0, *args, **kwargs)

    def on_host(self, address: int) -> bool:
        """Whether an address is in a memory of the host that tensors are moved to: they are not on the device then."""
        if self._follow is not None:
            return bool(self._follow.on_host(address))
        return self._demand is not None and self._demand.heap.holds(address)

    def close(self) -> None:
        """Free the arenas, and give all tensors memory of their own. The next call records again."""
        self._leave_plan()
        if self._demand is not None:
            self._demand.close()
            self._demand = None
        if self._tenant is not None:
            self._tenant.leave()
            self._tenant = None

    def _share_memory(self) -> None:
        """Enter the account; where the step may have other parts than it was planned with, end the plan."""
        if self._account is None:
            return
        if self._tenant is None:
            name = getattr(self._step, "__name__", "step")
            self._tenant = self._account.enter(name, self._machine.device_bytes)
        tenant, version = self._tenant, self._account.version
        if self._follow is None or version == self._version:
            return
        self._version, share, planned = version, tenant.share, self._planned_share
        layout = self._follow.schedule.layout
        grows = layout.device_bytes < layout.trace.peak and min(share.bytes, tenant.free) >= GROWTH * planned.bytes
        if share.bytes < layout.device_bytes or grows or abs(share.link - planned.link) >= LINK_CHANGE:
            self._leave_plan()
            tenant.hold(0)

    def _shared_bytes(self) -> int:
        """Bytes of the device that other tasks leave."""
        if self._tenant is None:
            return int(self._machine.device_bytes)
        return int(min(self._tenant.share.bytes, self._tenant.free, self._machine.device_bytes))

    def _shared_machine(self) -> MemoryMachine:
        """The machine to plan for: the part of it that other tasks leave."""
        if self._tenant is None:
            return self._machine
        share, size = self._tenant.share, self._shared_bytes()
        self._planned_share = Share(size, share.link)
        self._tenant.hold(size)
        return replace(
            self._machine, device_bytes=size, to_host=share.link * self._machine.to_host,
            from_host=share.link * self._machine.from_host,
        )  # fmt: skip

    def _begin(self, args: Any, kwargs: Any) -> Any:
        """Find the program's tensors, and with them the device."""
        from . import schedule_executor
        from .demand_executor import DemandExecutor
        from .host_heap import HostHeap
        from .periods import PeriodSearch
        from .program_storages import program_storages

        self._search = PeriodSearch()
        storages = program_storages(self._step, args, kwargs)
        device = schedule_executor.device_of(storages)
        capacity = inf if self._machine.flash_bytes else self._machine.host_bytes
        demand = DemandExecutor(device, self._shared_bytes(), HostHeap(device, capacity), self._strict)
        demand.begin(each for each in storages if each.device.type == device.kind)
        return demand

    def _on_demand(self, record: bool, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an iteration without a plan, recorded or not."""
        from .op_tracer import OpTracer
        from .unwatched import PassageRecorder

        tracer, self._tracer = (self._tracer or OpTracer()) if record else None, None
        passages = None if tracer is None else self._passages if tracer.has_ended else PassageRecorder(self._demand)
        self._demand.limit = self._shared_bytes()
        self._demand.begin()
        try:
            with tracer or nullcontext(), self._demand, passages.recording(args, kwargs) if passages else nullcontext():
                result = self._step(*args, **kwargs)
        finally:
            self._demand.end()
            self._count_moves()
        if tracer is not None:
            tracer.end_iteration()
        self._tracer, self._passages = tracer, passages  # not if the step raises
        return result

    def _plan(self) -> None:
        """Plan from recorded calls once they repeat; if they do not, record again later."""
        from .schedule_executor import executor_for

        period = self._search.period_of(self._tracer.watched)
        if period is None or self._is_small(period):
            return
        try:
            name = getattr(self._step, "__name__", "step")
            machine = self._shared_machine()
            follow = self._follow = executor_for(self._tracer, period, name, machine, self._folder, self._demand)
        except (TraceError, MemoryPlanError) as error:
            self._facts["why"] = str(error)
            self._tracer = None
            self._put_off()
            return
        finally:
            if self._tenant is not None and self._follow is None:
                self._tenant.hold(0)
        self._tracer, self._was_followed, layout = None, False, follow.schedule.layout
        self.layout = layout
        self.times.clear()
        self._seconds.clear()
        self._demand.limit = int(machine.device_bytes)
        if self._tenant is not None and self._account is not None:
            self._tenant.hold(layout.device_bytes)
            self._tenant.want(min(self._machine.device_bytes, layout.trace.peak))
            self._version = self._account.version
        self._facts.update(
            peak=layout.trace.peak, arena=layout.device_bytes, host=layout.host_bytes,
            flash=layout.flash_bytes, modelled_seconds=simulated(layout).seconds / period, period=period,
        )  # fmt: skip

    def _is_small(self, period: int) -> bool:
        """Whether the calls repeat within the limit, with nothing to move: the next ones are not watched then."""
        from .periods import joined
        from .record import recorded_of
        from .unwatched import UnwatchedCalls

        passages = None if self._strict or self._account is not None else self._passages.repeated(period)
        if passages is None:
            return False
        try:
            peak = recorded_of(joined(self._tracer.watched, period), "step").trace_on(self._demand.device.kind).peak
        except TraceError:
            return False
        self._tracer, self._was_followed = None, False
        self._unwatched = UnwatchedCalls(self._step, passages, self._demand)
        self._facts.update(peak=peak, arena=0, host=0, flash=0, modelled_seconds=0.0, period=period)
        return True

    def _put_off(self) -> None:
        """Record later, each time twice as late: neither recording nor planning pays for calls that differ."""
        self._wait, self._pause = self._pause, min(2 * self._pause, MAX_PAUSE)

    def _run_unwatched(self, *args: P.args, **kwargs: P.kwargs) -> R:
        calls = self._unwatched
        try:
            with calls.running(args, kwargs):
                return self._step(*args, **kwargs)
        finally:
            self._count_moves()
            self._count(calls.changed)
            if calls.grows:
                self._leave_plan()

    def _followed(self, *args: P.args, **kwargs: P.kwargs) -> R:
        follow = self._follow
        moved = follow.there.counts.out_bytes, follow.there.counts.back_bytes
        begun = follow.clock()
        follow.begin()
        try:
            with follow:
                return self._step(*args, **kwargs)
        finally:
            follow.end()
            seconds = follow.clock() - begun
            self._note_link(*moved, seconds)
            self._count_followed(seconds)

    def _note_link(self, out_before: int, back_before: int, seconds: float) -> None:
        """Tell other tasks how busy the link is, by the plan's first call."""
        tenant, counts = self._tenant, self._follow.there.counts
        if tenant is None or tenant.link or seconds <= 0:
            return
        out, back = counts.out_bytes - out_before, counts.back_bytes - back_before
        tenant.use_link(max(out / self._machine.to_host, back / self._machine.from_host) / seconds)

    def _count_followed(self, seconds: float) -> None:
        follow = self._follow
        self._facts.update(escapes=follow.there.counts.escapes, strays=follow.strays)
        self._count_moves()
        if not follow.changed and follow.on.in_step:  # asynchronous operations have not ended yet
            self._time(seconds)
        self._count(follow.changed, follow.there.failed)

    def _count(self, why: str, failed: Exception | None = None) -> None:
        """Count a call that was as planned or, if there is a reason `why`, was not. Calls that differ end the plan."""
        changed = bool(why)
        self._facts["changed" if changed else "planned"] += 1
        self._facts["why"] = why or self._facts["why"]
        self._changes = self._changes + 1 if changed else 0
        if not changed:
            self._was_followed, self._pause = True, 1
        repeats = changed and self._search.deviates(self._facts["calls"])
        if failed is not None or repeats or self._changes >= CHANGES:
            was_followed = self._was_followed or repeats
            self._leave_plan()
            if not repeats:
                self._search.leave()
            if not was_followed:
                self._put_off()
        if failed is not None:
            raise failed

    def _time(self, seconds: float) -> None:
        """Note the time of a planned call; several are noted as one iteration."""
        self._seconds.append(seconds)
        if self._follow.is_whole:
            if len(self._seconds) == self._facts["period"]:
                self.times.append(StepTimes(sum(self._seconds), self._follow.own()))
            self._seconds.clear()

    def _count_moves(self) -> None:
        demand, moves = self._demand.counts, [self._demand.counts]
        if self._follow is not None:
            moves.append(self._follow.there.counts)
        self._facts.update(
            out_bytes=sum(each.out_bytes for each in moves),
            back_bytes=sum(each.back_bytes for each in moves), over=demand.over,
        )  # fmt: skip
        if demand.why and not self._warned:
            self._warned = True
            warn_caller(OverLimitWarning(f"{demand.why}: it ran above the limit"))

    def _leave_plan(self) -> None:
        """Free the plan's arenas: its tensors are on the host then. The step is recorded again."""
        self._unwatched = None
        self._tracer, self._changes, self._wait, follow, self._follow = None, 0, 0, self._follow, None
        if follow is not None:
            follow.close()
