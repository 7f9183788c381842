"""Which values take the registers of a kernel under a plan, at the worst point of its worst phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Operation

from ...dialect import KernelOp
from ...plan import Plan
from .algebra import evaluated, names_in
from .device import NeedsDevice
from .flow import read_flow
from .needs import Needs
from .registers import live_ranges
from .spaces import spaces_of


@dataclass(frozen=True)
class HeldValues:
    """Bytes a thread that values take where a phase holds the most, by the operation that computes them, the largest
    first."""

    phase: str
    bytes: Mapping[Operation, float]


def held_values(
    kernel: KernelOp, needs: Needs, plan: Plan, sizes: Mapping[str, int], device: NeedsDevice
) -> HeldValues | None:  # fmt: skip
    """The values that wait where most bytes do, of a kernel in phases with these needs; None if nothing waits.

    Raises `PlanError` as the needs do.
    """
    known = needs.symbols(plan, sizes, device)
    flow = read_flow(kernel)
    spaces = spaces_of(kernel, flow.sizes)
    worst: HeldValues | None = None
    for phase in flow.phases:
        spans = live_ranges(flow, spaces, phase)
        expressions = [span.bytes for span in spans]
        absent = dict.fromkeys(names_in(expressions), 0.0)  # of what no plan of this kernel holds
        values = evaluated({**absent, **known}, expressions)
        for point in sorted({span.first for span in spans}):
            alive: dict[Operation, float] = {}
            for span, value in zip(spans, values, strict=True):
                if span.first <= point <= span.last and value > 0:
                    alive[span.origin] = alive.get(span.origin, 0.0) + float(value)
            if worst is None or sum(alive.values()) > sum(worst.bytes.values()):
                worst = HeldValues(phase.phase.data, dict(sorted(alive.items(), key=lambda each: -each[1])))
    return worst if worst is not None and worst.bytes else None
