"""Predict how long calls on the CPU take beside other work: from profiles where there are some, else as modelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vkernels.compiler.call_profiles import CallKey, CallProfile, call_key
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.default_session import default_session
from vkernels.ir.errors import Error
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.beside import CallDemand, demand_of, refetch_seconds, slowdown
from vkernels.runtime.pool_priority_ir import HAND_OVER_SECONDS
from vkernels.targets.host_cpu import WAKE_SECONDS

TURN = 5e-5
"""Seconds after which work of lower priority looks whether it has to give way; one program at least."""
TIME_SLICE = 3e-3
"""Seconds that Linux lets a thread run before another one that wants the same core."""
PAUSE = 0.1
"""Seconds after which work that gives way takes a turn, whatever others do."""
UNMEASURED = 2.0
"""p99 over the modelled time, where no call was measured."""


@dataclass(frozen=True)
class Call:
    """Calls with one key under one plan. `demand`: as modelled; None where their needs cannot be read."""

    key: CallKey
    plan: Plan
    compilation: Compilation = field(repr=False)
    demand: CallDemand | None = None

    @staticmethod
    def of(compilation: Compilation) -> Call:
        """The calls of a compilation, whose code is compiled, or found compiled."""
        plan = compilation.executable().plan
        key = call_key(compilation, compilation.request.arguments)
        try:
            demand = demand_of(compilation.plans.space, plan)
        except Error:
            demand = None
        return Call(key, plan, compilation, demand)

    @property
    def limits(self) -> Limits:
        """Those of the cores that a call may use."""
        return self.compilation.request.target.limits

    @property
    def alone(self) -> CallProfile | None:
        """How long it was measured to take while no other call ran."""
        return default_session().call_profiles.find(self.key, self.plan)

    @property
    def seconds(self) -> float | None:
        """How long it takes alone: measured, else modelled; None where neither is known."""
        if self.alone is not None:
            return self.alone.p50
        return None if self.demand is None else self.demand.seconds

    @property
    def threads(self) -> int:
        """Threads that work on a call. One that is shorter than waking a second thread stays on one."""
        cores = self.limits.multiprocessors
        if self.demand is None or self.seconds is None:
            return cores
        wanted = min(cores, self.demand.programs)
        return 1 if self.seconds * wanted < WAKE_SECONDS else wanted

    @property
    def program_seconds(self) -> float:
        """How long one of its programs takes; the whole call where that is not known."""
        programs = 1 if self.demand is None else max(1, self.demand.programs)
        return (self.seconds or 0.0) * self.threads / programs


@dataclass(frozen=True)
class Beside:
    """Calls that run all the time beside others. `yields`: whether they give way to those others; `goes_first`: whether
    the others give way to them."""

    call: Call
    priority: str
    yields: bool
    goes_first: bool = False

    @property
    def turn(self) -> float:
        """The longest that they keep a core which calls of higher priority want: one program at least. The system takes
        it at once from long calls, which run in its idle class."""
        is_long = (self.call.seconds or 0.0) >= HAND_OVER_SECONDS
        return 0.0 if is_long else max(TURN, self.call.program_seconds)

    @property
    def name(self) -> str:
        """As profiles beside them have it."""
        return f"{self.priority} {self.call.key} {self.call.key.dtypes}"


@dataclass(frozen=True)
class Prediction:
    """Seconds of calls beside others. `how`: how they were found, as a part of a sentence. `is_measured`: whether calls
    beside these very others were measured."""

    p50: float
    p99: float
    how: str
    is_measured: bool = False


def predict(call: Call, others: Sequence[Beside], cores: int) -> Prediction | None:
    """How long calls take on so many cores beside others that run all the time; None where too little is known."""
    names = tuple(sorted(other.name for other in others))
    measured = default_session().call_profiles.find(call.key, call.plan, names)
    if measured is not None:
        how = f"measured over {measured.calls} calls" + (" beside these" if others else "")
        return Prediction(measured.p50, measured.p99, how, is_measured=True)
    if call.seconds is None or any(other.call.demand is None for other in others):
        return None
    p50, p99, how = _alone(call)
    if not others:
        return Prediction(p50, p99, how)
    if call.demand is None:
        return None
    shared = _shared(call, call.demand, others, cores)
    stretch = shared.slower * shared.in_turn
    return Prediction(
        p50 * stretch + shared.refetched + shared.wait / 2,
        p99 * stretch + shared.refetched + shared.wait + shared.slice,
        "; ".join([how, *shared.said]),
    )


def _alone(call: Call) -> tuple[float, float, str]:
    """p50 and p99 alone, and how they are known."""
    profile = call.alone
    if profile is not None:
        how = f"alone {in_microseconds(profile.p99)}, measured over {profile.calls} calls"
        return profile.p50, profile.p99, how
    seconds = call.seconds or 0.0
    how = f"alone {in_microseconds(seconds)} as modelled, {UNMEASURED:g} times that at p99 as nothing was measured"
    return seconds, UNMEASURED * seconds, how


@dataclass(frozen=True)
class _Shared:
    """What others cost a call. `slower`: factor of bandwidth and caches; `in_turn`: of cores that are taken in turns;
    seconds of memory fetched again, of a turn of theirs, and of a time slice of theirs; `said`: all that in words."""

    slower: float
    in_turn: float
    refetched: float
    wait: float
    slice: float

    @property
    def said(self) -> list[str]:
        found = []
        if self.in_turn > 1:
            found.append(f"{self.in_turn:.2g} times as long on cores that others use in turns with it")
        if self.slower > 1.005:
            found.append(f"{self.slower:.2f} times as long for bandwidth and caches that others use meanwhile")
        if self.refetched > 0:
            found.append(f"{in_microseconds(self.refetched)} to fetch again what others push out of the caches")
        if self.wait > 0:
            found.append(f"up to {in_microseconds(self.wait)} until a turn of theirs ends")
        if self.slice > 0:
            found.append(f"up to {in_microseconds(self.slice)} until the system ends a time slice of theirs")
        return found


def _shared(call: Call, own: CallDemand, others: Sequence[Beside], cores: int) -> _Shared:
    """Calls that yield leave their cores to this one after a turn, others share them, and to some it gives way."""
    yielding = [other.call for other in others if other.yields]
    turn = max((other.turn for other in others if other.yields), default=0.0)
    equal = [other.call for other in others if not other.yields]
    taken = call.threads + sum(each.threads for each in equal)
    meanwhile = [*equal, *(yielding if taken < cores else [])]
    space, everybody = call.compilation.plans.space, taken + sum(each.threads for each in yielding)
    in_turn = max(1.0, taken / cores)
    if in_turn > 1 and any(other.goes_first for other in others):
        in_turn = PAUSE / TURN
    return _Shared(
        slower=slowdown(space, call.plan, [each.demand for each in meanwhile if each.demand is not None]),
        in_turn=in_turn,
        refetched=refetch_seconds(
            own,
            [o.call.demand for o in others if o.call.demand is not None],
            call.limits,
            None if call.alone is None else call.alone.gap,
        ),
        wait=waited(call.seconds or 0.0, call.threads, turn, min(call.threads - 1, everybody - cores)),
        slice=TIME_SLICE if taken > cores else 0.0,
    )


def waited(seconds: float, threads: int, turn: float, helpers: int) -> float:
    """How much longer a call of so many seconds and threads takes while some of its helper threads wait for a turn.

    Its own thread has a core when it begins, and all threads that have one do the work of those that wait.
    """
    return max(0, helpers) * min(seconds / (threads - helpers), turn / threads)


def in_microseconds(seconds: float) -> str:
    """Seconds for people: `240 µs`, `12.3 ms`."""
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-2 else f"{1e6 * seconds:.0f} µs"
