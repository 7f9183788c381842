"""The few numbers that were fitted to binaries, not read off a rule: docs/needs.md says how, and how well they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .device import Device


@dataclass(frozen=True)
class Constants:
    """`base`: registers of a thread that does nothing with tiles: addresses of tensors, counters, the stack of scalars.
    `alive`: registers for each 4 bytes of tiles alive at once. `address`: for each register of addresses, of which
    compilers fold many into accesses. `between`: of values that are neither loaded nor waited for, the part alive."""

    base: float
    alive: float
    address: float
    between: float


NVIDIA = Constants(base=24.0, alive=1.0, address=0.4, between=0.85)
AMD = Constants(base=16.0, alive=1.6, address=0.25, between=0.67)
CPU = Constants(base=1.0, alive=1.0, address=0.0, between=1.0)


def constants_for(device: Device) -> Mapping[str, float]:
    """By the names of the symbols that stand for them."""
    found = CPU if device.is_cpu else AMD if device.is_amd else NVIDIA
    return {
        "fit.base": found.base,
        "fit.alive": found.alive,
        "fit.address": found.address,
        "fit.between": found.between,
    }
