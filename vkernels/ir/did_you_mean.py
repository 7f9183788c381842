"""Suggest names similar to one that does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

MAX_SUGGESTIONS = 3
MAX_LISTED = 12
"""Names that are all listed if none is similar; of more, only the nearest are."""


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Those of some names that begin with it, the nearest of them, or all of them if they are few."""
    begin = [each for each in names if name and each.startswith(name)]
    if close := begin[:MAX_SUGGESTIONS] or get_close_matches(name, names, 1):
        return f"did you mean {' or '.join(close)}?"
    if len(names) <= MAX_LISTED:
        return f"there are {', '.join(names)}"
    near = get_close_matches(name, names, MAX_SUGGESTIONS, cutoff=0.0)
    return f"the nearest of {len(names)} are {', '.join(near)}"
