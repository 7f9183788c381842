"""The decisions that a plan for a kernel has to make, and the sizes to try."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..analyses import annotate_needs, phases_of
from ..analysis.axes import resolve_axes
from ..analysis.grid_phases import grid_phases
from ..analysis.kernel_analysis import KernelAnalysis
from ..analysis.masks.conditions import is_tested
from ..analysis.needs import Needs, NeedsDevice, NeedsUse
from ..analysis.private_copies import meeting_axes, padding_of, private_tensors
from ..analysis.schedule.find_copies import find_copies
from ..analysis.schedule.make_schedule import make_schedule
from ..analysis.schedule.nests import in_order
from ..cost_model.extents import extents_of
from ..cost_model.index_sums import Regions, regions_of
from ..cost_model.item_widths import bytes_of, element_bytes
from ..cost_model.launches import axes_of_programs, cut_loops, cuts_of, phases_of_launches
from ..cost_model.loops import FAR, MOST_ALIGNED, Loop
from ..cost_model.operand_copies import with_copies
from ..cost_model.plan_batch import NO_TERMS, NO_UPDATES, AtomicUpdates, BatchTerms, Numbers, PlanBatch
from ..cost_model.read_loops import Known, read_loops
from ..cost_model.split_scans import with_totals
from ..dialect import AccessOp, DotOp, KernelOp, MaxOp, RangeOp, StoreOp, TensorArgumentType, WriteOp, axes_of
from ..errors import PlanError
from ..facts import Facts
from ..limits import Limits
from ..pin import NO_PIN, Pin
from ..plan import Home, Plan
from ..plan import StructuralChoices as StructuralChoices
from .bounds import MAX_LANE_AXES, contracted_thinly, subsets, tensors_of
from .lanes_beside import axes_of_work_beside

MAX_GPU_SIZE = 1 << 15
"""Elements of one axis that a GPU's program takes at once: 64 of each thread of 16 warps."""
ANY_LANES = "any lanes"
"""In place of the lanes, where no loops are in an order that depends on them."""
MAX_CACHED_STRIDES = 64
"""Kinds of strides for which a kernel's loops are kept."""
MAX_HELD_CONTRACTION = 256
"""Elements of a contracted axis that a GPU's program holds at once, at most, for the same reason."""
MAX_HELD_GROUPS = 4
"""Axes, or groups of axes, of which any may be held at once: each doubles what a search begins with."""
MAX_UNROLLED_TILE = 96
"""Registers' worth of one tile that CPU code is unrolled for, at most: more takes long to compile and is not faster."""


