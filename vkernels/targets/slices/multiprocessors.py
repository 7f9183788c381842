"""Slices that share out multiprocessors alone: an MPS percentage, a green context, a mask of compute units.

Memory, its bandwidth and all caches stay those of the device, shared with whoever else runs; fewer multiprocessors may
draw less of the bandwidth, which `limits_of` sees to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from vkernels.ir.errors import OptionError

from ..target import Target
from .scale import scaled

MPS_STEP = 2
"""Multiprocessors that MPS hands out at a time: pairs share a cluster. From general knowledge, unchecked."""

PAIRED = ("gfx10", "gfx11", "gfx12")
"""Compute units are masked in pairs, as work-group processors (Linux, amdkfd: "fix cu mask for asics with wgps")."""


def mps_percentage(target: Target, percent: Fraction, where: str) -> Target:
    """What CUDA_MPS_ACTIVE_THREAD_PERCENTAGE leaves a client: that portion of the threads, rounded up to the next
    number that the hardware supports (NVIDIA's MPS guide). It limits, and reserves nothing."""
    wanted = math.ceil(target.multiprocessors * percent / 100)
    return with_multiprocessors(target, min(target.multiprocessors, -(-wanted // MPS_STEP) * MPS_STEP))


def green_context(target: Target, number: Fraction, where: str) -> Target:
    """A green context of so many multiprocessors: no fewer than the least, and a multiple (cuda.h, Green Contexts).
    Which groups a chip's layout allows is the driver's to say."""
    rule, wanted = target.green_contexts, int(number)
    if rule is None:
        raise OptionError(f"{where}: there are no green contexts on {target.key}")
    most = max(rule.least, target.multiprocessors // rule.multiple * rule.multiple)
    if wanted < rule.least or wanted % rule.multiple or wanted > target.multiprocessors:
        near = min(most, max(rule.least, round(wanted / rule.multiple) * rule.multiple))
        raise OptionError(
            f"{where}: a green context has at least {rule.least} multiprocessors, a multiple of {rule.multiple}, "
            f"and at most the {target.multiprocessors} that there are; the nearest is sms={near}"
        )
    return with_multiprocessors(target, wanted)


def compute_unit_mask(target: Target, number: Fraction, where: str) -> Target:
    """What a mask of so many compute units leaves, spread over all chiplets (HSA_CU_MASK, or a mask of a stream's own).

    RDNA's come in pairs, which are its multiprocessors here.
    """
    units, each = int(number), 2 if target.architecture.startswith(PAIRED) else 1
    if units % each or units > target.multiprocessors * each:
        pairs = " in pairs" if each == 2 else ""
        raise OptionError(
            f"{where}: {target.key} has {target.multiprocessors * each} compute units{pairs}, not {units}"
        )
    return with_multiprocessors(target, units // each)


def with_multiprocessors(target: Target, multiprocessors: int) -> Target:
    """A target of fewer multiprocessors, all else as it was."""
    share = Fraction(multiprocessors, target.multiprocessors)
    chiplets = min(target.chiplets, multiprocessors)
    return replace(
        target, multiprocessors=multiprocessors, chiplets=chiplets, rates=scaled(target.rates, compute=share)
    )


Cut = Callable[[Target, Fraction, str], Target]
"""Of a target, an option's value and where it was said, the slice."""

CUTS: Mapping[str, Cut] = {"mps": mps_percentage, "sms": green_context, "cus": compute_unit_mask}
