"""Phases, prints and assertions."""

from __future__ import annotations

from typing import Any

from vkernels.ir.errors import TypeMismatchError

from ..current import Mistake, current
from ..operation import operation


@operation
def phase(name: str | None = None) -> None:
    """End the phase: everything before is complete before anything after begins. `name` names the one that begins."""
    current().boundary(name)


@operation
def print(*values: Any) -> None:
    """Show strings and values, interpreted or checked; compiled kernels leave it out."""
    shown = [value for value in values if not isinstance(value, str)]
    current().show(" ".join(value for value in values if isinstance(value, str)), shown)


@operation
def device_assert(condition: Any, message: str = "") -> None:
    """Stop with `message` if a condition is false, interpreted or checked; compiled kernels leave it out."""
    if not isinstance(message, str):
        raise Mistake(TypeMismatchError, "expected a message known when building", culprit=message)
    current().require(condition, message)