@dataclass
class PlanSearchSpace:
    """A kernel in phases, the call's sizes, and what there is to decide within some limits. `lean`: small sizes alone,
    for limits that leave no room for others. `pin`: what is not to be decided, since the author has. `grids`: terms of
    grids of sizes that were tried before, by these."""

    kernel: KernelOp
    needs: Needs
    sizes: Mapping[str, int]
    limits: Limits
    strides: Mapping[str, Sequence[int]] = field(default_factory=dict)
    lean: bool = False
    pin: Pin = NO_PIN
    grids: dict[tuple[tuple[int, ...], ...], BatchTerms] = field(default_factory=dict)
    _analyses: dict[frozenset[str], KernelAnalysis] = field(default_factory=dict)
    _known: Known = field(default_factory=Known)
    _used: list[tuple[Plan, NeedsUse]] = field(default_factory=list)

    @cached_property
    def extents(self) -> dict[str, int]:
        """Positions of axes, trips of ranges."""
        return extents_of(self.kernel, self.sizes)

    @cached_property
    def regions(self) -> Regions:
        """The parts of tensors that accesses take elements of."""
        return regions_of(self.kernel, self.extents, self.sizes)

    @cached_property
    def tiles(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.needs.axes if axis.is_tile)

    @cached_property
    def wholes(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.needs.axes if not axis.is_tile)

    @cached_property
    def ragged(self) -> frozenset[str]:
        """Axes whose positions make different numbers of steps."""
        return frozenset(a for op in self.kernel.walk() if isinstance(op, RangeOp) for a in axes_of(op.start))

    @cached_property
    def contracted(self) -> frozenset[str]:
        return frozenset(dot.axis for dot in self.needs.dots)

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        """Axes that may be along the lanes, first those along which most accesses are contiguous."""
        votes: Counter[str] = Counter()
        names = dict(zip(self.kernel.body.block.args, (p.data for p in self.kernel.parameters), strict=True))
        for op in self.kernel.walk():
            if isinstance(op, AccessOp) and isinstance(op.base.type, TensorArgumentType) and len(op.index):
                strides = self.strides.get(names[op.base], (1,))  # type: ignore[index]
                fast = len(op.index) - 1 if 1 not in strides or len(strides) == 1 else list(strides).index(1)
                votes.update(axis for axis, coefficient in op.index.data[fast].terms if coefficient == 1)
            if isinstance(op, DotOp):
                votes[op.axis.data] -= 2
        axes = [*self.tiles, *self.wholes]
        ranked = sorted(axes, key=lambda axis: (-votes[axis], self.extents[axis] <= 1, axis in self.tiles))
        sides = {axis for dot in self.needs.dots for axis in (*dot.rows, *dot.columns)}
        if self.limits.warp == 1:
            sides |= contracted_thinly(self.needs.dots, self.extents)
        able = [axis for axis in ranked if (votes[axis] > 0 or axis in sides) and axis not in self.ragged]
        return tuple(able) or tuple(ranked[:1])

    @cached_property
    def work_beside(self) -> tuple[str, ...]:
        """Axes of much work that has none of those that are tried along the lanes, the most first."""
        return axes_of_work_beside(self.kernel, self.lanes[:MAX_LANE_AXES], self.extents, self.width)

    @cached_property
    def stored(self) -> frozenset[str]:
        """Tensors that the kernel writes with plain stores."""
        names = dict(zip(self.kernel.body.block.args, (p.data for p in self.kernel.parameters), strict=True))
        ops = [op for op in self.kernel.walk() if isinstance(op, StoreOp) and op.atomic is None]
        return frozenset(names[op.base] for op in ops if op.base in names)  # type: ignore[index]

    @cached_property
    def updates(self) -> AtomicUpdates:
        """What atomics update."""
        atomic = {op.base for op in self.kernel.walk() if isinstance(op, WriteOp) and op.atomic is not None}
        updated = {name: t for name, t in tensors_of(self.kernel).items() if self.kernel.parameter(name) in atomic}
        if not updated:
            return NO_UPDATES
        private = private_tensors(self.kernel, True)
        meeting = meeting_axes(self.kernel, private)
        copied = {name: t for name, t in updated.items() if self.kernel.parameter(name) in private}
        return AtomicUpdates(
            {name: self.tensor_bytes(tensor) for name, tensor in updated.items()},
            {name: self.tensor_bytes(tensor, padding_of(tensor)) for name, tensor in copied.items()},
            tuple(axis for axis in self.tiles if axis not in meeting),
        )

    def tensor_bytes(self, tensor: TensorArgumentType, more: int = 0) -> int:
        """Bytes of a tensor, with a first dimension that is `more` longer."""
        first, *rest = (self.sizes.get(n, 1) if isinstance(n, str) else n for n in (*tensor.shape, 1))
        return (first + more) * math.prod(rest) * bytes_of(tensor.element)

    @property
    def may_spill(self) -> bool:
        """Whether plans may take more of a CPU's registers than there are: the author's pin may."""
        return self.limits.warp == 1 and replace(self.pin, launches=None) != NO_PIN

    @cached_property
    def width(self) -> int:
        """Elements of a vector register."""
        return max(1, self.limits.register_bytes // element_bytes(self.kernel))

    def holdable(self) -> Iterator[frozenset[str]]:
        """The sets of whole axes that may be held at once, none first. Of more than a few axes, GPUs also hold those of
        one extent together: a product that is made again has such axes of its own."""
        most = self.width * MAX_UNROLLED_TILE if self.limits.warp == 1 else MAX_GPU_SIZE
        able = [axis for axis in self.wholes if 1 < self.extents[axis] <= most]
        if self.limits.warp > 1:
            able = [axis for axis in able if axis not in self.contracted or self.extents[axis] <= MAX_HELD_CONTRACTION]
        always = frozenset(axis for axis in self.wholes if self.extents[axis] == 1)
        found = list(subsets([{axis} for axis in able[:MAX_HELD_GROUPS]]))
        if self.limits.warp > 1 and len(able) > MAX_HELD_GROUPS:
            extents = {axis.name: axis.extent for axis in self.needs.axes}
            distinct = dict.fromkeys(extents[axis] for axis in able)
            alike = [{axis for axis in able if extents[axis] == each} for each in distinct]
            found += subsets(alike[:MAX_HELD_GROUPS])
        yield from dict.fromkeys(always | held for held in found)

    @cached_property
    def holds(self) -> frozenset[frozenset[str]]:
        """The same sets, to look them up."""
        return frozenset(self.holdable())

    @cached_property
    def beside_online(self) -> Mapping[str, frozenset[str]]:
        """For each whole axis, the whole axes of the results of dots along it."""
        found: dict[str, set[str]] = {axis: set() for axis in self.wholes}
        for dot in self.needs.dots:
            if dot.axis in found:
                found[dot.axis] |= {axis for axis in (*dot.batch, *dot.rows, *dot.columns) if axis in found}
        return {axis: frozenset(others) for axis, others in found.items()}

    def homed_online(self, axis: str, held: frozenset[str]) -> dict[str, Home]:
        """Homes for the results of dots that go online along an axis, where not all of their axes are held."""
        values = [value for value in self.needs.crossing if value.summed == axis and not set(value.whole) <= held]
        return {value.label: Home.SHARED for value in values if Home.SHARED in value.homes}

    @cached_property
    def cuts(self) -> tuple[str, ...]:
        """The phases after which a launch of its own can begin."""
        return cuts_of(self.kernel)

    @cached_property
    def can_go_online(self) -> tuple[str, ...]:
        """Whole axes along which sums of exponentials follow the maximum that is taken from them."""
        found: list[str] = []
        if any(isinstance(op, MaxOp) for op in self.kernel.walk()):
            for axis in self.wholes:
                try:
                    self.loops(
                        StructuralChoices(order=self.tiles, lanes=self.lanes[0] if self.lanes else None, online=(axis,))
                    )
                    found.append(axis)
                except PlanError:
                    continue
        return tuple(found)

    def use_of(self, plan: Plan) -> NeedsUse:
        """What the kernel uses under a plan; kept for the last one, which is often asked for again."""
        if not self._used or self._used[0][0] != plan:
            self._used[:] = [(plan, self.needs.evaluate(plan, self.sizes, NeedsDevice.of(self.limits)))]
        return self._used[0][1]

    @cached_property
    def guardable(self) -> tuple[str, ...]:
        """Whole axes of which a mask can be tested for each chunk."""
        if not any(map(is_tested, self.structure.mask_conditions)):
            return ()
        plain = StructuralChoices(order=self.tiles, lanes=self.lanes[0] if self.lanes else None)
        return tuple(axis for axis in self.wholes if self._can_have(replace(plain, guards=(axis,)), axis))

    def _can_have(self, choices: StructuralChoices, axis: str) -> bool:
        try:
            return any(visit.is_tested for loop in self.loops(choices) for visit in loop.visits if visit.axis == axis)
        except PlanError:
            return False

    # Plans with the same choices

    def batch_with(
        self,
        choices: StructuralChoices,
        sizes: Mapping[str, Numbers],
        warps: Numbers,
        stages: Numbers,
        shares: Numbers,
        resident: Numbers = 0,
        terms: BatchTerms = NO_TERMS,
    ) -> PlanBatch:
        """Given sizes for some decisions. Raises `PlanError` where the kernel cannot have them."""
        return PlanBatch(
            self.loops(choices), choices, sizes, self.extents,
            self.needs.splittable.get(choices.split, ()) if choices.split else (),
            shares, warps, stages, resident,
            phases_of_launches(self.kernel, choices.launches) if choices.launches else (),
            axes_of_programs(self.kernel, choices) if choices.launches else (),
            self.updates, self.regions, self.sizes, terms=terms,
            copied=sum(self.tensor_bytes(tensors_of(self.kernel)[name]) for name in choices.k_major),
        )  # fmt: skip

    def _as_loops_see(self, choices: StructuralChoices) -> StructuralChoices:
        """The choices, without lanes where no loop over chunks goes along them."""
        chunked = choices.lanes in self.wholes and choices.lanes not in choices.held
        return choices if chunked else replace(choices, lanes=None)

    def _analysis(self, held: frozenset[str], plan: Plan, facts: Facts) -> KernelAnalysis:
        """The analysis of the kernel while some whole axes are held at once."""
        if held not in self._analyses:
            self._analyses[held] = self.structure.under(resolve_axes(self.kernel, plan, facts))
        return self._analyses[held]

    @property
    def structure(self) -> KernelAnalysis:
        """What an analysis of the kernel finds without sizes; kept with the kernel."""
        found = self.kernel.analyses.get("structure")
        if not isinstance(found, KernelAnalysis):
            found = self.kernel.analyses["structure"] = KernelAnalysis(self.kernel, {})
        return found

    def loops(self, choices: StructuralChoices) -> tuple[Loop, ...]:
        """What runs in which loop. Raises `PlanError` where the kernel cannot have the decisions."""
        if choices.k_major:
            plain = self.loops(replace(choices, k_major=()))
            return self._kept(("K-major", choices), tuple(with_copies(plain, choices.k_major)))
        if choices.split is not None and choices.split in self.needs.scanned:
            plain = self.loops(replace(choices, split=None))
            return self._kept(("totals", choices), with_totals(plain, self.kernel, choices.split))
        choices = self._as_loops_see(choices)
        decided = choices.held, choices.homes, choices.copies, choices.online, choices.launches, choices.guards
        found = self._loops.get((*decided, choices.lanes)) or self._loops.get((*decided, ANY_LANES))
        if found is None:
            on_chip = on_chip_alone(choices)
            if on_chip.homes != choices.homes:
                return self._kept((*decided, choices.lanes), tuple(_in_homes(self.loops(on_chip), choices.homes)))
            try:
                found, is_alike = self._read(choices)
                found = self._kept((*decided, ANY_LANES if is_alike else choices.lanes), found)
            except PlanError as error:
                found = self._loops[(*decided, choices.lanes)] = str(error)
        if isinstance(found, str):
            raise PlanError(found)
        return found

    def _kept(self, key: tuple[Any, ...], loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        same = self.needs.found.setdefault("same loops", {})  # comparing loops by identity is fast
        found = self._loops[key] = tuple(same.setdefault((loop, loop.numbers), loop) for loop in loops)
        return found

    @cached_property
    def _loops(self) -> dict[tuple[Any, ...], tuple[Loop, ...] | str]:
        """Loops that were read before, or why they cannot be read.

        They are the same for all sizes and limits if strides are alike and the same axes have at most one position: any
        chunk holds those at once.
        """
        strides = tuple(
            (name, tuple((stride == 1, stride % MOST_ALIGNED, min(abs(stride), FAR)) for stride in strides))
            for name, strides in sorted(self.strides.items())
        )
        alike = strides, tuple((axis, min(extent, 2)) for axis, extent in sorted(self.extents.items()))
        kept = self.needs.found
        if len(kept) >= MAX_CACHED_STRIDES:
            kept.clear()
        found: dict[tuple[Any, ...], tuple[Loop, ...] | str] = kept.setdefault(("loops", alike), {})
        return found

    def _read(self, choices: StructuralChoices) -> tuple[tuple[Loop, ...], bool]:
        """What runs in which loop, and whether it is the same for all lanes."""
        facts = Facts(dict(self.sizes), distinct=True)
        chunks = {axis: max(1, self.extents[axis]) if axis in choices.held else 1 for axis in self.wholes}
        tiles = dict.fromkeys(self.tiles, 1)
        plan = Plan(
            tiles,
            chunks,
            dict(choices.homes),
            choices.copies,
            online=choices.online,
            lanes=choices.lanes,
            guards=choices.guards,
        )
        analysis = self._analysis(choices.held, plan, facts)
        for_units = bool(self.limits.dot_units)
        schedule = make_schedule(analysis, plan, facts, find_copies(analysis, plan), for_units)
        loops = read_loops(schedule, plan, self.strides, self._known)
        if choices.launches:
            loops = cut_loops(loops, schedule, self.tiles, choices.launches)
        return tuple(loops), all(len(nest.axes) < 2 for _, nest, _ in in_order(schedule))


def on_chip_alone(choices: StructuralChoices) -> StructuralChoices:
    """The same with shared memory in place of swap space: loops are the same but for where their homes are."""
    homes = ((label, Home.SHARED if home is Home.MEMORY else home) for label, home in choices.homes)
    return replace(choices, homes=tuple(homes))


def _in_homes(loops: Sequence[Loop], homes: Sequence[tuple[str, Home]]) -> Iterator[Loop]:
    """Loops whose homes and scratchpads are where some choices have them."""
    far = {label for label, home in homes if home is Home.MEMORY}
    for loop in loops:
        steps = tuple(
            replace(step, touch=replace(step.touch, home=Home.MEMORY))
            if step.touch is not None and step.touch.home is not None and step.touch.place in far
            else step
            for step in loop.steps
        )
        yield loop if loop.places.isdisjoint(far) else replace(loop, steps=steps)


def read_space(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    limits: Limits,
    needs: Needs | None = None,
    strides: Mapping[str, Sequence[int]] | None = None,
    pin: Pin | None = None,
) -> PlanSearchSpace:
    """The space of a kernel, as written or in phases."""
    needs = annotate_needs(kernel) if needs is None else needs
    kernel = phases_of(kernel)
    return PlanSearchSpace(
        kernel, needs, sizes, limits, {**_side_by_side(kernel, sizes), **(strides or {})},
        pin=_with_grid_phases(pin or NO_PIN, kernel),
    )  # fmt: skip


def _with_grid_phases(pin: Pin, kernel: KernelOp) -> Pin:
    """A pin with a launch after each phase at which all programs of a kernel wait for one another, unless it decides
    on launches."""
    waits = grid_phases(kernel)
    return replace(pin, launches=waits) if waits and pin.launches is None else pin


def _side_by_side(kernel: KernelOp, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The strides of tensors without gaps, row after row."""
    strides: dict[str, tuple[int, ...]] = {}
    for name, tensor in tensors_of(kernel).items():
        lengths = [sizes.get(n, 1) if isinstance(n, str) else n for n in tensor.shape]
        strides[name] = tuple(math.prod(lengths[d + 1 :]) for d in range(len(lengths)))
    return strides
