"""An author's upper bound on what a kernel takes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from .errors import OptionError
from .known_fields import KnownFields
from .limits import Limits


@dataclass(frozen=True)
class Budget(KnownFields):
    """The most that any plan of a kernel may take; None is no bound.

    `registers`: of a thread (CPU: vector registers), `shared`: bytes of a program's on-chip memory, `threads`: of a
    program. Raises `OptionError` for what is no bound.
    """

    registers: int | None = None
    shared: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value, least = getattr(self, each.name), 0 if each.name == "shared" else 1
            if value is not None and (type(value) is not int or value < least):
                message = f"expected a whole number of at least {least}, got {value!r}"
                raise OptionError(f"vk.Budget: {each.name}: {message}")


def within(limits: Limits, budget: Budget | None) -> Limits:
    """Limits that allow no more than a budget does."""
    if budget is None:
        return limits
    bounds = {each.name: getattr(budget, each.name) for each in fields(budget)}
    return replace(limits, **{n: min(getattr(limits, n), bound) for n, bound in bounds.items() if bound is not None})
