"""Constants of which an author knows several good values, and leaves to tuning which is best."""

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
    """`values`: what a constant may be; a call without tuning takes the first. `where`: what must hold of it."""

    values: tuple[Value, ...]
    where: Callable[..., bool] | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The constants and sizes that `where` asks for."""
        return () if self.where is None else tuple(inspect.signature(self.where).parameters)

    def holds(self, known: Mapping[str, Any]) -> bool:
        """Whether `where` holds of constants and sizes by name. Raises what it raises, `KeyError` for one that is not
        known."""
        return self.where is None or bool(self.where(**{name: known[name] for name in self.names}))


def tunable(*values: Value, where: Callable[..., bool] | None = None) -> Tunable:
    """The default of a constant parameter that tuning may choose: `block: vk.Constant = vk.tunable(32, 16, 64)`.

    A call takes the first value unless it is given one. `where` rules out values: a function of constants and sizes by
    name, `where=lambda block, N: block <= N`. Raises `OptionError` for no values, one that stands twice, and what no
    constant can be.
    """
    if not values:
        raise OptionError("vk.tunable: expected the values that the constant may have")
    for value in values:
        if not (value is None or isinstance(value, bool | int | float | str)) or (
            isinstance(value, float) and isnan(value)
        ):
            raise OptionError(f"vk.tunable: expected numbers, texts, booleans or None, got {value!r}")
    if len(set(values)) < len(values):
        raise OptionError(f"vk.tunable: a value stands twice among {', '.join(map(repr, values))}")
    if where is not None and not callable(where):
        raise OptionError(f"vk.tunable: where: expected a function of constants and sizes, got {where!r}")
    return Tunable(values, where)
