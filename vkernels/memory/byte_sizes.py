"""Parse sizes such as `4GiB`, and shares such as `60%`."""

from __future__ import annotations

import re

from vkernels.ir.errors import ArgumentError

UNITS = {"": 1, "B": 1, **{f"{letter}iB": 1 << 10 * n for n, letter in enumerate("KMGT", 1)}}
UNITS |= {f"{letter}B": 1000**n for n, letter in enumerate("kMGT", 1)}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kKMGT]?i?B?)")
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")


def parse_size(text: str) -> int | None:
    """Parse a size such as `40GiB`, `2.5 GB` or `4096`; None if it is none."""
    found = _SIZE.fullmatch(text.strip())
    return None if found is None or found[2] not in UNITS else int(float(found[1]) * UNITS[found[2]])


def parse_share(text: str) -> float | None:
    """Parse a share above 0 such as `60%`, of at most 100 %; None if it is none."""
    found = _SHARE.fullmatch(text.strip())
    return float(found[1]) / 100 if found is not None and 0 < float(found[1]) <= 100 else None


def check_size(name: str, size: object) -> int:
    """Return a size in bytes from a number or a text. Raises `ArgumentError`."""
    parsed = parse_size(size) if isinstance(size, str) else size
    if type(parsed) is not int or parsed < 0:
        raise ArgumentError(f"{name}: expected a number of bytes, or a size such as '4GiB', got {size!r}")
    return parsed
