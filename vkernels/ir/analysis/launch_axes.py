"""The tile axes along which the programs of each launch of a kernel lie: those that its work has.

A kernel whose parts wait for one another may name other axes in each part. Programs along an axis that a part never
names would all do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from ..dialect import AccessOp, KernelOp, PhaseOp, ScratchOp, TileOp, axes_of
from .grid_phases import ends_of_launches, grid_phases, grid_steps


@dataclass(frozen=True)
class _Named:
    """What operations name: tile axes, and labels of scratchpads."""

    tiles: frozenset[str]
    scratchpads: frozenset[str]


@dataclass(frozen=True)
class _Step:
    """An operation of the kernel's own block that has phases. `ends`: the phase after which a launch may end there."""

    ends: str | None
    phases: tuple[str, ...]
    named: _Named


@dataclass(frozen=True)
class LaunchAxes:
    """`tiles`: all tile axes of a kernel. `waits`: the phases that all programs complete before any goes on."""

    tiles: tuple[str, ...]
    waits: tuple[str, ...]
    steps: tuple[_Step, ...]

    def of(self, launches: Collection[str]) -> tuple[frozenset[str], ...]:
        """The tile axes of each launch's programs, if a launch begins after each of some phases.

        Launches that access the same scratchpad have the same programs, since each has its part of it.
        """
        return tuple(_alike(_union(step.named for step in steps) for steps in self._parts(launches)))

    def lacking(self, launches: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """The tile axes that each launch's programs do not lie along, likewise, although those of its part do: what
        lies between two places where all programs wait. Where such an axis is empty, the part has no programs.
        """
        own, parts = self.of(launches), list(self._parts(launches))
        found: list[tuple[str, ...]] = []
        together: list[frozenset[str]] = []
        for tiles, steps in zip(own, parts, strict=True):
            together.append(tiles)
            if steps[-1].ends in self.waits or steps is parts[-1]:
                every = frozenset[str]().union(*together) if self.waits else frozenset(self.tiles)
                found += [tuple(axis for axis in self.tiles if axis in every - each) for each in together]
                together = []
        return tuple(found)

    def phases(self, launches: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """The phases of each launch, likewise."""
        return tuple(tuple(phase for step in steps for phase in step.phases) for steps in self._parts(launches))

    def scratchpads_across(self, launches: Collection[str]) -> list[str]:
        """The labels of scratchpads that several launches access, likewise."""
        found = [label for steps in self._parts(launches) for label in _union(s.named for s in steps).scratchpads]
        return sorted({label for label in found if found.count(label) > 1})

    def of_phase(self, phase: str) -> frozenset[str]:
        """The tile axes of the programs that run a phase, if launches begin only where all programs wait."""
        if not self.waits:
            return frozenset(self.tiles)
        axes = self.of(self.waits)
        parts = list(self._parts(self.waits))
        return next(axes[n] for n, steps in enumerate(parts) if any(phase in step.phases for step in steps))

    def _parts(self, launches: Collection[str]) -> Iterator[Sequence[_Step]]:
        part: list[_Step] = []
        for step in self.steps:
            part.append(step)
            if step.ends in launches:
                yield part
                part = []
        if part:
            yield part


def launch_axes(kernel: KernelOp) -> LaunchAxes:
    """The tile axes of a kernel in phases, by the operations of its own block; kept with the kernel."""
    found = kernel.analyses.get("launch axes")
    if not isinstance(found, LaunchAxes):
        tiles, ends = _tiles(kernel), ends_of_launches(kernel)
        steps = (
            _Step(
                ends.get(op),
                tuple(each.phase.data for each in op.walk() if isinstance(each, PhaseOp)),
                _named(op, tiles),
            )
            for op in kernel.body.block.ops
            if op.regions
        )
        found = kernel.analyses["launch axes"] = LaunchAxes(tuple(tiles), grid_phases(kernel), tuple(steps))
    return found


def axes_between_waits(kernel: KernelOp) -> Callable[[Operation], Collection[str]]:
    """For each operation of a kernel, as written or in phases, the tile axes along which programs may run it at once:
    those of the kernel, or of what lies between two places where all programs wait."""
    step_of, tiles = grid_steps(kernel), _tiles(kernel)
    if len({step_of(op) for op in kernel.body.block.ops}) == 1:
        return lambda op: tiles
    parts: dict[int, list[_Named]] = {}
    for op in kernel.body.block.ops:
        parts.setdefault(step_of(op), []).append(_named(op, tiles))
    found = dict(zip(parts, _alike(map(_union, parts.values())), strict=True))
    return lambda op: found[step_of(op)]


def _tiles(kernel: KernelOp) -> list[str]:
    return [op.axis.data for op in kernel.body.block.ops if isinstance(op, TileOp)]


def _named(top: Operation, tiles: Collection[str]) -> _Named:
    ops = list(top.walk())
    accesses = [op for op in ops if isinstance(op, AccessOp)]
    axes = {axis for op in ops for value in (*op.operands, *op.results) for axis in axes_of(value)}
    axes |= {axis for op in accesses for index in op.index.data for axis, _ in index.terms}
    pads = (op.base.owner for op in accesses)
    return _Named(
        frozenset(axes.intersection(tiles)), frozenset(pad.label.data for pad in pads if isinstance(pad, ScratchOp))
    )


def _union(parts: Iterable[_Named]) -> _Named:
    each = list(parts)
    none: frozenset[str] = frozenset()
    return _Named(none.union(*(part.tiles for part in each)), none.union(*(part.scratchpads for part in each)))


def _alike(launches: Iterable[_Named]) -> list[frozenset[str]]:
    """The tile axes of each launch, with those of launches that access the same scratchpads, directly or not."""
    each = list(launches)
    for _ in each:
        each = [
            _Named(
                _union(part for part in each if part is own or part.scratchpads & own.scratchpads).tiles,
                own.scratchpads,
            )
            for own in each
        ]
    return [launch.tiles for launch in each]
