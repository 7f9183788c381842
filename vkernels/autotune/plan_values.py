"""A plan as values by name, one for each thing that a plan decides, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkernels.ir.plan import Home, Plan

from .space import Value

if TYPE_CHECKING:
    from vkernels.ir.planning.space import PlanSearchSpace

TILE, CHUNK, HOME, COPY, PACK, ONLINE, LAUNCH = "tile ", "chunk ", "home ", "copy ", "pack ", "online ", "launch after "
"""Names of parameters begin so, and go on with an axis, a value, a tensor or a phase."""
LANES, ORDER, STREAMS, SPLIT, SHARES, WARPS, STAGES, RESIDENT = (
    "lanes", "order", "streams", "split", "shares", "warps", "stages", "resident programs",
)  # fmt: skip
BETWEEN = ", "


@dataclass(frozen=True)
class Decisions:
    """What a kernel's plans decide about: its axes, and for each value and scratchpad the home that it has unasked."""

    tiles: tuple[str, ...]
    wholes: tuple[str, ...]
    homes: Mapping[str, Home]
    copies: tuple[str, ...]
    packs: tuple[str, ...]
    online: tuple[str, ...]
    cuts: tuple[str, ...]
    on_gpu: bool

    @staticmethod
    def of(space: PlanSearchSpace) -> Decisions:
        """Of the space that plans are chosen from."""
        homes = {value.label: value.homes[0] for value in space.needs.crossing}
        homes |= {scratchpad.label: Home.SHARED for scratchpad in space.needs.scratchpads}
        return Decisions(
            space.tiles, space.wholes, homes, tuple(each.label for each in space.needs.scratchpads if each.can_copy),
            tuple(sorted(space.needs.packable)), space.wholes, space.cuts, space.limits.warp > 1,
        )  # fmt: skip

    def values(self, plan: Plan) -> dict[str, Value]:
        """A plan's values. What a plan says of other axes, values and tensors than the kernel's is left out."""
        order = tuple(axis for axis in plan.order if axis in self.tiles)
        found: dict[str, Value] = {TILE + axis: plan.tiles.get(axis, 1) for axis in self.tiles}
        found |= {CHUNK + axis: plan.chunks.get(axis, 1) for axis in self.wholes}
        found[LANES] = plan.lanes
        found[ORDER] = BETWEEN.join(order if len(order) == len(self.tiles) else self.tiles)
        found |= {HOME + label: str(plan.homes.get(label, home)) for label, home in self.homes.items()}
        found |= _flags(COPY, self.copies, plan.copies)
        found |= _flags(PACK, self.packs, plan.packs)
        found |= _flags(ONLINE, self.online, plan.online)
        found |= _flags(LAUNCH, self.cuts, plan.launches)
        found[STREAMS] = BETWEEN.join(plan.streams)
        found[SPLIT] = plan.split
        found[SHARES] = 1 if plan.split is None else plan.splits[plan.split]
        found[WARPS], found[STAGES] = (plan.warps, plan.stages) if self.on_gpu else (1, 1)
        found[RESIDENT] = plan.resident_programs if self.on_gpu else 0
        return found

    def plan(self, values: Mapping[str, Value]) -> Plan:
        """The plan of all these values."""
        homes = {label: Home(str(values[HOME + label])) for label in self.homes}
        split, streams, order = values[SPLIT], str(values[STREAMS]), str(values[ORDER])
        lanes = values[LANES]
        return Plan(
            tiles={axis: _size(values[TILE + axis]) for axis in self.tiles},
            chunks={axis: _size(values[CHUNK + axis]) for axis in self.wholes},
            homes={label: home for label, home in homes.items() if home is not self.homes[label]},
            copies=_chosen(COPY, self.copies, values),
            splits={} if split is None else {str(split): _size(values[SHARES])},
            launches=_chosen(LAUNCH, self.cuts, values),
            online=_chosen(ONLINE, self.online, values),
            packs=_chosen(PACK, self.packs, values),
            streams=tuple(streams.split(BETWEEN)) if streams else (),
            lanes=None if lanes is None else str(lanes),
            order=tuple(order.split(BETWEEN)) if order else (),
            warps=_size(values[WARPS]),
            stages=_size(values[STAGES]),
            resident_programs=_size(values[RESIDENT]),
        )


def _flags(kind: str, names: Iterable[str], chosen: Iterable[str]) -> dict[str, Value]:
    among = frozenset(chosen)
    return {kind + name: name in among for name in names}


def _chosen(kind: str, names: Iterable[str], values: Mapping[str, Value]) -> tuple[str, ...]:
    return tuple(name for name in names if values[kind + name])


def _size(value: Value) -> int:
    return int(value) if isinstance(value, int) else 1
