"""The compiler session: everything that compiling remembers. Calls, compiling ahead, `check`, `explain` and tuning all
pass a `CompileRequest` to `CompilerSession.compile`."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from vkernels.ir.fork_safe import fork_safe_lock

from .background import in_background
from .background_calibration import BackgroundCalibration
from .counters import CompileCounters
from .log_once import LogOnce
from .tuned_plans import TunedPlanProvider, TunedPlans

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp
    from vkernels.ir.disk_cache import DiskCache
    from vkernels.ir.limits import Limits

    from .call_profiles import CallProfiles, ProfileStore
    from .compilation import Compilation
    from .gpu_binaries import BinaryCompiler
    from .kernel_variants import KernelVariants
    from .plan_cache import PlanCache
    from .plans import Plans
    from .protocols import KernelLike
    from .request import CompileRequest

PATIENCE = 2.0
"""Seconds that a first call waits for the best plan, before it runs a plain one."""

EXACT_SHAPES = 3
"""Shapes of a kernel's calls that get code for their sizes, before others get code for classes of sizes."""


TuneFirstUse = Callable[["KernelLike", Mapping[str, Any]], object]
"""Tunes a kernel for arguments by name. Does not raise, but for an interrupt."""


class SessionUser(Protocol):
    """Holds what depends on the tuned plans of a session."""

    def forget(self) -> None:
        """Query the session again, from the next call on."""
        ...


class CompilerSession:
    """Compiles kernels, and remembers what it compiled. May be used by several threads.

    `disk`: stores plans, artifacts and binaries for later processes; None stores nothing. `provider`: gives tuned
    plans. `patience`: seconds that a first call waits for the best plan. `exact_shapes`: how many shapes of a kernel's
    calls get code for their sizes alone, before others get code for classes of sizes. `calibrates`: whether the CPU's
    rates are measured in the background, once for the user of `disk` and this machine. `judge`: how many plans for a
    GPU are compiled to choose one by its binaries; 1 takes the model's choice. `tune_first_use`: tunes kernels that are
    declared so, before their first call. `profile_store`: keeps profiles of calls beyond the process.
    """

    def __init__(
        self, disk: DiskCache | None = None, provider: TunedPlanProvider | None = None, patience: float = PATIENCE,
        exact_shapes: int = EXACT_SHAPES, calibrates: bool = False, judge: int = 1,
    ):  # fmt: skip
        self.disk, self.patience, self.exact_shapes, self.judge = disk, patience, exact_shapes, judge
        self.calibration = BackgroundCalibration(disk if calibrates else None)
        self.counters = CompileCounters()
        self.users: WeakSet[SessionUser] = WeakSet()
        self.log_once = LogOnce()
        self.tuned_plans = TunedPlans(provider, self.log_once, disk)
        self.tune_first_use: TuneFirstUse | None = None
        self.profile_store: ProfileStore | None = None
        self.waiters = 0
        self._pending: dict[Future[Any], int] = {}
        self._kernels: WeakKeyDictionary[KernelLike, KernelVariants] = WeakKeyDictionary()
        self._lock = fork_safe_lock()

    def compile(self, request: CompileRequest) -> Compilation:
        """The IR, plans and code of a request, with tuned values of the constants that it leaves open.

        Nothing is compiled before it is needed.
        """
        from .compilation import Compilation  # takes long to import, as it needs all of the IR

        return Compilation(self, request, self.variants(request.kernel)).with_tuned_constants()

    def variants(self, kernel: KernelLike) -> KernelVariants:
        """The IR and the code of a kernel; they live as long as the kernel."""
        from .kernel_variants import KernelVariants

        with self._lock:
            return self._kernels.setdefault(kernel, KernelVariants())

    def plans_for(
        self,
        kernel: KernelLike,
        built: KernelOp,
        sizes: Mapping[str, int],
        dtypes: Mapping[str, str],
        limits: Limits,
        strides: Mapping[str, Sequence[int]] | None = None,
        is_deterministic: bool = False,
    ) -> Plans:
        """The plans of a kernel, whose IR as written is `built`, for sizes, dtypes and `strides` of tensors by name."""
        from .plans import Plans

        tuned, cache = self.tuned_plans, self.plan_cache
        return Plans(
            kernel, built, sizes, dtypes, limits, strides, tuned, cache, is_deterministic=is_deterministic
        )  # fmt: skip

    def use_provider(self, provider: TunedPlanProvider | None) -> None:
        """Take tuned plans from this provider from now on, or from none."""
        self.tuned_plans.provider = provider
        self.forget_tuned_plans()

    def forget_tuned_plans(self) -> None:
        """Query the provider again at the next call of each kernel: its plans and profiles may have changed."""
        self.tuned_plans.forget()
        if "call_profiles" in vars(self):
            self.call_profiles.forget()
        for user in list(self.users):
            user.forget()

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Within, no call runs a plain plan because compiling the best one takes long: first calls wait for it, and
        those that calls before are waiting for are finished at the beginning."""
        self.waiters += 1
        try:
            if not in_background():
                wait([future for future, process in self._pending.copy().items() if process == os.getpid()])
            yield
        finally:
            self.waiters -= 1

    def note_pending(self, best: Future[Any]) -> None:
        """Note that the best plan of a call is being compiled in the background of this process."""
        self._pending[best] = os.getpid()
        best.add_done_callback(lambda done: self._pending.pop(done, None))

    @cached_property
    def call_profiles(self) -> CallProfiles:
        """Measured durations of calls, and what stores them."""
        from .call_profiles import CallProfiles

        return CallProfiles(self.profile_store)

    @cached_property
    def plan_cache(self) -> PlanCache:
        """Plans whose code was found to fit."""
        from .plan_cache import PlanCache

        return PlanCache(self.disk, self.log_once)

    @cached_property
    def binaries(self) -> BinaryCompiler:
        """Compiles and stores GPU binaries."""
        from .gpu_binaries import BinaryCompiler

        binaries = BinaryCompiler(self.disk, self.counters)
        atexit.register(binaries.close)
        return binaries

    def close(self) -> None:
        """End the compile workers."""
        if "binaries" in vars(self):
            self.binaries.close()
