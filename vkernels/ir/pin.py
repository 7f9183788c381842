"""What an author has decided of a plan; the rest is still chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NoReturn

from .errors import OptionError
from .plan import Home, Plan


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

    def __post_init__(self) -> None:
        for name in ("tiles", "chunks", "splits"):
            self._keep(name, {key: _count(name, key, n) for key, n in self._mapping(name).items()})
        self._keep("homes", {key: _home(key, home) for key, home in self._mapping("homes").items()})
        for name in ("copies", "launches", "online", "packs", "streams", "order"):
            self._keep(name, _names(name, getattr(self, name)))
        if self.lanes is not None and not isinstance(self.lanes, str):
            _refuse("lanes", "the name of an axis", self.lanes)
        for name, least in (("warps", 1), ("stages", 1), ("resident_programs", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                _refuse(name, f"a whole number of at least {least}", value)
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
    """A plan with what is pinned in place of its own."""
    changed: dict[str, object] = {}
    for each in fields(plan):
        pinned, own = getattr(pin, each.name, None), getattr(plan, each.name)
        if isinstance(pinned, Mapping):
            changed[each.name] = {**own, **pinned}
        elif pinned is not None:
            changed[each.name] = pinned
    return replace(plan, **changed)  # type: ignore[arg-type]


def _count(option: str, name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        _refuse(f"{option}[{name!r}]", "a whole number of at least 1", value)
    return value


def _home(name: str, value: object) -> Home:
    found = next((home for home in Home if isinstance(value, str) and value == home), None)
    if found is None:
        _refuse(f"homes[{name!r}]", " or ".join(Home), value)
    return found


def _names(option: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
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
