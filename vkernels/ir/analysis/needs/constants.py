"""The few numbers that were fitted to binaries, not read off a rule: docs/needs.md says how, and how well they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .device import NeedsDevice

UNKNOWN_TRIPS = 16
"""Trips that a loop is taken to make where its bounds are no arithmetic on sizes."""


@dataclass(frozen=True)
class FittedConstants:
    """`base`: registers of a thread that does nothing with tiles: addresses of tensors, counters, the stack of scalars.
    `alive`: registers for each 4 bytes of tiles alive at once. `address`: for each register of addresses, of which
    compilers fold many into accesses. `between`: of values that are neither loaded nor waited for, the part alive.
    `unrolled`: iterations of a loop within a phase that run side by side."""

    base: float
    alive: float
    address: float
    between: float
    unrolled: float = 1.0


NVIDIA = FittedConstants(base=22.0, alive=1.03, address=0.4, between=0.8, unrolled=4.0)
AMD = FittedConstants(base=15.0, alive=1.6, address=0.25, between=0.65, unrolled=4.0)
CPU = FittedConstants(base=1.0, alive=1.0, address=0.0, between=1.0)


def constants_for(device: NeedsDevice) -> Mapping[str, float]:
    """By the names of the symbols that stand for them."""
    found = CPU if device.is_cpu else AMD if device.is_amd else NVIDIA
    return {f"fit.{name}": value for name, value in vars(found).items()}
