"""One device from the fields of a table, checked: the same for the project's table and for one's own."""

from __future__ import annotations

import math
import re
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from vkernels.ir.errors import FileError
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes

from .target import CpuSizes, PeakRates, Slice, Target

Record = TypeVar("Record")

MAX_NUMBER = 1 << 50
MAX_TEXT_CHARACTERS = 1000
MAY_BE_ZERO = {"barriers", "shared_reserved", "scalar_registers", "tensor_memory", "places"}
NOT_GIVEN = ("core",)
"""Fields that no table gives."""
NOTHING: Mapping[str, object] = types.MappingProxyType({})
FRACTION = re.compile(r"[1-9][0-9]?(/[1-9][0-9]?)?")
Plain = tuple[str, Callable[[Any], bool]]
WHOLE_OR_ZERO: Plain = "a whole number from 0 to 2**50", lambda value: type(value) is int and 0 <= value <= MAX_NUMBER
PLAIN: Mapping[Any, Plain] = {
    int: ("a whole number from 1 to 2**50", lambda value: type(value) is int and 0 < value <= MAX_NUMBER),
    float: ("a number above 0", lambda value: type(value) in (int, float) and 0 < value <= MAX_NUMBER),
    bool: ("true or false", lambda value: type(value) is bool),
    str: (
        f"a printable text of at most {MAX_TEXT_CHARACTERS} characters",
        lambda value: type(value) is str and 0 < len(value) <= MAX_TEXT_CHARACTERS and value.isprintable(),
    ),
    Fraction: (
        'a share such as "1/8"',
        lambda value: type(value) is str and bool(FRACTION.fullmatch(value)) and Fraction(value) <= 1,
    ),
}
"""What is expected of a value of each kind."""


@dataclass(frozen=True)
class RecordPlace:
    """Where in a file a value stands, for messages: `FILE: ENTRY: FIELD`."""

    file: str
    entry: str = ""
    field: str = ""

    def of(self, field: str) -> RecordPlace:
        return RecordPlace(self.file, self.entry, f"{self.field}.{field}" if self.field else field)

    def refuse(self, message: str) -> NoReturn:
        raise FileError(": ".join(filter(None, (self.file, self.entry, self.field, message))))


def read_record(kind: type[Record], value: object, place: RecordPlace, ready: Mapping[str, object] = NOTHING) -> Record:
    """A dataclass from a mapping of its fields; those with a default may be absent, those in `ready` are read already.

    Raises `FileError` that says which field is wrong, missing or unknown.
    """
    if not isinstance(value, dict):
        place.refuse(f"expected a table of fields, got {_shown(value)}")
    known = {field.name: field for field in fields(kind) if field.name not in NOT_GIVEN}  # type: ignore[arg-type]
    for name in value:
        if name not in known:
            place.refuse(f"there is no field {_shown(name)}; there are {', '.join(known)}")
    for name, field in known.items():
        is_required = field.default is MISSING and field.default_factory is MISSING
        if name not in value and name not in ready and is_required:
            place.refuse(f"the field `{name}` is missing")
    hints = typing.get_type_hints(kind)
    read = {name: _read(hints[name], item, place.of(name), name) for name, item in value.items() if name not in ready}
    return kind(**read, **ready)


def _read(kind: Any, value: Any, place: RecordPlace, name: str) -> object:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (kind,) = (part for part in parts if part is not type(None))
        return _read(kind, value, place, name)
    if origin is typing.Literal:
        return value if value in parts else place.refuse(f"expected {' or '.join(parts)}, got {_shown(value)}")
    if origin is tuple:
        return _read_tuple(parts, value, place, name)
    if kind not in PLAIN:
        return read_record(kind, value, place)
    expected, accepts = WHOLE_OR_ZERO if kind is int and name in MAY_BE_ZERO else PLAIN[kind]
    return kind(value) if accepts(value) else place.refuse(f"expected {expected}, got {_shown(value)}")


