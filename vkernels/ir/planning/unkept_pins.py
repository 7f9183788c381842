"""Which entries of an author's pin no plan can keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

from ..errors import Error
from ..pin import Pin
from ..plan import Plan
from .choose_plan import choose_bottom
from .fits import why_inapplicable
from .space import PlanSearchSpace


def unkept_pins(space: PlanSearchSpace) -> list[str]:
    """The entries of a space's pin without which its plainest plan can be had, as an author writes them.

    All entries where none is at fault alone; none where the plainest plan can be had as pinned.
    """
    if space.pin == Pin() or why_inapplicable(space, _plainest(space, space.pin)) is None:
        return []
    entries = list(_entries(space.pin))
    alone = [text for text, rest in entries if _can_be_had(space, rest)]
    return alone or [text for text, _ in entries]


def _plainest(space: PlanSearchSpace, pin: Pin) -> Plan:
    return choose_bottom(space.kernel, space.sizes, space.limits, space.strides, pin).plan


def _can_be_had(space: PlanSearchSpace, pin: Pin) -> bool:
    try:
        return why_inapplicable(space, _plainest(space, pin)) is None
    except Error:
        return False


def _entries(pin: Pin) -> Iterator[tuple[str, Pin]]:
    """Each entry of a pin as its author wrote it, with the pin without it."""
    for each in fields(pin):
        pinned = getattr(pin, each.name)
        if isinstance(pinned, Mapping):
            for name, value in pinned.items():
                shown = value if isinstance(value, int) else f'"{value}"'
                rest = {key: other for key, other in pinned.items() if key != name}
                yield f'{each.name}={{"{name}": {shown}}}', replace(pin, **{each.name: rest})  # type: ignore[arg-type]
        elif pinned is not None:
            yield f"{each.name}={pinned!r}", replace(pin, **{each.name: None})  # type: ignore[arg-type]
