"""Entries and documents of entries as JSON. Input may come from strangers: every field has a type and bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, asdict, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from vkernels.ir.errors import FileError
from vkernels.ir.limits import Limits
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes
from vkernels.ir.plan import PLAN_TYPES, RANGES, Plan
from vkernels.ir.plan_json import plan_from_json, plan_to_json

from .entry import CACHES, FAILURES, MEASURED, MODELLED, Entry, Key, Provenance, limits_hash, shape_class

SCHEMA_VERSION = 1
DOCUMENT_KIND = "vkernels tuning entries"
MAX_NAME, MAX_FAILURE_TEXT, MAX_ENTRY_TEXT = 400, 4000, 1 << 20
"""Characters of a name, of the text of a failure, and of one entry."""
MAX_NUMBER = 1 << 62
MAX_NAMES, MAX_ENTRIES = 1000, 1_000_000
"""Names in a mapping, and entries in a document."""

UNSTORED = ("core",)
"""Limits that are not stored: nothing is decided by them but a new plan."""

Whole = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Count = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Number = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
Text = Annotated[str, Meta(max_length=MAX_NAME)]
LongText = Annotated[str, Meta(max_length=10 * MAX_NAME)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
Constant = (
    bool
    | Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    | Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    | Text
    | None
)


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """An entry as a JSON object, every field by name, but for a core's costs."""
    found = asdict(entry)
    limits = {name: value for name, value in found["limits"].items() if name not in UNSTORED}
    limits["dot_units"] = [*entry.limits.dot_units]
    return {**found, "limits": limits, "plan": plan_to_json(entry.plan)}


def entry_to_text(entry: Entry) -> str:
    """An entry as one line of JSON."""
    return json.dumps(entry_to_json(entry), sort_keys=True, allow_nan=False)


def entry_from_text(text: str, where: str = "the entry") -> Entry:
    """Parse an entry. Raises `FileError` for an invalid one."""
    if len(text) > MAX_ENTRY_TEXT:
        raise FileError(f"{where}: has more than {MAX_ENTRY_TEXT} characters")
    return entry_from_json(parse(text, where), where)


def parse(text: str, where: str) -> object:
    """Parse strict JSON: no NaN, no duplicate keys. Raises `FileError`, also for deep nesting."""
    try:
        found: object = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
        return found
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FileError(f"{where}: no JSON: {reason}") from None


def entry_from_json(data: object, where: str = "the entry") -> Entry:
    """Inverse of `entry_to_json`. Raises `FileError` with the name of an invalid field."""
    if isinstance(data, dict):
        _refuse_controls(data, where)
    record = _convert(data, entry_record(), where)
    read = {
        "key": _as(Key, record.key),
        "limits": _limits(record.limits, f"{where}: limits"),
        "plan": plan_from_json(record.plan, f"{where}: plan"),
        "provenance": _as(Provenance, record.provenance),
    }
    entry = Entry(**{**_given(Entry, record), **read})
    _check(entry, where)
    return entry


def harmless(text: str) -> str:
    """Replace characters that could control a terminal."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text)


def document_schema() -> dict[str, Any]:
    """The JSON Schema of a document of entries, generated from the records that are read."""
    extra = [limits_record(NvidiaSizes), limits_record(AmdSizes), plan_record()]
    (document, *_), parts = msgspec.json.schema_components([document_record(), *extra], ref_template="#/$defs/{name}")
    about = (
        "What `vk db export` writes and `vk db import` reads. Besides, hashes must match what they are hashes of; "
        "without a failure 0 < low <= seconds <= high, with one there are no times."
    )
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Tuning entries", "description": about}
    return {**head, **document, "$defs": parts}


# Records that msgspec reads, generated from dataclasses


@cache
def document_record() -> type[Struct]:
    entries: Any = list[entry_record()]  # type: ignore[misc]
    given: list[tuple[str, Any]] = [
        ("schema_version", Literal[SCHEMA_VERSION]),
        ("kind", Literal[DOCUMENT_KIND]),
        ("entries", Annotated[entries, Meta(max_length=MAX_ENTRIES)]),
    ]
    return msgspec.defstruct("Document", given, forbid_unknown_fields=True)


@cache
def entry_record() -> type[Any]:
    key = _record(Key, "Key", kernel_hash=Sha256, limits_hash=Sha256, shape_class=LongText, dtypes=LongText,
                  compilers=Name)  # fmt: skip
    limits = [{"$ref": f"#/$defs/{name}"} for name in ("NvidiaLimits", "AmdLimits")]
    return _record(
        Entry, "Entry", key=key, kernel=Name, provenance=_record(Provenance, "Provenance"),
        constants=Annotated[dict[Name, Constant], Meta(max_length=MAX_NAMES)],
        limits=Annotated[dict[str, Any], Meta(extra_json_schema={"anyOf": limits})],
        plan=Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/$defs/Plan"})],
        origin=Literal[MEASURED, MODELLED], caches=Literal[CACHES], failure=Literal[FAILURES] | None,
        text=Annotated[str, Meta(max_length=MAX_FAILURE_TEXT)],
        **dict.fromkeys(("seconds", "low", "high"), Annotated[float, Meta(gt=0, le=MAX_NUMBER)] | None),
        first_hash=Annotated[str, Meta(pattern="^([0-9a-f]{64})?$", max_length=64)],
        names=Annotated[dict[Name, Name], Meta(max_length=MAX_NAMES)],
    )  # fmt: skip


@cache
def limits_record(sizes: type[Any]) -> type[Any]:
    """Limits with the sizes of one vendor's multiprocessors, or without any."""
    vendor = sizes.__name__.removesuffix("Sizes")
    record = _record(sizes, sizes.__name__)
    return _record(Limits, f"{vendor}Limits", sizes=record | None, multiprocessors=Count, warp=Count)


