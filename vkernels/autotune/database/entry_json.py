"""Entries as JSON and back. What is read may be a stranger's: every field has its kind, its least and its most."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from math import isfinite
from typing import Any, NoReturn, TypeVar

from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.plan_json import plan_from_json, plan_to_json
from vkernels.ir.planning.occupancy import AmdSizes, NvidiaSizes

from .entry import FAILURES, MEASURED, MODELLED, Entry, Provenance
from .key import Key, limits_hash, shape_class

LONGEST = 400
"""Characters of a name."""
LONGEST_TEXT = 4000
"""Characters of what a failure says."""
LARGEST = 1 << 62
MOST = 1000
"""Entries of a mapping."""
MOST_CHARACTERS = 1 << 20
"""Of one entry as text."""

Reader = Callable[[object, str], Any]
Of = TypeVar("Of")


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """An entry as what JSON can hold, every field by name."""
    return {**asdict(entry), "plan": plan_to_json(entry.plan)}


def entry_to_text(entry: Entry) -> str:
    """As one line."""
    return json.dumps(entry_to_json(entry), sort_keys=True, allow_nan=False)


def entry_from_text(text: str, where: str = "the entry") -> Entry:
    """The entry in a text. Raises `FileError` that says what is wrong with it."""
    if len(text) > MOST_CHARACTERS:
        raise FileError(f"{where}: has more than {MOST_CHARACTERS} characters")
    return entry_from_json(parse(text, where), where)


def parse(text: str, where: str) -> object:
    """JSON as it is defined: no NaN, no endless nesting, no key twice. Raises `FileError`."""
    try:
        found: object = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
        return found
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FileError(f"{where}: no JSON: {reason}") from None


def entry_from_json(data: object, where: str = "the entry") -> Entry:
    """The entry that `entry_to_json` took apart. Raises `FileError` that names the field that is wrong."""
    entry = _record(Entry, _ENTRY)(data, where)
    if not isinstance(entry, Entry):  # never
        raise TypeError(entry)
    _check(entry, where)
    return entry


def harmless(text: str) -> str:
    """A text without what a terminal would do more with than show it."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text)


def _check(entry: Entry, where: str) -> None:
    """That what an entry says twice agrees."""
    if entry.key.limits_hash != limits_hash(entry.limits):
        raise FileError(f"{where}: key: limits_hash: is not that of the limits")
    classes = shape_class(entry.shape)
    if entry.key.shape_class != classes and not entry.key.shape_class.startswith(f"{classes} "):
        raise FileError(f"{where}: key: shape_class: is not that of the shape, {classes}")
    if entry.first_hash and not entry.constants:
        raise FileError(f"{where}: first_hash: is there only where there are constants")
    times = (entry.low, entry.seconds, entry.high)
    if entry.failure is not None:
        if times != (None, None, None) or entry.final:
            raise FileError(f"{where}: failure: what failed has no time and is no choice")
        return
    if entry.seconds is None or entry.low is None or entry.high is None:
        raise FileError(f"{where}: seconds: without a failure there are low, seconds and high")
    if not 0 < entry.low <= entry.seconds <= entry.high:
        raise FileError(f"{where}: seconds: expected 0 < low ≤ seconds ≤ high")
    if entry.final and entry.origin != MEASURED:
        raise FileError(f"{where}: final: only what was measured is")


# Readers: of a value, and what messages call it


def _text(most: int = LONGEST, empty: bool = True) -> Reader:
    def read(value: object, where: str) -> str:
        if type(value) is not str or len(value) > most or not (value or empty) or harmless(value) != value:
            _refuse(where, f"a text of at most {most} characters", value)
        return value

    return read


def _matching(pattern: str, what: str) -> Reader:
    def read(value: object, where: str) -> str:
        if type(value) is not str or re.fullmatch(pattern, value) is None:
            _refuse(where, what, value)
        return value

    return read


def _one_of(*some: str) -> Reader:
    def read(value: object, where: str) -> str:
        if type(value) is not str or value not in some:
            _refuse(where, " or ".join(some), value)
        return value

    return read


def _whole(value: object, where: str) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        _refuse(where, "a whole number from 0", value)
    return value


def _number(value: object, where: str) -> float:
    if type(value) not in (int, float) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        _refuse(where, "a number from 0", value)
    if not isfinite(value):
        _refuse(where, "a number from 0", value)
    return float(value)


def _boolean(value: object, where: str) -> bool:
    if type(value) is not bool:
        _refuse(where, "true or false", value)
    return value


