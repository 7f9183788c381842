"""Plans as JSON and back, and as rows of a table."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from .did_you_mean import did_you_mean
from .errors import FileError
from .plan import MAX_COUNT, PLAN_TYPES, RANGES, Plan

if TYPE_CHECKING:
    from .pin import Pin

MAX_NAME_LENGTH = 200
ALWAYS_WRITTEN = (
    "tiles", "chunks", "homes", "copies", "splits", "launches", "online", "packs", "streams", "lanes", "order", "warps",
    "stages", "resident_programs",
)  # fmt: skip
"""Other fields are written only where they are not the default: databases know plans from before by their JSON."""
MAX_ENTRIES = 1000


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """A plan as what JSON can hold: fields by name, mappings as objects, the rest of many as lists."""
    plain = msgspec.json.decode(msgspec.json.encode(plan, enc_hook=dict))
    default = Plan()
    return {n: plain[n] for n in sorted(plain) if n in ALWAYS_WRITTEN or getattr(plan, n) != getattr(default, n)}


def frozen(value: Any) -> bytes:
    """A hashable key of plans and facts: the same for the same values, in whatever order their mappings are."""
    return msgspec.json.encode(value, enc_hook=dict, order="deterministic")


def plan_from_json(data: object, where: str = "the plan") -> Plan:
    """The plan that `plan_to_json` took apart; fields that are not there have their defaults.

    `where`: what messages call it, a file's name. Raises `FileError` that names the field which is unknown, of a
    wrong kind, or a count that no plan has. Whether the plan fits a kernel is `apply_plan`'s to say.
    """
    if not isinstance(data, dict):
        raise FileError(f"{where}: expected an object of fields, got {_shown(data)}")
    for name in data:
        if name not in PLAN_TYPES:
            raise FileError(f"{where}: there is no field {_shown(name)}; {did_you_mean(str(name), [*PLAN_TYPES])}")
    plan = Plan(**{name: _read(PLAN_TYPES[name], value, f"{where}: {name}") for name, value in data.items()})
    _check_counts(plan, where)
    return plan


@dataclass(frozen=True)
class PlanRow:
    """One decision: of which kind (`tiles`, `homes`, `warps`), about what (an axis, a value; empty where it is about
    all of the kernel), and whether the author pinned it."""

    field: str
    about: str
    value: str
    pinned: bool = False


def plan_table(plan: Plan, pin: Pin | None = None) -> list[PlanRow]:
    """A plan as rows to print: a row for each entry of a mapping, one for each other field that says anything."""
    rows = []
    for each in fields(Plan):
        value = getattr(plan, each.name)
        pinned = None if pin is None else getattr(pin, each.name, None)
        if isinstance(value, Mapping):
            held = pinned or {}
            rows += [PlanRow(each.name, name, str(entry), name in held) for name, entry in value.items()]
        elif isinstance(value, tuple) and value:
            rows.append(PlanRow(each.name, "", ", ".join(map(str, value)), pinned is not None))
        elif value is not None and not isinstance(value, tuple):
            rows.append(PlanRow(each.name, "", str(value), pinned is not None))
    return rows


def _read(kind: Any, value: object, where: str) -> Any:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (some,) = (part for part in parts if part is not type(None))
        return None if value is None else _read(some, value, where)
    if origin is tuple:
        items = _few(value if isinstance(value, list) else _refuse(where, "a list", value), where)
        return tuple(_read(parts[0], item, f"{where}.{n}") for n, item in enumerate(items))
    if origin is not None and issubclass(origin, Mapping):
        table = value if isinstance(value, dict) else _refuse(where, "an object", value)
        return {
            _name(name, where): _read(parts[1], e, f"{where}.{_shown(name)}") for name, e in _few(table.items(), where)
        }
    if issubclass(kind, StrEnum):
        found = next((home for home in kind if type(value) is str and value == home), None)
        return found or _refuse(where, " or ".join(kind), value)
    if kind is int:
        return (
            value if type(value) is int and 0 <= value <= MAX_COUNT else _refuse(where, "a whole number from 0", value)
        )
    if kind is bool:
        return value if type(value) is bool else _refuse(where, "true or false", value)
    return _name(value, where)


def _check_counts(plan: Plan, where: str) -> None:
    """Raise `FileError` for counts that no plan has for any kernel or device."""
    for name in PLAN_TYPES:
        value = getattr(plan, name)
        if isinstance(value, Mapping):
            for key, count in value.items():
                if isinstance(count, int) and count < 1:
                    _refuse(f"{where}: {name}.{key}", "a whole number from 1", count)
        elif isinstance(value, tuple) and len(set(value)) < len(value):
            _refuse(f"{where}: {name}", "each name once", ", ".join(value))
        elif isinstance(value, int):
            least, most = RANGES[name]
            if not least <= value <= most:
                _refuse(f"{where}: {name}", f"a whole number from {least} to {most}", value)
    if plan.warps & (plan.warps - 1):
        _refuse(f"{where}: warps", "a power of two", plan.warps)


def _name(value: object, where: str) -> str:
    if type(value) is str and 0 < len(value) <= MAX_NAME_LENGTH and value.isprintable():
        return value
    return _refuse(where, "a name", value)


def _few(entries: Any, where: str) -> Any:
    return entries if len(entries) <= MAX_ENTRIES else _refuse(where, f"at most {MAX_ENTRIES} entries", len(entries))


def _refuse(where: str, expected: str, value: object) -> NoReturn:
    raise FileError(f"{where}: expected {expected}, got {_shown(value)}")


def _shown(value: object) -> str:
    """A value as it may be printed: short, and without a terminal's control characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > MAX_NAME_LENGTH:
        return "a huge number"
    text = repr(value) if not (isinstance(value, str) and value.isidentifier()) else value
    return text if len(text) <= 60 else f"{text[:60]}…"