@cache
def plan_record() -> type[Any]:
    """Only for the schema: `plan_from_json` reads plans."""
    counts = [name for name, kind in PLAN_TYPES.items() if kind == Mapping[str, int]]
    special: dict[str, Any] = dict.fromkeys(counts, Annotated[dict[Name, Count], Meta(max_length=MAX_NAMES)])
    special |= {name: Annotated[int, Meta(ge=least, le=most)] for name, (least, most) in RANGES.items()}
    powers = Literal[tuple(1 << bits for bits in range(RANGES["warps"][1].bit_length()))]  # type: ignore[valid-type]
    return _record(Plan, "Plan", **{**special, "warps": powers})


def _record(kind: type[Any], name: str, **special: Any) -> type[Any]:
    """A struct with the bounded fields of a dataclass, or of the `special` types; those with defaults are optional."""
    hints = get_type_hints(kind)

    def declared(field: Field[Any]) -> tuple[str, Any] | tuple[str, Any, Any]:
        wire = special[field.name] if field.name in special else _bounded(hints[field.name])
        required = field.default is MISSING and field.default_factory is MISSING
        return (field.name, wire) if required else (field.name, wire | UnsetType, UNSET)

    in_order = sorted((declared(field) for field in fields(kind) if field.name not in UNSTORED), key=len)
    return msgspec.defstruct(name, in_order, forbid_unknown_fields=True, kw_only=True)


def _bounded(hint: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (some,) = (part for part in parts if part is not NoneType)
        return _bounded(some) | None
    if origin is tuple:
        return Annotated[list[Name], Meta(max_length=MAX_NAMES, extra_json_schema={"uniqueItems": True})]
    if origin is not None:
        return Annotated[dict[Name, _bounded(parts[1])], Meta(max_length=MAX_NAMES)]  # type: ignore[misc]
    return {int: Whole, float: Number, str: Text}.get(hint, hint)


def _convert(data: object, kind: type[Any], where: str) -> Any:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        parts = [where, *path.rstrip("`").split("."), message] if path else [where, message]
        raise FileError(harmless(": ".join(part[:100] for part in parts))) from None


def _given(kind: type[Any], record: Any) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name, UNSET) for field in fields(kind)}
    return {name: value for name, value in values.items() if value is not UNSET}


def _as(kind: type[Any], record: Any) -> Any:
    return kind(**_given(kind, record))


def _limits(data: Mapping[str, Any], where: str) -> Limits:
    given = data.get("sizes")
    kind = AmdSizes if isinstance(given, dict) and "unified" in given else NvidiaSizes
    values = _given(Limits, _convert(data, limits_record(kind), where))
    if values.get("sizes") is not None:
        values["sizes"] = _as(kind, values["sizes"])
    values["dot_units"] = tuple(values.get("dot_units", ()))
    return Limits(**values)


def _refuse_controls(data: object, where: str) -> None:
    if isinstance(data, str) and not data.isprintable() and harmless(data) != data:
        raise FileError(f"{where}: expected printable text, got {harmless(data)[:60]!r}")
    if isinstance(data, list):
        for each in data:
            _refuse_controls(each, where)
    if isinstance(data, dict):
        for name, value in data.items():
            _refuse_controls(name, where)
            _refuse_controls(value, f"{where}: {name[:60]}")


def _check(entry: Entry, where: str) -> None:
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


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


SCHEMA_FILE = Path(__file__).parent / "schema.json"
MAX_FILE_BYTES = 1 << 28


def document_of(entries: Iterable[Entry]) -> dict[str, Any]:
    """Entries as one JSON object."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": DOCUMENT_KIND,
        "entries": [entry_to_json(entry) for entry in entries],
    }


def entries_of(document: object, where: str = "the document") -> tuple[Entry, ...]:
    """Inverse of `document_of`. Raises `FileError` for the first invalid entry."""
    if not isinstance(document, dict) or document.get("kind") != DOCUMENT_KIND:
        raise FileError(f"{where}: holds no tuning entries: expected an object whose kind is {DOCUMENT_KIND!r}")
    version = document.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise FileError(f"{where}: schema_version: this vkernels reads {SCHEMA_VERSION}, not {str(version)[:20]}")
    if document.keys() != {"schema_version", "kind", "entries"} or not isinstance(document["entries"], list):
        raise FileError(f"{where}: expected schema_version, kind and a list of entries")
    if len(document["entries"]) > MAX_ENTRIES:
        raise FileError(f"{where}: holds more than {MAX_ENTRIES} entries")
    return tuple(entry_from_json(each, f"{where}: entry {n}") for n, each in enumerate(document["entries"]))


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Read the entries in a file. Raises `FileError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise FileError(f"{path}: holds more than {MAX_FILE_BYTES >> 20} MiB")
        text = data.decode()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{path}: is no text in UTF-8") from None
    return entries_of(parse(text, str(path)), str(path))
