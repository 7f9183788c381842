"""Random plans and facts for a kernel; not every plan applies to every kernel."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.analysis.grid_phases import grid_phases
from vkernels.ir.analysis.parallel_axes import parallel_axes
from vkernels.ir.dialect import KernelOp, PhaseOp, ScatterOp, ScratchOp, StoreOp
from vkernels.ir.facts import UNKNOWN, Facts
from vkernels.ir.plan import Home, Plan

from .values import Kernel

MOST_IN_REGISTERS = 128


SIZES = (1, 2, 3, 4, 8, 16, 64)
POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Sizes of tiles for GPUs."""


def random_plan(
    kernel: Kernel, split: ModuleOp, choose: random.Random, plain: bool, among: Sequence[int] = SIZES
) -> Plan:
    """A plan for a kernel, of which `split` is the module split into phases. A plain one is tiles and chunks.

    `among`: the sizes that tiles and chunks may have.
    """
    tiles = [axis.name for axis in kernel.axes.values() if axis.is_tile]
    wholes = [axis.name for axis in kernel.axes.values() if not axis.is_tile]
    sizes = _random_sizes([*tiles, *wholes], choose, among)
    plan: dict[str, Any] = {
        "tiles": {a: sizes[a] for a in tiles},
        "chunks": {a: sizes[a] for a in wholes},
        "lanes": choose.choice([*tiles, *wholes, None]),
        "order": tuple(choose.sample(tiles, len(tiles))),
    }
    kernel_op = next(op for op in split.body.block.ops if isinstance(op, KernelOp))
    waits = grid_phases(kernel_op)
    plan["launches"] = waits
    if plain:
        return Plan(**plan)
    if choose.random() < 0.2:
        plan["streams"] = tuple(name for name in kernel.arguments if name.startswith("out") and choose.random() < 0.5)
    if wholes and not waits and choose.random() < 0.3:
        plan["splits"] = {choose.choice(wholes): choose.choice([2, 3])}
    crossing = [result.name_hint or "value" for op in split.walk() if isinstance(op, PhaseOp) for result in op.results]
    for label in crossing:
        if choose.random() < 0.3:
            plan.setdefault("homes", {})[label] = choose.choice([Home.SHARED, Home.MEMORY, Home.RECOMPUTE])
    scratches = [op.label.data for op in split.walk() if isinstance(op, ScratchOp)]
    for label in scratches:
        if choose.random() < 0.3:
            plan.setdefault("homes", {})[label] = choose.choice([Home.SHARED, Home.MEMORY, Home.MEMORY])
    if scratches and choose.random() < 0.3:
        plan["copies"] = (choose.choice(scratches),)
    if "splits" not in plan and choose.random() < 0.3:
        labels = [op.phase.data for op in split.walk() if isinstance(op, PhaseOp) and _is_alone(op)]
        plan["launches"] = tuple(label for label in labels if label in waits or choose.random() < 0.5)
    if plan["launches"]:
        able = frozenset[str]().union(*parallel_axes(kernel_op).of(plan["launches"]))
        plan["parallel"] = tuple(axis for axis in wholes if axis in able and choose.random() < 0.6)
    if kernel.online and choose.random() < 0.7:
        plan["online"] = (choose.choice(sorted(kernel.online)),)
    if choose.random() < 0.2:
        plan["packs"] = tuple(name for name in kernel.arguments if name[0] == "x" and choose.random() < 0.3)
    masked = [axis for axis in wholes if axis in kernel.masked]
    if masked and choose.random() < 0.5:
        plan["guards"] = (choose.choice(masked),)
    if len(tiles) > 1 and "splits" not in plan and choose.random() < 0.3:
        plan["swizzle"] = choose.choice([2, 3, 8])
    atomic = any(isinstance(op, ScatterOp | StoreOp) and op.atomic is not None for op in split.walk())
    if atomic and not waits and choose.random() < 0.6:
        plan = {name: value for name, value in plan.items() if name not in ("splits", "launches", "swizzle")}
        plan["private_copies"] = choose.choice([1, 2, 5])
    return Plan(**plan)


def _is_alone(phase: PhaseOp) -> bool:
    """Whether no loop or conditional holds a phase."""
    return isinstance(phase.parent_op(), KernelOp)


def _random_sizes(axes: list[str], choose: random.Random, among: Sequence[int]) -> dict[str, int]:
    """Sizes of tiles and chunks, few elements together: they are all unrolled."""
    room, sizes = MOST_IN_REGISTERS, {}
    for axis in choose.sample(axes, len(axes)):
        sizes[axis] = choose.choice([n for n in among if n <= room])
        room //= sizes[axis]
    return sizes


def random_facts(kernel: Kernel, choose: random.Random) -> Facts:
    """Facts that are true of the kernel's arguments: all, some or none of its sizes; strides."""
    share = choose.choice([0.0, 0.5, 1.0, 1.0])
    sizes = {name: size for name, size in kernel.sizes.items() if choose.random() < share}
    multiples = {
        name: number
        for name, size in kernel.sizes.items()
        if size and name not in sizes and size % (number := choose.choice([1, 2, 4, 8])) == 0
    }
    strides = {
        name: tuple(s // value.itemsize if choose.random() < 0.8 else UNKNOWN for s in value.strides)
        for name, value in kernel.arguments.items()
        if hasattr(value, "strides") and hasattr(value, "itemsize") and value.ndim and choose.random() < 0.7
    }
    return Facts(sizes, multiples, strides, distinct=choose.random() < 0.8)
