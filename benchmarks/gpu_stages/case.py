"""A case as its part of a stage gives it: a name, and what is done on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

RIGHT, WRONG, ERROR, SKIPPED = "right", "wrong", "error", "skipped"
"""What a case that ends by itself comes to; `error`: an exception. Its process may also be `crashed` or `hung`."""
CRASHED, HUNG = "crashed", "hung"

Details = Mapping[str, Any]
"""What is to be known of a case that was right, as JSON."""


class WrongResultError(Exception):
    """A result is wrong."""


@dataclass(frozen=True)
class Case:
    """`run`: raises where anything is wrong, and pytest's skip where the machine lacks what it needs. `limit`: seconds
    that it may take, compiling included."""

    name: str
    run: Callable[[], Details | None]
    limit: float = 60.0
