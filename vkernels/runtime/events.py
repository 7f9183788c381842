"""Launch events and counters: a hook for every launch, and how many there were; docs/events.md.

No overhead without listeners: a call looks whether `LISTENERS` is empty, and adds one to its kernel's counter.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vkernels.compiler.counters import KernelCompiles
from vkernels.compiler.default_session import default_session
from vkernels.ir.fork_safe import fork_safe_lock

from .coordinator import (
    CompanyStats,
    ContractStats,
    FillingStats,
    PriorityStats,
    cohost_stats,
    contract_stats,
    filling_stats,
    gpu_company_stats,
    priority_stats,
)

if TYPE_CHECKING:
    from vkernels.compiler.protocols import Constant
    from vkernels.ir.plan import Plan

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaunchRecord:
    """How a call is run, as bound code knows it. `slice`: `cpu:cores=2`, a GPU's key or slice; `stream`: a GPU's
    handle of it, 0 on a CPU; `launches`: how many it starts; `swap_bytes`: memory of its own, beside its tensors;
    `rung`: the plan's."""

    plan: Plan | None
    device: str
    slice: str
    stream: int
    launches: int
    swap_bytes: int
    rung: str = ""


@dataclass(frozen=True)
class CallRecord:
    """The part of a call that plans depend on. `file`, `line`: of the kernel's function; `sizes`, `dtypes` (of tensors)
    and `constants` by name. `left_open`: names of the tunable constants that the call did not give; `tuned`: whether
    these have tuned values."""

    file: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    left_open: tuple[str, ...] = ()
    tuned: bool = False
    line: int = 0


@dataclass(frozen=True)
class LaunchEvent:
    """One call of a kernel. `start`, `end`: `time.perf_counter()` before and after it; a GPU may still be at work then.

    `rung`: the last of the ladder that the plan stands on: registers, shared, recompute, memory, launches or bottom;
    of an author's plan, as far as the plan says. `cache_hit`: a call like it was cached, so nothing was planned,
    compiled or loaded. `called`: with which sizes and dtypes. `ran`: `time.perf_counter()` when the code began to run,
    after arguments were looked up, and what was not cached compiled. The other fields are those of `LaunchRecord`.
    """

    kernel: str
    plan: Plan | None
    device: str
    slice: str
    stream: int
    start: float
    end: float
    rung: str
    launches: int
    swap_bytes: int
    cache_hit: bool
    called: CallRecord = CallRecord()
    ran: float = 0.0

    @property
    def seconds(self) -> float:
        """How long the call took on the host."""
        return self.end - self.start


Callback = Callable[[LaunchEvent], object]

LISTENERS: tuple[Listener, ...] = ()
"""The listeners of this process; replaced, never changed, so that calls may read it at any time."""

_lock = fork_safe_lock()
_notifying = threading.local()


class Listener:
    """A registered callback. Calling it, or the end of its `with` block, removes the callback."""

    def __init__(self, callback: Callback):
        self.callback = callback
        self._has_failed = False

    def __call__(self) -> None:
        """Remove the callback. Calling again does nothing."""
        global LISTENERS
        with _lock:
            LISTENERS = tuple(listener for listener in LISTENERS if listener is not self)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self()

    def notify(self, event: LaunchEvent) -> None:
        """Call the callback. Its first failure is logged, and none is raised: the kernel did run."""
        try:
            self.callback(event)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                _log.exception("a callback of vk.on_launch failed; it will be called again, but this is said once")


def on_launch(callback: Callback) -> Listener:
    """Call `callback` with a `LaunchEvent` after every call of a kernel, from whatever thread made it.

    Returns a listener: call it to remove the callback (`remove = vk.on_launch(…); remove()`), or use it in a `with`
    statement. The callback is not called for kernels that it calls itself. Raises `TypeError` where `callback` cannot
    be called.
    """
    global LISTENERS
    if not callable(callback):
        raise TypeError(f"vk.on_launch expects a function, got {callback!r}")
    listener = Listener(callback)
    with _lock:
        LISTENERS = (*LISTENERS, listener)
    return listener


