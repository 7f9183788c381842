"""Watch contracts of latency: count calls of a kernel that take longer than was agreed.

Nothing is observed while there is no contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vkernels.compiler.default_session import default_session
from vkernels.ir.fork_safe import fork_safe_lock

from .coordinator import get_priority
from .coordinator.contract_stats import PART, ContractStats, begin_watching, end_watching
from .coordinator.shown_contract import ShownContract
from .observed_calls import See, observe, stop_observing

if TYPE_CHECKING:
    from vkernels.compiler.call_profiles import CallKey
    from vkernels.compiler.compilation import Compilation
    from vkernels.ir.plan import Plan

    from .events import LaunchRecord

LEAST_KEPT, MOST_KEPT = PART, 1000
"""Calls beside others whose durations are kept for a profile."""


class Contract:
    """Watches the calls with one key, of threads with one priority, from `begin` to `end`.

    `beside`: other calls, by their keys, and what profiles beside them call them. `p99`: seconds.
    """

    def __init__(self, key: CallKey, p99: float, priority: str, beside: Sequence[tuple[CallKey, str]] = ()) -> None:
        self.key, self.p99, self.priority = key, p99, priority
        self.beside = tuple(sorted(name for _, name in beside))
        self._others = {other.digest for other, _ in beside}
        self._lock = fork_safe_lock()
        self._shown = ShownContract(str(key), p99, priority, self.beside)
        self._kept: dict[bytes, tuple[Plan, list[float]]] = {}
        self.begin_anew()

    def begin(self) -> None:
        """Watch calls from now on."""
        begin_watching(self)
        observe(self)

    def begin_anew(self) -> None:
        """Forget all calls."""
        self._calls = self._late = self._broken = self._late_of_hundred = 0
        self._longest = 0.0
        for _, seconds in self._kept.values():
            seconds.clear()

    def end(self) -> None:
        """Watch no more calls. What calls took beside the others becomes a profile. Again, this does nothing."""
        if not end_watching(self):
            return
        stop_observing(self)
        from .profiling import profile_of

        with self._lock:
            self._shown.end()
            kept = [(plan, seconds) for plan, seconds in self._kept.values() if len(seconds) >= LEAST_KEPT]
        found = [profile_of(self.key, plan, seconds, beside=self.beside) for plan, seconds in kept]
        default_session().call_profiles.keep(found)

    @property
    def stats(self) -> ContractStats:
        """How it is kept by now."""
        with self._lock:
            return ContractStats(
                str(self.key), self.p99, self.priority, self.beside, self._calls, self._late, self._longest,
                self._calls // PART, self._broken,
            )  # fmt: skip

    def watch(self, compilation: Compilation, record: LaunchRecord) -> See | None:
        """Observe calls of some code: see `CallObserver`."""
        from vkernels.compiler.call_profiles import call_key
        from vkernels.ir.plan_json import frozen

        digest = call_key(compilation, compilation.request.arguments).digest
        if digest != self.key.digest:
            return _nothing if digest in self._others else None
        kept: list[float] = []
        if record.plan is not None and self.beside:
            with self._lock:
                _, kept = self._kept.setdefault(frozen(record.plan), (record.plan, kept))

        def see(start: float, end: float, is_alone: bool) -> None:
            if get_priority() == self.priority:
                self._count(end - start, None if is_alone else kept)

        return see

    def _count(self, seconds: float, kept: list[float] | None) -> None:
        """Count a call. `kept`: durations of calls beside the others; None where it was alone."""
        with self._lock:
            self._calls += 1
            self._longest = max(self._longest, seconds)
            if seconds > self.p99:
                self._late += 1
                self._late_of_hundred += 1
            if self._calls % PART == 0:
                self._broken += self._late_of_hundred > 1
                self._late_of_hundred = 0
            self._shown.show(self._calls, self._late, self._longest, self._calls // PART, self._broken)
            if kept is not None and len(kept) < MOST_KEPT:
                kept.append(seconds)


def _nothing(start: float, end: float, is_alone: bool) -> None:
    """See a call of others: that it runs is noticed, since it is observed."""
