"""What an author has decided of a plan; the rest is still chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NoReturn, get_args, get_origin

from .errors import OptionError
from .plan import PLAN_TYPES, RANGES, Home, Plan
from .warp_roles import why_no_roles


@dataclass(frozen=True)
class Pin:
    """Parts of a plan, each as `Plan` has it; what is left out is chosen.

    Of `tiles`, `chunks`, `splits` and `homes` only the given entries are pinned. Other fields are pinned as a whole:
    `packs=()` packs no tensor. Homes may be texts: `homes={"row": "shared"}`. Raises `OptionError` for what no plan can
    have.
    """

    tiles: Mapping[str, int] = field(default_factory=dict)
    chunks: Mapping[str, int] = field(default_factory=dict)
    homes: Mapping[str, Home | str] = field(default_factory=dict)
    copies: Sequence[str] | None = None
    splits: Mapping[str, int] = field(default_factory=dict)
    launches: Sequence[str] | None = None
    online: Sequence[str] | None = None
    packs: Sequence[str] | None = None
    streams: Sequence[str] | None = None
    lanes: str | None = None
    order: Sequence[str] | None = None
    warps: int | None = None
    stages: int | None = None
    resident_programs: int | None = None
    swizzle: int | None = None
    private_copies: int | None = None
    guards: Sequence[str] | None = None
    descriptors: Sequence[str] | None = None
    k_major: Sequence[str] | None = None
    warp_specialized: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, kind in PLAN_TYPES.items():
            value, origin = getattr(self, name), get_origin(kind)
            if origin is Mapping:
                read = _home if get_args(kind)[1] is Home else _count
                self._keep(name, {key: read(name, key, entry) for key, entry in self._mapping(name).items()})
            elif value is not None:
                if origin is tuple:
                    self._keep(name, _names(name, value))
                elif kind is int and (type(value) is not int or value < RANGES[name][0]):
                    _refuse(name, f"a whole number of at least {RANGES[name][0]}", value)
                elif kind is not int and not isinstance(value, str):
                    _refuse(name, "the name of an axis", value)
        if self.warps is not None and self.warps & (self.warps - 1):
            _refuse("warps", "a power of two", self.warps)

    def size_of(self, axis: str) -> int | None:
        """The elements of a program, or of a chunk, that are pinned for an axis."""
        return self.tiles.get(axis, self.chunks.get(axis))

    def _mapping(self, name: str) -> Mapping[str, object]:
        found = getattr(self, name)
        if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
            _refuse(name, "a mapping by name", found)
        return found

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def with_pin(plan: Plan, pin: Pin) -> Plan:
    """A plan with what is pinned in place of its own. Plain plans that leave warps no room for roles have none."""
    changed: dict[str, object] = {}
    for each in fields(plan):
        pinned, own = getattr(pin, each.name, None), getattr(plan, each.name)
        if isinstance(pinned, Mapping):
            changed[each.name] = {**own, **pinned}
        elif pinned is not None:
            changed[each.name] = pinned
    found = replace(plan, **changed)  # type: ignore[arg-type]
    if pin.warp_specialized and why_no_roles(found):
        return replace(found, warp_specialized=())
    return found


def _count(option: str, name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        _refuse(f"{option}[{name!r}]", "a whole number of at least 1", value)
    return value


def _home(option: str, name: str, value: object) -> Home:
    found = next((home for home in Home if isinstance(value, str) and value == home), None)
    if found is None:
        _refuse(f"{option}[{name!r}]", " or ".join(Home), value)
    return found


def _names(option: str, value: object) -> tuple[str, ...]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    names = tuple(value) if isinstance(value, Sequence) else ()
    if not is_list or not all(isinstance(name, str) for name in names):
        _refuse(option, "names in a tuple", value)
    if len(set(names)) < len(names):
        _refuse(option, "each name once", value)
    return names


def _refuse(option: str, expected: str, value: object) -> NoReturn:
    raise OptionError(f"vk.Pin: {option}: expected {expected}, got {value!r}")


NO_PIN = Pin()
"""A pin of nothing."""
