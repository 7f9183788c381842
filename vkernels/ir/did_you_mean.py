"""Suggest names similar to one that does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

MAX_SUGGESTIONS = 3


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """The nearest of some names, those that begin with it, or all of them."""
    close = (
        get_close_matches(name, names, 1)
        or [each for each in names if name and each.startswith(name)][:MAX_SUGGESTIONS]
    )
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"
