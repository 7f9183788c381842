"""Sizes in messages."""

from __future__ import annotations

UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
PLAIN = 10_000
"""Smaller sizes are legible as they are."""


def sized(size: float) -> str:
    """Format bytes, exactly and for people: `786440 bytes (768 KiB)`."""
    if size == float("inf"):
        return "unlimited bytes"
    exact = f"{int(size)} bytes"
    if size < PLAIN:
        return exact
    scaled, unit = size / 1024, 0
    while scaled >= 1000 and unit < len(UNITS) - 1:
        scaled, unit = scaled / 1024, unit + 1
    return f"{exact} ({scaled:.4g} {UNITS[unit]})"
