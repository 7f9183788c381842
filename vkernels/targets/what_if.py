"""Limits that a device does not have: `shared=+32K,l2=2x`, for questions about what would change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.ir.limits import Limits

from .slices import planned_limits
from .target import Target


@dataclass(frozen=True)
class Quantity:
    """A limit that can be changed. `field`: of `Limits`; `unit`: K is 1024 of bytes, and 1000 of anything else.

    `follows`: rates that change by the same factor.
    """

    field: str
    meaning: str
    unit: str = ""
    follows: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.unit in ("", "bytes")


_OF_UNITS = ("cache_bandwidth", "shared_bandwidth", "multiply_adds", "tensor_multiply_adds")
"""Rates of all multiprocessors together, which go with their number and their clock."""

QUANTITIES: Mapping[str, Quantity] = {
    "registers": Quantity("registers", "registers of a thread (CPU: vector registers)"),
    "shared": Quantity("shared", "shared memory of a program (CPU: a core's level 2)", "bytes"),
    "threads": Quantity("threads", "threads of a program"),
    "cache": Quantity("cache", "last cache", "bytes"),
    "memory": Quantity("memory", "device memory", "bytes"),
    "bandwidth": Quantity("memory_bandwidth", "bandwidth of memory", "bytes/s"),
    "cache_bandwidth": Quantity("cache_bandwidth", "bandwidth of the last cache", "bytes/s"),
    "shared_bandwidth": Quantity("shared_bandwidth", "bandwidth of shared memory", "bytes/s"),
    "multiprocessors": Quantity("multiprocessors", "multiprocessors (CPU: cores)", follows=_OF_UNITS),
    "clock": Quantity("clock", "clock", "Hz", _OF_UNITS),
}
"""What a question can change, by name."""

TARGET = "target"
NAMES = (*QUANTITIES, "l2", "l3", TARGET)

_VALUE = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGT]?)(?P<times>x?)", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True)
class WhatIf:
    """A question: its text, the limits that it supposes, and the quantities that differ, before and after."""

    text: str
    limits: Limits
    changed: Mapping[str, tuple[float, float]]


def read_what_if(text: str, target: Target, named: Callable[[str], Target]) -> WhatIf:
    """The limits that a text supposes: changes of `target` separated by commas, such as `shared=+32K,bandwidth=2x`.

    `named`: finds the target of `target=NAME`, to which the other changes apply. Raises `OptionError` for what cannot
    be read, and for changes that make no sense.
    """
    changes = _changes(text)
    other = _named(changes.pop(TARGET), text, named) if TARGET in changes else target
    if (other.vendor == "cpu") != (target.vendor == "cpu"):
        raise OptionError(
            f"--what-if {text}: plans for a CPU and for a GPU have nothing in common; explain with --target {other.key}"
        )
    before, limits = planned_limits(target), planned_limits(other)
    for name, value in changes.items():
        limits = _with(limits, _quantity(name, other, text), value, text)
    differing = {
        name: (float(getattr(before, each.field)), float(getattr(limits, each.field)))
        for name, each in QUANTITIES.items()
        if getattr(before, each.field) != getattr(limits, each.field)
    }
    return WhatIf(text, limits, differing)


def _changes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in map(str.strip, text.split(",")):
        name, is_given, value = part.partition("=")
        name = name.strip().lower()
        if not is_given or not value.strip():
            raise OptionError(
                f"--what-if {text}: give a name and a value, such as shared=64K, shared=+32K or shared=2x"
            )
        if name not in NAMES:
            raise OptionError(f"--what-if {text}: unknown limit {name!r}; {did_you_mean(name, NAMES)}")
        if name in found:
            raise OptionError(f"--what-if {text}: {name} is given twice; use --what-if again for another question")
        found[name] = value.strip()
    return found


def _named(name: str, text: str, named: Callable[[str], Target]) -> Target:
    try:
        return named(name)
    except OptionError as error:
        raise OptionError(f"--what-if {text}: {str(error).removeprefix('--target: ')}") from error


def _quantity(name: str, target: Target, text: str) -> Quantity:
    is_cpu = target.vendor == "cpu"
    if name == "l2" and not is_cpu and target.level_2 != target.cache:
        raise OptionError(f"--what-if {text}: the last cache of {target.key} is not its level 2; write cache=2x")
    if name == "l3" and not is_cpu:
        raise OptionError(f"--what-if {text}: {target.key} has no level 3 that plans depend on; write cache=2x")
    own = {"l2": "shared" if is_cpu else "cache", "l3": "cache"}
    return QUANTITIES[own.get(name, name)]


def _with(limits: Limits, quantity: Quantity, value: str, text: str) -> Limits:
    before = getattr(limits, quantity.field)
    after = _value(before, quantity, value, text)
    if after <= 0:
        sizes = f"{after:,.0f}, from {before:,.0f} {quantity.unit}".rstrip()
        raise OptionError(f"--what-if {text}: the {quantity.meaning} would be {sizes}")
    if quantity.field == "threads" and after % limits.warp:
        raise OptionError(f"--what-if {text}: threads come in warps of {limits.warp}")
    factor = after / before
    changes: dict[str, Any] = {quantity.field: int(after) if quantity.is_whole else after}
    changes |= {name: _scaled(getattr(limits, name), factor) for name in quantity.follows}
    return _in_multiprocessor(replace(limits, **changes), limits)


def _value(before: float, quantity: Quantity, value: str, text: str) -> float:
    match = _VALUE.fullmatch(value)
    if match is None or (match["times"] and (match["sign"] or match["unit"])):
        raise OptionError(
            f"--what-if {text}: {value!r} is no value; write a number (64K), a difference (+32K, -32K) or a factor (2x)"
        )
    number = float(match["number"])
    if match["times"]:
        return before * number
    number *= float((1024 if quantity.unit == "bytes" else 1000) ** _POWER[match["unit"].lower()])
    return {"+": before + number, "-": before - number}.get(match["sign"], number)


def with_rate(limits: Limits, name: str, factor: float) -> Limits:
    """Limits with one rate of `QUANTITIES` times a factor, and what follows it."""
    quantity = QUANTITIES[name]
    names = (quantity.field, *quantity.follows)
    changes: dict[str, Any] = {each: _scaled(getattr(limits, each), factor) for each in names}
    return replace(limits, **changes)


def _scaled(rate: Any, factor: float) -> Any:
    return {name: each * factor for name, each in rate.items()} if isinstance(rate, Mapping) else rate * factor


def _in_multiprocessor(limits: Limits, before: Limits) -> Limits:
    """What a program gains or loses of shared memory, the multiprocessor gains or loses, and threads have the registers
    that limits say."""
    if limits.sizes is None:
        return limits
    more = limits.shared - before.shared
    sizes = replace(
        limits.sizes, shared=limits.sizes.shared + more, block_shared=limits.shared, block_threads=limits.threads,
        thread_registers=limits.registers,
    )  # fmt: skip
    return replace(limits, sizes=sizes)
