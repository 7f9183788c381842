"""What is known about a call when its kernel is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, UnitAttr, i64

UNKNOWN = -1
"""A stride that is not known at compile time."""


@dataclass(frozen=True)
class Facts:
    """Assumptions that a compiled kernel may rely on; the caller looks them up again at every call.

    `sizes`: exact sizes, by name. `multiples`: numbers that divide a size, by name. `strides`: of each
    tensor parameter, elements a dimension, `UNKNOWN` where not known; a tensor without an entry has none
    known. `distinct`: no tensor that is written overlaps another.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    distinct: bool = False

    def divides(self, number: int, size: str) -> bool:
        """Whether `number` is known to divide the size."""
        if size in self.sizes:
            return self.sizes[size] % number == 0
        return self.multiples.get(size, 1) % number == 0

    def to_attribute(self) -> DictionaryAttr:
        """As the `facts` of a `vk.kernel` or `vk.mapped`."""
        number = lambda n: IntegerAttr(n, i64)  # noqa: E731
        entries = {
            "sizes": DictionaryAttr({k: number(v) for k, v in self.sizes.items()}),
            "multiples": DictionaryAttr({k: number(v) for k, v in self.multiples.items()}),
            "strides": DictionaryAttr({k: ArrayAttr(map(number, v)) for k, v in self.strides.items()}),
        }
        return DictionaryAttr({**entries, "distinct": UnitAttr()} if self.distinct else entries)

    @staticmethod
    def from_attribute(attribute: DictionaryAttr | None) -> Facts:
        """The facts that an operation carries; none where it carries no attribute."""
        if attribute is None:
            return Facts()
        data = attribute.data
        numbers = lambda key: {k: v.value.data for k, v in data[key].data.items()}  # noqa: E731
        strides = {k: tuple(n.value.data for n in v.data) for k, v in data["strides"].data.items()}
        return Facts(numbers("sizes"), numbers("multiples"), strides, "distinct" in data)