def _read_tuple(parts: tuple[Any, ...], value: object, place: RecordPlace, name: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        place.refuse(f"expected a list, got {_shown(value)}")
    many = parts[-1] is Ellipsis
    if not many and len(value) != len(parts):
        place.refuse(f"expected {len(parts)} items, got {len(value)}")
    kinds = [parts[0]] * len(value) if many else parts
    items = zip(kinds, value, strict=True)
    return tuple(_read(kind, item, place.of(str(index)), name) for index, (kind, item) in enumerate(items))


def read_names(value: object, place: RecordPlace) -> Mapping[str, tuple[str, ...]]:
    """A table of lists of texts."""
    if not isinstance(value, dict):
        place.refuse(f"expected a table, got {_shown(value)}")
    texts: dict[str, tuple[str, ...]] = {}
    for name, items in value.items():
        here = place.of(name if name.isprintable() else repr(name))
        texts[name] = tuple(map(str, _read_tuple((str, ...), items, here, name)))
    return texts


def _shown(value: object) -> str:
    """A value as it may be printed: short, and without a terminal's control characters."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a number of more than 200 bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
Sizes = NvidiaSizes | AmdSizes | CpuSizes
KINDS: dict[str, tuple[type[NvidiaSizes] | type[AmdSizes] | type[CpuSizes], str]] = {
    "nvidia": (NvidiaSizes, r"sm_[0-9]{2,3}"),
    "amd": (AmdSizes, r"gfx[0-9]{1,3}[0-9a-f]{2}"),
    "cpu": (CpuSizes, r"[A-Za-z][A-Za-z0-9_]{1,30}"),
}
WARPS = (32, 64)
ROUNDING = 0.01  # of slices' memory, which drivers print in GiB with two digits


def read_target(entry: dict[str, Any], place: RecordPlace) -> Target:
    """A `Target` from its fields; `FileError` names the field that is wrong, unknown, missing or contradictory."""
    vendor = entry.get("vendor")
    if vendor not in tuple(KINDS):
        place.of("vendor").refuse("expected nvidia, amd or cpu" if vendor is not None else "the field is missing")
    kind, architecture = KINDS[vendor]
    if "sizes" not in entry:
        place.refuse("the field `sizes` is missing")
    sizes = read_record(kind, entry["sizes"], place.of("sizes"))
    ready: dict[str, object] = {"sizes": sizes}
    if vendor == "cpu" and "rates" not in entry:
        ready["rates"] = None
    if "rates" in entry:
        ready["rates"] = read_record(PeakRates, entry["rates"], place.of("rates"))
    if "sources" in entry:
        ready["sources"] = read_names(entry["sources"], place.of("sources"))
    target = read_record(Target, entry, place, ready)
    if not re.fullmatch(architecture, target.architecture):
        place.of("architecture").refuse(f"expected `{architecture}`, got {target.architecture!r}")
    for field, message in _contradictions(target, sizes):
        place.of(field).refuse(message)
    return target


def _contradictions(target: Target, sizes: Sizes) -> Iterator[tuple[str, str]]:
    if not KEY.fullmatch(target.key):
        yield "key", "expected lower-case letters, digits, `.`, `_` and `-`"
    if target.level_2 > target.memory or target.cache > target.memory:
        yield "cache", f"caches are larger than the memory of {target.memory} bytes"
    for field, message in _wrong_sizes(sizes):
        yield f"sizes.{field}", message
    if not 1 <= target.chiplets <= target.multiprocessors:
        yield "chiplets", f"there are more than the {target.multiprocessors} multiprocessors"
    names = Counter(slice.name for slice in target.slices)
    for slice in target.slices:
        if names[slice.name] > 1:
            yield "slices", f"{slice.name} is there twice"
        yield from _wrong_slice(target, slice)
    known = {part.name for whole in (Target, type(sizes), PeakRates) for part in fields(whole)}
    for name in (*target.sources, *target.unverified):
        if name not in known:
            yield "sources" if name in target.sources else "unverified", f"there is no field {name!r}"


def _wrong_sizes(sizes: Sizes) -> Iterator[tuple[str, str]]:
    if isinstance(sizes, CpuSizes):
        for field in ("warp", "block_threads"):
            if getattr(sizes, field) != 1:
                yield field, f"expected 1 on a CPU, got {getattr(sizes, field)}"
        return
    if sizes.warp not in WARPS:
        yield "warp", f"expected {' or '.join(map(str, WARPS))}, got {sizes.warp}"
    warps = sizes.warps * (sizes.partitions if isinstance(sizes, AmdSizes) else 1)
    if sizes.block_threads > warps * sizes.warp:
        yield "block_threads", f"{sizes.block_threads} do not fit in {warps} warps of {sizes.warp}"
    reserved = 0 if isinstance(sizes, AmdSizes) else sizes.shared_reserved
    if sizes.block_shared + reserved > sizes.shared:
        yield "block_shared", f"{sizes.block_shared} bytes and {reserved} reserved are more than all {sizes.shared}"
    if isinstance(sizes, NvidiaSizes):
        yield from _wrong_nvidia_sizes(sizes)
    elif sizes.thread_registers > sizes.registers:
        yield "thread_registers", f"more than the {sizes.registers} registers that a SIMD has for a thread"


def _wrong_nvidia_sizes(sizes: NvidiaSizes) -> Iterator[tuple[str, str]]:
    a_partition, a_warp = sizes.registers // sizes.partitions, sizes.thread_registers * sizes.warp
    dealt = f"expected a multiple of {sizes.partitions} partitions × {sizes.register_unit}"
    yield from _failing(
        ("registers", sizes.registers % (sizes.partitions * sizes.register_unit) == 0, dealt),
        ("thread_registers", a_warp <= a_partition, "a warp of such threads has more registers than a partition"),
        ("block_registers", sizes.block_registers <= sizes.registers, f"more than all {sizes.registers}"),
        ("block_shared_unasked", sizes.block_shared_unasked <= sizes.block_shared,
         f"more than `block_shared`, {sizes.block_shared}"),
    )  # fmt: skip


def _wrong_slice(target: Target, slice: Slice) -> Iterator[tuple[str, str]]:
    where, all_ = f"slices.{slice.name}", f"more than all {target.multiprocessors}"
    yield from _failing(
        (where, (slice.multiprocessors or 0) * slice.most <= target.multiprocessors,
         f"{slice.most} × {slice.multiprocessors} multiprocessors are {all_}"),
        (where, (slice.memory or 0) <= target.memory * (1 + ROUNDING),
         f"{slice.memory} bytes are more than the device's {target.memory}"),
        (where, (slice.memory_share or 0) * slice.most <= 1,
         f"{slice.most} × {slice.memory_share} of the memory are more than all of it"),
    )  # fmt: skip


def _failing(*checks: tuple[str, bool, str]) -> Iterator[tuple[str, str]]:
    return ((field, message) for field, holds, message in checks if not holds)
