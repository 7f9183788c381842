"""The limits that deterministic plans are made for: of a CPU, those that follow from its instructions alone."""

from __future__ import annotations

import functools
from dataclasses import replace

from vkernels.ir.limits import Limits

from .cpu_rates import rates_of_family
from .family_rates import OTHERS
from .host_cpu import LAUNCH_SECONDS, cpu_limits
from .limits import limits_of
from .present import cpu_target

CORES = 16
"""Cores that deterministic plans on a CPU are made for, however many there are, or threads."""
LEVEL_2 = 1 << 20
"""Bytes of a core's level 2."""
LEVEL_3 = 2 << 20
"""Bytes of level 3 for each core."""
MEMORY = 1 << 34


def deterministic_limits(limits: Limits) -> Limits:
    """The limits that deterministic plans are made for where others are made for `limits`.

    A GPU's are what its driver reports, as always. Of a CPU only its vector registers and dot units count, which follow
    from its instructions: caches, cores, memory and rates are those of a model, for what a process sees of the
    machine's differs: threads, affinity, containers, calibrations.
    """
    if limits.warp > 1:
        return limits
    host = cpu_limits()
    is_host = not limits.processor and limits.registers == host.registers
    return _of_model(
        limits.registers, host.register_bytes if is_host else limits.register_bytes, limits.dot_units, limits.processor
    )


@functools.cache
def _of_model(registers: int, register_bytes: int, dot_units: tuple[str, ...], processor: str) -> Limits:
    sizes = Limits(
        registers=registers, register_bytes=register_bytes, shared=LEVEL_2, multiprocessors=CORES,
        cache=CORES * LEVEL_3, memory=MEMORY, dot_units=dot_units, launch_seconds=LAUNCH_SECONDS,
    )  # fmt: skip
    model = cpu_target(sizes, rates_of_family(OTHERS, sizes), 0, "model")
    return replace(limits_of(model), processor=processor)
