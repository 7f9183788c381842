"""A step under a limit: watched at first, and then followed by a plan or not watched, as its calls need."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Generic, ParamSpec, TypeVar

from vkernels.ir.errors import KernelWarning, MemoryPlanError, OverLimitWarning, TraceError, warn_caller

from .account import MemoryAccount, Share, Tenant
from .following import StepTimes, simulated, simulated_times
from .links import MemoryMachine
from .report import Report

P = ParamSpec("P")
R = TypeVar("R")

CHANGES = 2
"""Consecutive calls that deviate from the recording, after which the step is recorded again."""
MAX_PAUSE = 64
"""Maximum calls between two recordings of a step whose calls differ."""
GROWTH, LINK_CHANGE = 1.05, 0.25
"""A step is planned again where it may have so many times its bytes, or so much more or less of the link's time."""
COMPILED = "the step calls what torch.compile has made: under a limit of memory it runs without being compiled"
TIMED = 64
"""Number of recent calls whose times are kept."""


class Limited(Generic[P, R]):
    """A step under a limit, made by `limit`. `close` frees the arenas, and gives all tensors memory of their own.

    `times`: of the last iterations that followed the current plan, each of `report.period` calls. `layout`: the
    `layout.MemoryLayout` of the last plan, None before there is one.
    """

    def __init__(
        self, step: Callable[P, R], machine: MemoryMachine, folder: Path, warm_up: int = 1, strict: bool = False,
        account: MemoryAccount | None = None, watch: bool = False,
    ):  # fmt: skip
        self._account, self._watch = account, watch or account is not None
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
        self._ways: Any = None
        """The search for unwatched calls; None before calls are recorded."""
        self._results: Any = None
        self._has_unmet = False
        """Whether calls that were not watched may have made tensors that outlive them."""
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
        from .compiled_code import as_written, noticing

        is_first = not self._facts["calls"]
        with as_written(), noticing(lambda: warn_caller(KernelWarning(COMPILED))) if is_first else nullcontext():
            return self._call(*args, **kwargs)

    def _call(self, *args: P.args, **kwargs: P.kwargs) -> R:
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

    def _on_device(self, storages: Iterable[Any]) -> list[Any]:
        return [each for each in storages if each.device.type == self._results.kind]

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
        from .held_results import HeldResults
        from .host_heap import HostHeap
        from .periods import PeriodSearch
        from .program_storages import program_storages

        self._search = PeriodSearch()
        storages = program_storages(self._step, args, kwargs)
        device = schedule_executor.device_of(storages)
        capacity = inf if self._machine.flash_bytes else self._machine.host_bytes
        self._results = HeldResults(device.kind)
        demand = DemandExecutor(device, self._shared_bytes(), HostHeap(device, capacity), self._strict)
        demand.begin(self._on_device(storages))
        return demand

    def _on_demand(self, record: bool, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an iteration without a plan, recorded or not."""
        from .op_tracer import OpTracer
        from .periods import MAX_PERIOD
        from .unwatched_search import UnwatchedSearch

        tracer, self._tracer, recording = (self._tracer or OpTracer()) if record else None, None, nullcontext()
        if tracer is not None and not self._watch:
            least = 2 * MAX_PERIOD if self._search.is_doubtful else 0
            self._ways = self._ways or UnwatchedSearch(self._step, self._demand, self._results, least)
            recording = self._ways.recording(tracer, args, kwargs)
        self._demand.limit = self._shared_bytes()
        try:
            with tracer or nullcontext(), recording:
                self._demand.begin(self._unmet(args, kwargs))
                with self._demand:
                    result = self._step(*args, **kwargs)
        finally:
            self._demand.end()
            self._count_moves()
        if tracer is not None:
            tracer.end_iteration()
            self._results.note(result)
        self._tracer = tracer  # not if the step raises
        return result

    def _unmet(self, args: Any, kwargs: Any) -> list[Any]:
        """The program's tensors, if calls that were not watched may have made some."""
        from .program_storages import program_storages

        if not self._has_unmet:
            return []
        self._has_unmet = False
        return self._on_device([*program_storages(self._step, args, kwargs), *self._results.storages()])

    def _plan(self) -> None:
        """Plan from recorded calls once they repeat; if they do not, record again later."""
        from .schedule_executor import executor_for

        least = 0 if self._ways is None else self._ways.least
        period = self._search.period_of(self._tracer.watched, least)
        if period is None or (not self._watch and self._goes_unwatched(period)):
            return
        try:
            if not period:
                raise TraceError("calls differ, and do not repeat in order")
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

    def _goes_unwatched(self, period: int) -> bool:
        """Whether the next calls are not watched, or are recorded in another way to find out."""
        from .unwatched_search import Way

        ways = self._ways
        if ways.way is Way.WATCHED:
            return False
        has_hooks = ways.way is not Way.AS_THEY_ARE
        self._unwatched = ways.decide(self._tracer, period)
        if self._unwatched is not None:
            self._unwatched.begin()
            self._was_followed = False
            self._facts.update(peak=ways.peak, arena=0, host=0, flash=0, modelled_seconds=0.0, period=period)
        elif ways.way is Way.WATCHED and not has_hooks:
            return False
        self._tracer = None
        return True

    def _put_off(self) -> None:
        """Record later, each time twice as late: neither recording nor planning pays for calls that differ."""
        self._wait, self._pause, self._ways = self._pause, min(2 * self._pause, MAX_PAUSE), None

    def _run_unwatched(self, *args: P.args, **kwargs: P.kwargs) -> R:
        calls = self._unwatched
        try:
            with calls.running(args, kwargs):
                result = self._step(*args, **kwargs)
            self._results.note(result)
            return result
        finally:
            self._count_moves()
            self._count(calls.changed)
            if calls.over:
                self._watch, self._facts["why"] = True, calls.over
                self._warn(f"{calls.over}: they may have run above the limit, and all are watched from now on")
            if calls.over or calls.grows:
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
        if changed and failed is None and self._unwatched is not None and self._unwatched.is_patient:
            return
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
        if self._unwatched is not None and self._unwatched.saved is not None:
            moves.append(self._unwatched.saved)
        self._facts.update(
            out_bytes=sum(each.out_bytes for each in moves),
            back_bytes=sum(each.back_bytes for each in moves), over=demand.over,
        )  # fmt: skip
        if demand.why:
            self._warn(f"{demand.why}: it ran above the limit")

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warn_caller(OverLimitWarning(message))

    def _leave_plan(self) -> None:
        """Free the plan's arenas: its tensors are on the host then. The step is recorded again."""
        if self._unwatched is not None and self._unwatched.saved is not None:
            counts, saved = self._demand.counts, self._unwatched.saved
            counts.out_bytes, counts.back_bytes = (
                counts.out_bytes + saved.out_bytes,
                counts.back_bytes + saved.back_bytes,
            )
        self._has_unmet = self._has_unmet or self._unwatched is not None
        self._unwatched = self._ways = None
        self._tracer, self._changes, self._wait, follow, self._follow = None, 0, 0, self._follow, None
        if follow is not None:
            follow.close()
