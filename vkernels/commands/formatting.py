"""Format numbers, plans and untrusted text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS = ("", " thousand", " million", " billion", " trillion", " quadrillion")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def format_bytes(number: float) -> str:
    """Format bytes, as 12.5 MiB."""
    scaled, unit = _scaled(number, 1024, _BYTES)
    return f"{scaled:.4g} {unit}"


def byte_scale(most: float) -> tuple[int, str]:
    """Return a unit for sizes of up to `most` bytes, for the axis of a plot: its bytes and its name."""
    name = format_bytes(most).split()[1]
    return 1024 ** _BYTES.index(name), name


def format_count(number: float) -> str:
    """Format a number, as 1.2 billion; below ten thousand in digits."""
    if abs(number) < 10_000:
        return f"{number:.4g}"
    scaled, unit = _scaled(number, 1000, _COUNTS)
    return f"{scaled:.3g}{unit}"


def _scaled(number: float, base: int, units: Sequence[str]) -> tuple[float, str]:
    unit = 0
    while abs(number) >= base and unit < len(units) - 1:
        number, unit = number / base, unit + 1
    return number, units[unit]


def format_seconds(seconds: float) -> str:
    """Format seconds, as 11.8 µs."""
    for size, name in _SECONDS:
        if seconds >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def plural(number: int, what: str) -> str:
    """Format a number of things, as 1 program, 2 programs."""
    return f"{format_count(number)} {what}{'' if number == 1 else 's'}"


def printable(text: str, newlines: bool = False) -> str:
    """Escape control characters and characters that change the direction of text."""
    return "".join(
        letter if letter.isprintable() or (newlines and letter in "\n\t") else letter.encode("unicode_escape").decode()
        for letter in text.encode("utf-8", "replace").decode()
    )


def format_plan(plan: Mapping[str, object]) -> str:
    """Format a plan as one line, field by field."""
    parts = []
    for name, value in plan.items():
        if isinstance(value, Mapping) and value:
            parts.append(f"{name} " + " ".join(f"{key}={entry}" for key, entry in value.items()))
        elif isinstance(value, list | tuple) and value:
            parts.append(f"{name} " + ",".join(map(str, value)))
        elif value and not isinstance(value, Mapping | list | tuple):
            parts.append(f"{name} {value}")
    return printable(", ".join(parts))
