"""What the runtime did: a hook for every launch, and counters since the process began; docs/events.md.

Nobody who does not listen pays: a call looks whether `LISTENERS` is empty, and adds one to its kernel's counter.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkernels.ir.plan import Plan

    from .protocols import Constant

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ran:
    """How a call is run, as prepared code knows it. `slice`: `cpu:cores=2`, a GPU's key or slice; `stream`: a GPU's
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
class Called:
    """What a kernel was called with, as far as plans depend on it. `file`: where its author wrote it; `sizes`, `dtypes`
    (of tensors) and `constants` by name. `left_open`: names of the tunable constants that the
    call did not give; `tuned`: whether these are as they were tuned."""

    file: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    left_open: tuple[str, ...] = ()
    tuned: bool = False


@dataclass(frozen=True)
class LaunchEvent:
    """One call of a kernel. `start`, `end`: `time.perf_counter()` before and after it; a GPU may still be at work then.

    `rung`: the last of the ladder that the plan stands on: registers, shared, recompute, memory, launches or bottom;
    of a plan that nobody chose, as far as the plan says. `cache_hit`: a
    call like it was remembered, so nothing was planned, compiled or loaded. `called`: with which sizes and dtypes. The
    rest is as `Ran` says.
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
    called: Called = Called()

    @property
    def seconds(self) -> float:
        """How long the call took on the host."""
        return self.end - self.start


Callback = Callable[[LaunchEvent], object]

LISTENERS: tuple[Listener, ...] = ()
"""Whom launches are told; replaced, never changed, so that calls may read it at any time."""

_lock = threading.Lock()
_telling = threading.local()


class Listener:
    """A callback that is told of launches, until it is called or its `with` block ends."""

    def __init__(self, callback: Callback):
        self.callback = callback
        self._said = False

    def __call__(self) -> None:
        """Tell it no more. Calling again does nothing."""
        global LISTENERS
        with _lock:
            LISTENERS = tuple(listener for listener in LISTENERS if listener is not self)

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self()

    def tell(self, event: LaunchEvent) -> None:
        """Call the callback; its first failure is logged, since the kernel that ran is not at fault."""
        try:
            self.callback(event)
        except Exception:
            if not self._said:
                self._said = True
                _log.exception("a callback of vk.on_launch failed; it will be called again, but this is said once")


def on_launch(callback: Callback) -> Listener:
    """Call `callback` with a `LaunchEvent` after every call of a kernel, from whatever thread made it.

    Returns what ends that: call it (`remove = vk.on_launch(…); remove()`), or use it in a `with` statement. Kernels
    that the callback itself calls are not told. Raises `TypeError` for what cannot be called.
    """
    global LISTENERS
    if not callable(callback):
        raise TypeError(f"vk.on_launch expects a function, got {callback!r}")
    listener = Listener(callback)
    with _lock:
        LISTENERS = (*LISTENERS, listener)
    return listener


def tell(kernel: str, ran: Ran, start: float, end: float, cache_hit: bool, called: Called) -> None:
    """Tell all listeners of a call."""
    if getattr(_telling, "busy", False):
        return
    event = LaunchEvent(
        kernel, ran.plan, ran.device, ran.slice, ran.stream, start, end, ran.rung, ran.launches, ran.swap_bytes,
        cache_hit, called,
    )  # fmt: skip
    _telling.busy = True
    try:
        for listener in LISTENERS:
            listener.tell(event)
    finally:
        _telling.busy = False


def stated_rung(plan: Plan) -> str:
    """The last rung of the ladder that a plan names; what it leaves to `apply_plan` is not counted."""
    homes = {str(home) for home in plan.homes.values()}
    if plan.launches or plan.split is not None:
        return "launches"
    return next((rung for rung in ("memory", "recompute", "shared") if rung in homes), "registers")


@dataclass
class Counters:
    """Of the kernels of one name. A call adds one to `calls` without a lock, which Python's own makes exact (a build
    without that lock may miss some); all else changes under one."""

    calls: int = 0
    misses: int = 0
    compiles: int = 0
    compile_seconds: float = 0.0


@dataclass(frozen=True)
class KernelStats:
    """Counters of the kernels of one name. `calls`: that ran; `misses`: those that had to be prepared, as no call like
    them was remembered; `compiles` and `compile_seconds`: how often and how long code was made for it, loading it
    from disk included."""

    calls: int
    misses: int
    compiles: int
    compile_seconds: float

    @property
    def hits(self) -> int:
        """Calls that found everything prepared."""
        return max(0, self.calls - self.misses)


@dataclass(frozen=True)
class Stats:
    """Counters since the process began. `kernels`: by name; `binaries`: of GPU kernels, that were needed, and
    `binaries_from_disk`: those of them that the cache on disk had."""

    kernels: Mapping[str, KernelStats] = field(default_factory=dict)
    binaries: int = 0
    binaries_from_disk: int = 0

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
_binaries = [0, 0]


def counters_for(kernel: str) -> Counters:
    """The counters of all kernels of a name."""
    with _lock:
        return _counters.setdefault(kernel, Counters())


def count_miss(counters: Counters) -> None:
    """A call that had to be prepared."""
    with _lock:
        counters.misses += 1


def count_compile(counters: Counters, seconds: float) -> None:
    """Code that was made."""
    with _lock:
        counters.compiles += 1
        counters.compile_seconds += seconds


def count_binary(from_disk: bool) -> None:
    """A GPU's binary that was needed."""
    with _lock:
        _binaries[0] += 1
        _binaries[1] += from_disk


def stats() -> Stats:
    """Counters since the process began: calls, cache hits, compiles and their seconds, by kernel and in all."""
    with _lock:
        found = {name: KernelStats(**vars(counters)) for name, counters in sorted(_counters.items())}
        binaries, from_disk = _binaries
    used = {name: kernel for name, kernel in found.items() if kernel.calls or kernel.misses or kernel.compiles}
    return Stats(used, binaries, from_disk)


def _after_fork_in_child() -> None:
    """Who held the lock may not exist any more."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
