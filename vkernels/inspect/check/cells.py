"""One kernel on one device: whether it fits, its plan, and the resources of its binaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.backends.resources import Resources, taken_by
from vkernels.compiler.binaries.launch_loops import LaunchLoops, launch_loops
from vkernels.compiler.binaries.read_code import KernelCode
from vkernels.compiler.binaries.source_loops import Length
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.analyses import annotate_needs, phases_of
from vkernels.ir.analysis.axes import resolve_axes
from vkernels.ir.analysis.kernel_analysis import KernelAnalysis
from vkernels.ir.analysis.needs import Needs
from vkernels.ir.analysis.needs.device import UNKNOWN_TRIPS
from vkernels.ir.analysis.schedule.find_copies import find_copies
from vkernels.ir.analysis.schedule.make_schedule import make_schedule
from vkernels.ir.analysis.schedule.nests import label_of
from vkernels.ir.cost_model.roofline import roofline
from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import Error
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.occupancy import Occupancy
from vkernels.ir.plan import Home, Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.planning.choose_plan import Chosen, rung_of
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.resources import Shortage, held, misfit
from vkernels.ir.planning.slow_plans import slow_plan
from vkernels.ir.planning.space import read_space
from vkernels.ir.slow_plan import SlowPlan
from vkernels.ir.transforms.apply_plan.find_words import find_word_dots
from vkernels.ir.transforms.apply_plan.planned_kernel import plan_kernel
from vkernels.targets import Target, limits_of


def homes_under(kernel: KernelOp, plan: Plan, sizes: Mapping[str, int]) -> dict[str, Home]:
    """Return the homes of chunked values under a plan, by label; values without one are recomputed.

    Raises `PlanError` if the plan is impossible.
    """
    kernel = phases_of(kernel)
    facts = Facts(dict(sizes), distinct=True)
    analysis = KernelAnalysis(kernel, resolve_axes(kernel, plan, facts))
    schedule = make_schedule(analysis, plan, facts, find_copies(analysis, plan))
    return {label_of(value): home for value, home in schedule.homes.items()}


def units_under(
    kernel: KernelOp,
    plan: Plan,
    sizes: Mapping[str, int],
    limits: Limits,
    strides: Mapping[str, Sequence[int]],
) -> tuple[str, ...]:
    """Return the names of the dot units that a CPU's plan uses. Raises `PlanError` if the plan is impossible."""
    if not limits.dot_units:
        return ()
    facts = Facts(dict(sizes), strides={name: tuple(known) for name, known in strides.items()}, distinct=True)
    planned = plan_kernel(phases_of(kernel), plan, facts, for_units=True)
    return tuple(sorted({dot.on.unit.name for dot in find_word_dots(planned, limits.dot_units).values()}))


AUTHOR, CHOSEN, PLAIN = "author", "chosen", "plain"


@dataclass(frozen=True)
class PlanSummary:
    """A plan for a kernel, sizes and limits.

    `origin`: `author`, `chosen` or `plain`. `plan`: as JSON. `homes`: by label, of each value that crosses phases and
    each scratchpad. `rung`, `modelled_seconds`, `bottleneck`: None if unknown. `roofline_seconds`: a lower bound for
    all plans, None if the needs are unknown. `tried`: the shortages of the plans before this one. `slow`: how the plan
    is far from the roofline, None if it is not. `units`: a CPU's dot units that the plan uses, by name.
    `deterministic`: it is for deterministic calls. `judged`: how many plans were compiled, of which it is the best by
    its binaries; 0 if none were.
    """

    origin: str
    plan: Mapping[str, Any]
    homes: Mapping[str, str] = field(default_factory=dict)
    rung: str | None = None
    modelled_seconds: float | None = None
    bottleneck: str | None = None
    roofline_seconds: float | None = None
    tried: tuple[str, ...] = ()
    slow: SlowPlan | None = None
    units: tuple[str, ...] = ()
    deterministic: bool = False
    judged: int = 0


def describe_plan(
    module: ModuleOp,
    plan: Plan,
    origin: str,
    sizes: Mapping[str, int],
    limits: Limits,
    chosen: Chosen | None = None,
    tried: tuple[str, ...] = (),
    why_bottom: str | None = None,
    strides: Mapping[str, Sequence[int]] = {},
) -> PlanSummary:
    """Summarise a plan for the kernel of a module, as written. `chosen`: the planner's choice, if it is this plan;
    `why_bottom`: why that is of the bottom rung, if it is. `strides`: of tensors that are not row-major."""
    kernel = kernel_in(module)
    summary = PlanSummary(origin, plan_to_json(plan), tried=tried)
    try:
        needs = annotate_needs(kernel)
        least = roofline(kernel, sizes, limits, needs).seconds
        homes = _homes(kernel, needs, plan, sizes)
        space = read_space(kernel, sizes, limits, needs, strides)
        if chosen is not None:
            rung, times = chosen.rung, chosen.times
        else:
            rung, times = rung_of(plan, space), model_plan(space, plan)
        slow = slow_plan(space, plan, float(times.seconds), why_bottom)
    except Error:  # unknown needs, or a plan that leaves an axis out
        return summary
    return replace(
        summary, homes=homes, rung=rung, modelled_seconds=float(times.seconds), bottleneck=times.bottleneck,
        roofline_seconds=float(least), slow=slow,
        units=units_under(kernel, plan, sizes, limits, space.strides),
    )  # fmt: skip


