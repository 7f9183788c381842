"""Fingerprints of our own source, for cache keys: cached artifacts are invalid when the source changes."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


@cache
def hash_of(pattern: str) -> str:
    """A SHA-256, in hexadecimal, of the package's files that match a pattern: `ir/**/*.py`."""
    paths = sorted(_PACKAGE.glob(pattern))
    if not paths:
        raise FileNotFoundError(f"the package has no files {pattern}")
    ours = hashlib.sha256()
    for path in paths:
        ours.update(path.read_bytes())
    return ours.hexdigest()
