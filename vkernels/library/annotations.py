"""Annotations of library functions in addition to jaxtyping's shapes: results, ranges of numbers, choices.

    def softmax(x: Float[Array, "*B N"], out: Result[Array, "*B N", "x"] | None = None) -> Array

`declared` checks arguments against them. A size may be a name, an integer, a sum or product of these (`"R+1"`,
`"C//groups"`, where `groups` may be an argument), `*B` for any number of dimensions, or `_`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from jaxtyping import Float

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "AtLeastOne",
    "NotNegative",
    "NumberRange",
    "OneOf",
    "Result",
    "Share",
    "Size",
    "Updated",
    "Written",
]


@dataclass(frozen=True)
class Written:
    """The function writes this argument. `like`: the argument whose dtype it must have; empty for any."""

    like: str = ""


@dataclass(frozen=True)
class NumberRange:
    """A number from `low` to `high`; `below`: less than `high`."""

    low: float
    high: float = float("inf")
    below: bool = False

    def holds(self, number: float) -> bool:
        return self.low <= number and (number < self.high if self.below else number <= self.high)

    def __str__(self) -> str:
        if self.high == float("inf"):
            return f"of at least {self.low:g}"
        return f"from {self.low:g} {'and below' if self.below else 'to'} {self.high:g}"


@dataclass(frozen=True)
class OneOf:
    """One of some names."""

    names: tuple[str, ...]


if TYPE_CHECKING:
    from typing import Annotated as Result
    from typing import Annotated as Updated
else:

    class Result:
        """An array that the function writes and returns: `Result[Array, "M N", "x"]`, of floats, here of x's dtype."""

        def __class_getitem__(cls, declared: tuple[Any, ...]) -> Any:
            array, sizes, *like = declared
            return Annotated[Float[array, sizes], Written(*like)]

    Updated = Result
    """An array that the function reads and writes: `Updated[Array, "M N"]`, of floats."""

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
Activation = Annotated[str, OneOf(ACTIVATIONS)]
AtLeastOne = Annotated[int, NumberRange(1)]
NotNegative = Annotated[int, NumberRange(0)]
Size = Annotated[int, NumberRange(0, 1 << 48)]
Share = Annotated[float, NumberRange(0.0, 1.0)]