def _homes(kernel: KernelOp, needs: Needs, plan: Plan, sizes: Mapping[str, int]) -> dict[str, str]:
    extents, given = needs.extents(sizes), homes_under(kernel, plan, sizes)
    found = {}
    for value in needs.crossing:
        chunked = any(extents[a] > plan.chunks.get(a, 1) or plan.splits.get(a, 1) > 1 for a in value.whole)
        found[value.label] = given.get(value.label, Home.RECOMPUTE) if chunked else Home.REGISTERS
    found |= {pad.label: plan.homes.get(pad.label, Home.SHARED) for pad in needs.scratchpads}
    return {label: home.value for label, home in found.items()}


@dataclass(frozen=True)
class LaunchUse:
    """The resources of a binary on any device of its architecture.

    `threads`: of a program. `seconds`: compile time. `global_scratch`: bytes of memory that Triton needs per program.
    `code`: its loops; None where they cannot be read.
    """

    threads: int
    resources: Resources
    seconds: float
    global_scratch: int = 0
    code: KernelCode | None = None


@dataclass(frozen=True)
class LaunchFailure:
    """Why there is no binary, and the compile time."""

    reason: str
    seconds: float


@dataclass(frozen=True)
class CellLaunch:
    """One launch on one device. `use` and `occupancy` are None without a binary, `loops` without its loops."""

    name: str
    fits: bool
    reason: str
    seconds: float
    use: LaunchUse | None = None
    occupancy: Occupancy | None = None
    loops: LaunchLoops | None = None


@dataclass(frozen=True)
class Cell:
    """One kernel on one device.

    `kernel`: its name, FILE.py:NAME if it is a user's. `dtype`, `shape`, `configuration`: its specialisation; a
    configuration has a plain Triton kernel's constants and options. The worst launch decides. `unknown`: why it is
    unknown whether it fits, for example because Triton does not support the device; else empty. `planned`: None for a
    plain Triton kernel, and without a plan. `tensor_bytes`: size of all tensors; `swap_bytes`: all other memory of a
    call. `misfit`: why the call does not fit although each launch does. `shortage`: what
    the plan takes too much of, if another plan may take less; it may be a spill.
    """

    kernel: str
    target: str
    architecture: str
    dtype: str
    shape: Mapping[str, int]
    configuration: Mapping[str, Any]
    launches: tuple[CellLaunch, ...] = ()
    unknown: str = ""
    planned: PlanSummary | None = None
    tensor_bytes: int | None = None
    swap_bytes: int | None = None
    misfit: str = ""
    shortage: Shortage | None = None

    @property
    def fits(self) -> bool | None:
        """Whether all launches and their memory fit; None if unknown."""
        return None if self.unknown else not self.misfit and all(launch.fits for launch in self.launches)

    @property
    def reason(self) -> str:
        """Why the kernel does not fit, or why that is unknown; empty if it fits."""
        return self.unknown or next((launch.reason for launch in self.launches if not launch.fits), self.misfit)

    @property
    def registers_per_thread(self) -> int | None:
        return max((use.resources.registers for use in self._uses()), default=None)

    @property
    def shared_bytes(self) -> int | None:
        return max((use.resources.shared for use in self._uses()), default=None)

    @property
    def spill_bytes(self) -> int | None:
        return max((use.resources.spill_bytes for use in self._uses()), default=None)

    @property
    def blocks_per_multiprocessor(self) -> int | None:
        return min((occupancy.blocks for occupancy in self._occupancies()), default=None)

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that limit occupancy, in the launch with the lowest."""
        fewest = min(self._occupancies(), key=lambda o: o.blocks, default=None)
        return () if fewest is None else fewest.limited_by

    @property
    def bound_seconds(self) -> float | None:
        """A lower bound of a call's time, by the loops of its binaries and by the roofline; None if unknown."""
        bounds = [launch.loops.bound for launch in self.launches if launch.loops is not None]
        known = [bound.seconds for bound in bounds if bound is not None]
        if not known or len(known) < len(self.launches):
            return None
        least = self.planned.roofline_seconds if self.planned is not None else None
        return max(sum(known), least or 0.0)

    @property
    def compile_seconds(self) -> float:
        """Compile time of all launches; cells that share a binary share it."""
        return sum(launch.seconds for launch in self.launches)

    def _uses(self) -> Iterator[LaunchUse]:
        return (launch.use for launch in self.launches if launch.use is not None)

    def _occupancies(self) -> Iterator[Occupancy]:
        return (launch.occupancy for launch in self.launches if launch.occupancy is not None)


def judge(name: str, found: LaunchUse | LaunchFailure, target: Target) -> CellLaunch:
    """Judge a launch on a device, from its binary's resources and the device's limits."""
    if isinstance(found, LaunchFailure):
        return CellLaunch(name, False, found.reason, found.seconds)
    taken, limits = taken_by(found.resources, found.threads), limits_of(target)
    short = misfit(taken, limits)
    reason = "" if short is None else short.reason
    return CellLaunch(name, short is None, reason, found.seconds, found, held(taken, limits))


def with_loops(
    launch: CellLaunch, text: str, target: Target, grid: Sequence[int] | None, sizes: Mapping[str, int],
    unknown_length: Length = UNKNOWN_TRIPS,
) -> CellLaunch:  # fmt: skip
    """The launch with its loops. `text`: its TTIR. `grid`: its programs by axis, None if unknown. `sizes`: by name.
    `unknown_length`: see `launch_loops`."""
    if launch.use is None or launch.use.code is None or launch.occupancy is None:
        return launch
    found = launch_loops(launch.use.code, text, limits_of(target), launch.occupancy.blocks, grid, sizes, unknown_length)
    return replace(launch, loops=found)
