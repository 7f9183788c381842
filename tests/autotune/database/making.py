"""Entries for tests: of plans that differ by a number, under limits of no device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vkernels.autotune.database.entry import Entry, Key, Provenance, compilers, limits_hash, shape_class
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home, Plan

LIMITS = Limits(registers=16, register_bytes=32, shared=1 << 19, multiprocessors=2, cache=1 << 23)
SHAPE = {"M": 64, "N": 1000}
DEVICE = Provenance(
    "a device", "cpu:cores=2", "x86_64", "1.0", {"core": 3000.0}, {"python": "3"}, "a test", "run", 3, 0.5, 1e9
)


def key(shape: Mapping[str, int] = SHAPE, limits: Limits = LIMITS, kernel: str = "a") -> Key:
    return Key(kernel * 64, shape_class(shape), "x=float32", limits_hash(limits), compilers(False))


def entry(
    number: int = 1,
    seconds: float | None = 1.0,
    shape: Mapping[str, int] = SHAPE,
    limits: Limits = LIMITS,
    kernel: str = "a",
    **more: Any,
) -> Entry:
    """The plan of a number; with a `failure` it has no time."""
    plan = Plan(tiles={"i": number}, chunks={"j": 64}, homes={"e": Home.SHARED}, lanes="j", order=("i",), warps=1)
    seconds = None if "failure" in more else seconds
    given = Entry(
        key(shape, limits, kernel), f"kernel_{kernel}", shape, limits, plan, DEVICE, seconds=seconds, low=seconds,
        high=seconds, repeats=7,
    )  # fmt: skip
    return replace(given, **more)


def elsewhere(given: Entry, **where: str) -> Entry:
    """The same, measured in another environment."""
    return replace(given, provenance=replace(given.provenance, **where))