def _constant(value: object, where: str) -> bool | int | float | str | None:
    if value is None or type(value) is bool:
        return value
    if isinstance(value, int | float) and -LARGEST <= value <= LARGEST:
        return value
    return str(_text()(value, where))


def _or_none(reader: Reader) -> Reader:
    return lambda value, where: None if value is None else reader(value, where)


def _mapping(reader: Reader, most: int = MOST) -> Reader:
    name = _text(empty=False)

    def read(value: object, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            _refuse(where, "an object", value)
        if len(value) > most:
            _refuse(where, f"at most {most} names", len(value))
        return {name(each, where): reader(of, f"{where}: {_shown(each)}") for each, of in value.items()}

    return read


def _record(kind: type[Of], readers: Mapping[str, Reader]) -> Callable[[object, str], Of]:
    """Of a dataclass: every field that has no default, and no other names."""

    def read(value: object, where: str) -> Of:
        if not isinstance(value, dict):
            _refuse(where, "an object of fields", value)
        for name in value:
            if name not in readers:
                raise FileError(f"{where}: there is no field {_shown(name)}")
        needed = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]  # type: ignore[arg-type]
        for name in needed:
            if name not in value:
                raise FileError(f"{where}: has no {name}")
        return kind(**{name: readers[name](of, f"{where}: {name}") for name, of in value.items()})

    return read


def _limits(value: object, where: str) -> Limits:
    limits = _record(Limits, _LIMITS)(value, where)
    if limits.warp < 1 or limits.multiprocessors < 1:
        raise FileError(f"{where}: warp and multiprocessors are 1 or more")
    return limits


def _sizes(value: object, where: str) -> NvidiaSizes | AmdSizes | None:
    if value is None:
        return None
    if isinstance(value, dict) and "unified" in value:
        return _record(AmdSizes, {**_whole_numbers(AmdSizes), "unified": _boolean})(value, where)
    return _record(NvidiaSizes, _whole_numbers(NvidiaSizes))(value, where)


def _whole_numbers(kind: type[Any]) -> dict[str, Reader]:
    return {each.name: _whole for each in fields(kind)}


_SHA256 = _matching("[0-9a-f]{64}", "a SHA-256 in hexadecimal")
_KEY: Mapping[str, Reader] = {
    "kernel_hash": _SHA256,
    "shape_class": _text(10 * LONGEST),
    "dtypes": _text(10 * LONGEST),
    "limits_hash": _SHA256,
    "compilers": _text(empty=False),
}
_RATES = ("clock", "memory_bandwidth", "cache_bandwidth", "shared_bandwidth", "launch_seconds")
_LIMITS: Mapping[str, Reader] = {
    **_whole_numbers(Limits),
    **dict.fromkeys(_RATES, _number),
    **dict.fromkeys(("copies_ahead", "dots_from_shared"), _boolean),
    **dict.fromkeys(("multiply_adds", "tensor_multiply_adds"), _mapping(_number)),
    "sizes": _sizes,
}
_PROVENANCE: Mapping[str, Reader] = {
    **{each.name: _text() for each in fields(Provenance)},
    "clocks": _mapping(_number),
    "versions": _mapping(_text()),
    "trial": _whole,
    "seconds": _number,
    "when": _number,
}
_ENTRY: Mapping[str, Reader] = {
    "key": _record(Key, _KEY),
    "kernel": _text(empty=False),
    "shape": _mapping(_whole),
    "limits": _limits,
    "plan": plan_from_json,
    "provenance": _record(Provenance, _PROVENANCE),
    "constants": _mapping(_constant),
    "seconds": _or_none(_number),
    "low": _or_none(_number),
    "high": _or_none(_number),
    "repeats": _whole,
    "origin": _one_of(MEASURED, MODELLED),
    "failure": _or_none(_one_of(*FAILURES)),
    "text": _text(LONGEST_TEXT),
    "final": _boolean,
    "default": _boolean,
    "first_hash": _matching("([0-9a-f]{64})?", "a SHA-256 in hexadecimal, or nothing"),
}


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _refuse(where: str, expected: str, value: object) -> NoReturn:
    raise FileError(f"{where}: expected {expected}, got {_shown(value)}")


def _shown(value: object) -> str:
    """A value as it may be printed: short, and without a terminal's control characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a huge number"
    text = repr(value) if not (isinstance(value, str) and value.isidentifier()) else value
    return text if len(text) <= 60 else f"{text[:60]}…"
