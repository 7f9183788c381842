"""What an author has decided of a plan; the rest is still chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NoReturn, get_args, get_origin

from .errors import OptionError
from .known_fields import KnownFields
from .plan import PLAN_TYPES, RANGES, Home, Plan
from .warp_roles import why_no_roles


@dataclass(frozen=True)
class Pin(KnownFields):
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
    parallel: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, value in _read("vk.Pin", self).items():
            object.__setattr__(self, name, value)

    def size_of(self, axis: str) -> int | None:
        """The elements of a program, or of a chunk, that are pinned for an axis."""
        return self.tiles.get(axis, self.chunks.get(axis))


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


def checked_plan(plan: object) -> Plan:
    """An author's whole plan; its homes may be texts. Raises `OptionError` for what no plan can have."""
    if not isinstance(plan, Plan):
        raise OptionError(f"expected a vk.Plan, got {plan!r}")
    for name in PLAN_TYPES:
        if name != "lanes" and getattr(plan, name) is None:
            _refuse(f"vk.Plan: {name}", "a value, as this is a whole plan; vk.Pin leaves parts open", None)
    return Plan(**_read("vk.Plan", plan))  # type: ignore[arg-type]


def _read(owner: str, given: Pin | Plan) -> dict[str, object]:
    """What is given of each field of a plan, by name, as plans have it."""
    found: dict[str, object] = {}
    for name, kind in PLAN_TYPES.items():
        value, origin, where = getattr(given, name), get_origin(kind), f"{owner}: {name}"
        if origin is Mapping:
            read = _home if get_args(kind)[1] is Home else _count
            found[name] = {key: read(f"{where}[{key!r}]", entry) for key, entry in _mapping(where, value).items()}
        elif value is None:
            found[name] = None
        elif origin is tuple:
            found[name] = _names(where, value)
        elif kind is int:
            found[name] = _number(where, value, RANGES[name][0])
        elif isinstance(value, str):
            found[name] = value
        else:
            _refuse(where, "the name of an axis", value)
    warps = found["warps"]
    if isinstance(warps, int) and warps & (warps - 1):
        _refuse(f"{owner}: warps", "a power of two", warps)
    return found


def _mapping(where: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        _refuse(where, "a mapping by name", value)
    return value


def _count(where: str, value: object) -> int:
    return _number(where, value, 1)


def _number(where: str, value: object, least: int) -> int:
    if type(value) is not int or value < least:
        _refuse(where, f"a whole number of at least {least}", value)
    return value


def _home(where: str, value: object) -> Home:
    found = next((home for home in Home if isinstance(value, str) and value == home), None)
    if found is None:
        _refuse(where, " or ".join(Home), value)
    return found


def _names(where: str, value: object) -> tuple[str, ...]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    names = tuple(value) if isinstance(value, Sequence) else ()
    if not is_list or not all(isinstance(name, str) for name in names):
        _refuse(where, "names in a tuple", value)
    if len(set(names)) < len(names):
        _refuse(where, "each name once", value)
    return names


def _refuse(where: str, expected: str, value: object) -> NoReturn:
    raise OptionError(f"{where}: expected {expected}, got {value!r}")


NO_PIN = Pin()
"""A pin of nothing."""
