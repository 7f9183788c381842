"""A plan: every mapping decision for one kernel, shape class, dtype and slice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, get_type_hints

from .known_fields import KnownFields

MAX_COUNT = 1 << 62
MEANING = 1
"""Version of what plans mean. Raise it when the code of most plans becomes so different that measured times of earlier
versions mislead: tuning databases then leave out all earlier entries."""


class Home(StrEnum):
    """Where a value that outlives its phase is kept."""

    REGISTERS = "registers"
    SHARED = "shared"
    RECOMPUTE = "recompute"
    MEMORY = "memory"


@dataclass(frozen=True)
class Plan(KnownFields):
    """How one kernel runs within given limits. Sizes in elements.

    `tiles`: tile axis → elements a program. `chunks`: whole axis → elements a chunk; a chunk that is not smaller
    than the axis holds it at once. `homes`: label of a value that crosses phases → its home; recompute where
    nothing is said and it is possible, else memory; or label of a scratchpad → shared or memory; where nothing is
    said, shared if facts give its size. `copies`: labels of scratchpads kept in two copies, so that reading the old
    one and writing the new one is one phase. `splits`: whole axis → programs it is split over, with a combining
    step. `launches`: labels of phases after which a launch of its own begins; values that cross it are in memory.
    `online`: whole axes along which a maximum and the sums and dots of exp(x - maximum) are computed in one loop,
    which rescales them as the maximum grows. `packs`: names of tensor parameters copied, panel by panel, in the order
    they are read. `streams`: names of tensor parameters whose stores pass the caches, because what they write is
    not read again soon. `lanes`: the axis along a vector register. `order`: the tile axes from slowest to
    fastest program coordinate. `swizzle`: programs along the second-fastest tile axis that run before the fastest axis
    advances, so that they find what they share in a cache; 1: no such groups. `private_copies`: copies of each tensor
    that atomics update, among which programs are divided so that none meet; 1: programs that would meet run one after
    another, and need no copy; 0: atomics as they are written. `guards`: whole axes of which each
    chunk is tested, and left out where a mask lets nothing of it through. `descriptors`: names of tensor parameters
    whose tiles a GPU's copy unit moves, by descriptors of the tensors, wherever the call's layout allows it.
    `k_major`: names of tensor parameters copied first, in a launch of its own, so that the axis which dots contract is
    contiguous, in rows of whole chunks. `warp_specialized`: whole axes whose loop of a dot a GPU's warps divide by
    role, wherever descriptors move its operands: some warps move them, the others multiply. `parallel`: whole axes of
    which each chunk has programs of its own in those of several launches that are parallel along them.
    """

    tiles: Mapping[str, int] = field(default_factory=dict)
    chunks: Mapping[str, int] = field(default_factory=dict)
    homes: Mapping[str, Home] = field(default_factory=dict)
    copies: tuple[str, ...] = ()
    splits: Mapping[str, int] = field(default_factory=dict)
    launches: tuple[str, ...] = ()
    online: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    lanes: str | None = None
    order: tuple[str, ...] = ()
    warps: int = 4
    stages: int = 1
    resident_programs: int = 0
    swizzle: int = 1
    private_copies: int = 0
    guards: tuple[str, ...] = ()
    descriptors: tuple[str, ...] = ()
    k_major: tuple[str, ...] = ()
    warp_specialized: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()

    @property
    def split(self) -> str | None:
        """The axis that several programs share, if one is."""
        return next((axis for axis, programs in self.splits.items() if programs > 1), None)


PLAN_TYPES: Mapping[str, Any] = get_type_hints(Plan)
"""The types of a plan's fields, by name: mappings by name, tuples of names, numbers, or a name or None."""
RANGES: Mapping[str, tuple[int, int]] = {
    **{name: (1, MAX_COUNT) for name, kind in PLAN_TYPES.items() if kind is int},
    "warps": (1, 64),  # more threads of a program than any device lets it have
    "stages": (1, 64),
    "resident_programs": (0, MAX_COUNT),
    "private_copies": (0, MAX_COUNT),
}
"""The least and the greatest value of each field that is a number."""


@dataclass(frozen=True)
class StructuralChoices:
    """The decisions of a plan that are no sizes: plans that share them are one family.

    `held`: the whole axes that are held at once. `homes`: those that are not the default. `split`: the axis that
    programs share. The rest as `Plan` has it.
    """

    held: frozenset[str] = frozenset()
    homes: tuple[tuple[str, Home], ...] = ()
    copies: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    lanes: str | None = None
    split: str | None = None
    online: tuple[str, ...] = ()
    launches: tuple[str, ...] = ()
    swizzle: int = 1
    private_copies: int = 0
    guards: tuple[str, ...] = ()
    descriptors: tuple[str, ...] = ()
    k_major: tuple[str, ...] = ()
    warp_specialized: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()


AS_IN_PLANS = tuple(each.name for each in fields(StructuralChoices) if each.name in PLAN_TYPES and each.name != "homes")
"""The structural choices that a plan has under the same name, of the same type."""
