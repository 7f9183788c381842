"""What is known about a call when its kernel is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute

UNKNOWN = -1
"""A stride that is not known at compile time."""


@dataclass(frozen=True)
class Facts:
    """Assumptions that a compiled kernel may rely on; the caller looks them up again at every call.

    `sizes`: exact sizes, by name. `multiples`: numbers that divide a size, by name. `bounds`: numbers that a size does
    not exceed, by name, for sums that are cut into blocks. `capacities`: numbers that a size does not exceed, by name,
    for which memory is laid out, and whole axes are held, with masks. `least`: numbers that a size is not below, by
    name: a loop over it runs. `strides`: of each tensor parameter, elements a
    dimension, `UNKNOWN` where not known; a tensor without an entry has no known strides. `distinct`: no tensor that is
    written overlaps another. `aligned`: tensors whose address is a multiple of 16 bytes and whose strides other than 0
    and 1 are positive multiples of 16 bytes. `large`: tensors in which some element is 2³¹ or more elements from the
    first.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    distinct: bool = False
    aligned: tuple[str, ...] = ()
    large: tuple[str, ...] = ()
    bounds: Mapping[str, int] = field(default_factory=dict)
    capacities: Mapping[str, int] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)

    def most(self, size: str) -> int | None:
        """The least number that the size is known not to exceed; itself if it is known."""
        if size in self.sizes:
            return self.sizes[size]
        found = [known[size] for known in (self.bounds, self.capacities) if size in known]
        return min(found, default=None)

    def divides(self, number: int, size: str) -> bool:
        """Whether `number` is known to divide the size."""
        if size in self.sizes:
            return self.sizes[size] % number == 0
        return self.multiples.get(size, 1) % number == 0

    def to_attribute(self) -> DictionaryAttr:
        """As the `facts` of a `vk.kernel` or `vk.mapped`."""
        entries = {name: _attribute(getattr(self, name)) for name in ("sizes", "multiples", "strides")}
        for name in ("distinct", "bounds", "capacities", "least", "aligned", "large"):
            if value := getattr(self, name):
                entries[name] = _attribute(value)
        return DictionaryAttr(entries)

    @staticmethod
    def from_attribute(attribute: DictionaryAttr | None) -> Facts:
        """The facts that an operation carries; none where it carries no attribute."""
        return Facts() if attribute is None else Facts(**_value(attribute))


def _attribute(value: Any) -> Attribute:
    match value:
        case True:
            return UnitAttr()
        case int():
            return IntegerAttr(value, i64)
        case str():
            return StringAttr(value)
        case tuple():
            return ArrayAttr(map(_attribute, value))
    return DictionaryAttr({name: _attribute(entry) for name, entry in value.items()})


def _value(attribute: Attribute) -> Any:
    match attribute:
        case DictionaryAttr():
            return {name: _value(entry) for name, entry in attribute.data.items()}
        case ArrayAttr():
            return tuple(map(_value, attribute.data))
        case IntegerAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
    return True
