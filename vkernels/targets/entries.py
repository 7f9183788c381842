"""One device from the fields of a table, checked: the same for the project's table and for one's own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from vkernels.ir.occupancy import AmdSizes, NvidiaSizes

from .records import RecordPlace, read_names, read_record
from .target import CpuSizes, PeakRates, Slice, Target

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
    """Fields that cannot be right, and why."""
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
    if sizes.registers % (sizes.partitions * sizes.register_unit):
        yield "registers", f"expected a multiple of {sizes.partitions} partitions × {sizes.register_unit}"
    if sizes.thread_registers * sizes.warp > sizes.registers // sizes.partitions:
        yield "thread_registers", "a warp of such threads has more registers than a partition"
    if sizes.block_registers > sizes.registers:
        yield "block_registers", f"more than all {sizes.registers}"
    if sizes.block_shared_unasked > sizes.block_shared:
        yield "block_shared_unasked", f"more than `block_shared`, {sizes.block_shared}"


def _wrong_slice(target: Target, slice: Slice) -> Iterator[tuple[str, str]]:
    where = f"slices.{slice.name}"
    if (slice.multiprocessors or 0) * slice.most > target.multiprocessors:
        yield (
            where,
            f"{slice.most} × {slice.multiprocessors} multiprocessors are more than all {target.multiprocessors}",
        )
    if (slice.memory or 0) > target.memory * (1 + ROUNDING):
        yield where, f"{slice.memory} bytes are more than the device's {target.memory}"
    if slice.memory_share is not None and slice.memory_share * slice.most > 1:
        yield where, f"{slice.most} × {slice.memory_share} of the memory are more than all of it"
