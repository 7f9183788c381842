"""What is known about a call when its kernel is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute

UNKNOWN = -1
"""A stride that is not known at compile time."""


@dataclass(frozen=True)
class Facts:
    """Assumptions that a compiled kernel may rely on; the caller looks them up again at every call.

    `sizes`: exact sizes, by name. `multiples`: numbers that divide a size, by name. `bounds`: numbers that a size does
    not exceed, by name. `strides`: of each
    tensor parameter, elements a dimension, `UNKNOWN` where not known; a tensor without an entry has none
    known. `distinct`: no tensor that is written overlaps another. `aligned`: tensors whose address is a
    multiple of 16 bytes and whose strides other than 0 and 1 are multiples of 16 elements. `large`: tensors in
    which some element lies 2³¹ or more elements from the first.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    distinct: bool = False
    aligned: tuple[str, ...] = ()
    large: tuple[str, ...] = ()
    bounds: Mapping[str, int] = field(default_factory=dict)

    def divides(self, number: int, size: str) -> bool:
        """Whether `number` is known to divide the size."""
        if size in self.sizes:
            return self.sizes[size] % number == 0
        return self.multiples.get(size, 1) % number == 0

    def to_attribute(self) -> DictionaryAttr:
        """As the `facts` of a `vk.kernel` or `vk.mapped`."""
        entries: dict[str, Attribute] = {
            "sizes": _numbers(self.sizes),
            "multiples": _numbers(self.multiples),
            "strides": DictionaryAttr({k: ArrayAttr(IntegerAttr(n, i64) for n in v) for k, v in self.strides.items()}),
        }
        if self.distinct:
            entries["distinct"] = UnitAttr()
        if self.bounds:
            entries["bounds"] = _numbers(self.bounds)
        for key in ("aligned", "large"):
            if names := getattr(self, key):
                entries[key] = ArrayAttr(StringAttr(name) for name in names)
        return DictionaryAttr(entries)

    @staticmethod
    def from_attribute(attribute: DictionaryAttr | None) -> Facts:
        """The facts that an operation carries; none where it carries no attribute."""
        if attribute is None:
            return Facts()
        data = attribute.data
        strides = {k: tuple(map(_number, cast("ArrayAttr[Attribute]", v).data)) for k, v in _entries(data["strides"])}
        aligned, large = (_names(data.get(key)) for key in ("aligned", "large"))
        bounds = _read(data["bounds"]) if "bounds" in data else {}
        return Facts(
            _read(data["sizes"]), _read(data["multiples"]), strides, "distinct" in data, aligned, large, bounds
        )


def _numbers(values: Mapping[str, int]) -> DictionaryAttr:
    return DictionaryAttr({name: IntegerAttr(value, i64) for name, value in values.items()})


def _read(attribute: Attribute) -> dict[str, int]:
    return {name: _number(value) for name, value in _entries(attribute)}


def _names(attribute: Attribute | None) -> tuple[str, ...]:
    return () if attribute is None else tuple(name.data for name in cast("ArrayAttr[StringAttr]", attribute))


def _entries(attribute: Attribute) -> Iterable[tuple[str, Attribute]]:
    return cast(DictionaryAttr, attribute).data.items()


def _number(attribute: Attribute) -> int:
    return cast(IntegerAttr, attribute).value.data
