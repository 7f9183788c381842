"""Constants with several candidate values, from which tuning chooses the best."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any

from vkernels.ir.errors import OptionError

Value = bool | int | float | str | None


@dataclass(frozen=True)
class Tunable:
    """`values`: the candidates; a call without tuning takes the first. `where`: a condition on them."""

    values: tuple[Value, ...]
    where: Callable[..., bool] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the constants and sizes that `where` takes."""
        return () if self.where is None else tuple(inspect.signature(self.where).parameters)

    def holds(self, known: Mapping[str, Any]) -> bool:
        """Whether `where` holds for constants and sizes by name. Raises what it raises, and `KeyError` for a missing
        name."""
        return self.where is None or bool(self.where(**{name: known[name] for name in self.names}))


def tunable(*values: Value, where: Callable[..., bool] | None = None) -> Tunable:
    """The default of a constant parameter that tuning may choose: `block: vk.Constant = vk.tunable(32, 16, 64)`.

    A call takes the first value unless it passes one. `where` rules out values: a function of constants and sizes by
    name, `where=lambda block, N: block <= N`. Raises `OptionError` for no values, repeated values, and values that no
    constant can have.
    """
    if not values:
        raise OptionError("vk.tunable: expected the values that the constant may have")
    for value in values:
        if not (value is None or isinstance(value, bool | int | float | str)) or (
            isinstance(value, float) and isnan(value)
        ):
            raise OptionError(f"vk.tunable: expected numbers, texts, booleans or None, got {value!r}")
    if len(set(values)) < len(values):
        raise OptionError(f"vk.tunable: a value is repeated among {', '.join(map(repr, values))}")
    if where is not None and not callable(where):
        raise OptionError(f"vk.tunable: where: expected a function of constants and sizes, got {where!r}")
    return Tunable(values, where)
