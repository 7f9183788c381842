"""Our own code as part of keys: what it made and somebody keeps is made anew where it changed."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]


@cache
def hash_of(pattern: str) -> str:
    """A SHA-256, in hexadecimal, of the package's files of a pattern, as `ir/**/*.py`."""
    ours = hashlib.sha256()
    for path in sorted(_PACKAGE.glob(pattern)):
        ours.update(path.read_bytes())
    return ours.hexdigest()