def notify(
    kernel: str, record: LaunchRecord, times: tuple[float, float, float], cache_hit: bool, called: CallRecord
) -> None:
    """Give all listeners the event of a call. `times`: when it began, when its code began to run, and its end."""
    if getattr(_notifying, "busy", False):
        return
    start, ran, end = times
    event = LaunchEvent(
        kernel, record.plan, record.device, record.slice, record.stream, start, end, record.rung, record.launches,
        record.swap_bytes, cache_hit, called, ran,
    )  # fmt: skip
    _notifying.busy = True
    try:
        for listener in LISTENERS:
            listener.notify(event)
    finally:
        _notifying.busy = False


@dataclass
class Counters:
    """Calls of the kernels of one name. A call adds one to `calls` without a lock: with Python's own lock that is
    exact, a build without it may miss some. `misses` changes under a lock."""

    calls: int = 0
    misses: int = 0


@dataclass(frozen=True)
class KernelStats:
    """Counters of the kernels of one name. `calls`: that ran; `misses`: those that were not cached; `compiles` and
    `compile_seconds`: how often and how long code was made, or loaded from disk."""

    calls: int
    misses: int
    compiles: int
    compile_seconds: float

    @property
    def hits(self) -> int:
        """Calls that were cached."""
        return max(0, self.calls - self.misses)


@dataclass(frozen=True)
class Stats:
    """Counters since the process began. `kernels`: by name; `binaries`: GPU binaries that were needed;
    `binaries_from_disk`: those of them that the cache on disk had. `priorities`: by level of `vk.priority`, the highest
    first; empty unless it was used. `contracts`: those of `vk.admit` that are watched, the oldest first. `companies`:
    calls that met within `vk.cohost`. `fillings`: by GPU, what calls of low priority did in the gaps of others."""

    kernels: Mapping[str, KernelStats] = field(default_factory=dict)
    binaries: int = 0
    binaries_from_disk: int = 0
    priorities: Mapping[str, PriorityStats] = field(default_factory=dict)
    contracts: tuple[ContractStats, ...] = ()
    companies: tuple[CompanyStats, ...] = ()
    fillings: Mapping[str, FillingStats] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        return sum(kernel.calls for kernel in self.kernels.values())

    @property
    def hits(self) -> int:
        return sum(kernel.hits for kernel in self.kernels.values())

    @property
    def misses(self) -> int:
        return sum(kernel.misses for kernel in self.kernels.values())

    @property
    def compiles(self) -> int:
        return sum(kernel.compiles for kernel in self.kernels.values())

    @property
    def compile_seconds(self) -> float:
        return sum(kernel.compile_seconds for kernel in self.kernels.values())


_counters: dict[str, Counters] = {}


def counters_for(kernel: str) -> Counters:
    """The counters of all kernels of a name."""
    with _lock:
        return _counters.setdefault(kernel, Counters())


def count_miss(counters: Counters) -> None:
    """A call that was not cached."""
    with _lock:
        counters.misses += 1


def stats() -> Stats:
    """Counters since the process began: calls, cache hits, compiles and their seconds, by kernel and in all."""
    compiled = default_session().counters
    compiles = dict(compiled.kernels)
    with _lock:
        called = {name: (counters.calls, counters.misses) for name, counters in _counters.items()}
    kernels: dict[str, KernelStats] = {}
    for name in sorted({*called, *compiles}):
        calls, misses = called.get(name, (0, 0))
        of_name = compiles.get(name, KernelCompiles())
        if calls or misses or of_name.compiles:
            kernels[name] = KernelStats(calls, misses, of_name.compiles, of_name.seconds)
    return Stats(
        kernels, compiled.binaries, compiled.binaries_from_disk, priority_stats(), contract_stats(),
        cohost_stats() + gpu_company_stats(),
        filling_stats(),
    )  # fmt: skip
