"""Layers of tuned plans: what was measured here is preferred to the rest of the user's plans, and these to the site's.

The site's databases belong to a machine or a container image. Calls only read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from vkernels.targets.driver_version import driver_version
from vkernels.targets.present import cpu_name

from .entry import Entry


class Layer(IntEnum):
    """Where a tuned plan comes from, the preferred first."""

    HERE = 0
    USER = 1
    SITE = 2

    @property
    def shown(self) -> str:
        return ("measured here", "user", "site")[self]


@dataclass(frozen=True)
class Layered:
    """A tuned plan, its layer and the database that has it, by its address."""

    entry: Entry
    layer: Layer
    where: str


def layered(entries: Iterable[Entry], is_site: bool, where: str) -> list[Layered]:
    """Entries of one database with their layers, in their order."""
    return [
        Layered(entry, Layer.SITE if is_site else Layer.HERE if is_from_here(entry) else Layer.USER, where)
        for entry in entries
    ]


def preferred(found: Sequence[Layered]) -> list[Layered]:
    """The preferred first: measured before modelled, then by layer; within a layer in the order that they have."""
    return sorted(found, key=lambda each: (each.entry.standing < 2, each.layer))


def is_from_here(entry: Entry) -> bool:
    """Whether an entry was measured on a device like this machine's: a CPU of this name, or a GPU under this version of
    the driver. The sizes of the slice are part of the entry's key."""
    made = entry.provenance
    vendor = _vendor(made.architecture)
    if vendor == "cpu":
        return made.device == _cpu_name()
    return bool(made.driver) and made.driver == driver_version(vendor)


def _vendor(architecture: str) -> str:
    return "nvidia" if architecture.startswith("sm_") else "amd" if architecture.startswith("gfx") else "cpu"


@cache
def _cpu_name() -> str:
    return cpu_name()
