"""What vendors' own partitions leave of a device: MIG instances of NVIDIA's, partition modes of AMD's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from vkernels.ir.errors import OptionError

from ..target import CpuSizes, PeakRates, Slice, Target

ALL = Fraction(1)


def scaled(
    rates: PeakRates | None, compute: Fraction, memory: Fraction = ALL, cache: Fraction = ALL, links: bool = True
) -> PeakRates | None:
    """Rates of a slice that has these shares of multiprocessors, of the memory's bandwidth and of the last cache's.

    `links`: whether it reaches other devices. Clocks do not change, nor what one multiprocessor can draw.
    """
    if rates is None:
        return None
    return replace(
        rates,
        memory_gb_s=rates.memory_gb_s * float(memory),
        float32_tflops=rates.float32_tflops * float(compute),
        float16_tflops=_times(rates.float16_tflops, compute),
        float16_in_float16_tflops=_times(rates.float16_in_float16_tflops, compute),
        cache_gb_s=_times(rates.cache_gb_s, cache),
        shared_gb_s=_times(rates.shared_gb_s, compute),
        peer_gb_s=rates.peer_gb_s if links else None,
    )


def _times(rate: float | None, share: Fraction) -> float | None:
    return None if rate is None else rate * float(share)


PAIR = 2
"""Multiprocessors come in pairs."""

_COMPUTE = re.compile(r"([1-9])g\.")


def mig_instance(target: Target, profile: Slice) -> Target:
    """A MIG instance: multiprocessors and memory of the profile, its share of memory's bandwidth and of the L2.

    NVIDIA's MIG user guide: an instance has paths of its own through all of the memory system: crossbar ports, banks
    of L2, memory controllers, DRAM buses. So bandwidth goes with slices of memory, the L2 with those of the cache. A
    multiprocessor is as it was. Instances do not reach each other, nor other devices.

    What the table does not know is the least that it may be, and listed as unverified.
    """
    share = profile.memory_share or profile.cache_share or Fraction(1, profile.most)
    cache = profile.cache_share or share
    multiprocessors = profile.multiprocessors or least_multiprocessors(target, profile, share)
    guessed = [
        *(["multiprocessors"] if profile.multiprocessors is None else []),
        *(["memory"] if profile.memory is None else []),
        *(["memory_gb_s"] if profile.memory_share is None else []),
    ]
    return replace(
        target,
        multiprocessors=multiprocessors,
        memory=min(target.memory, profile.memory or int(target.memory * share)),
        level_2=int(target.level_2 * cache),
        cache=int(target.cache * cache),
        rates=scaled(target.rates, Fraction(multiprocessors, target.multiprocessors), share, cache, links=False),
        unverified=tuple(dict.fromkeys([*target.unverified, *guessed])),
    )


def least_multiprocessors(target: Target, profile: Slice, share: Fraction) -> int:
    """A lower bound of the multiprocessors of an instance, where their number is not documented.

    An eighth of the device's (a quarter of a device in four parts), in pairs, for each part that the instance has.
    """
    parts = _parts(profile)
    if parts is None:
        return max(1, int(target.multiprocessors * share))
    of_device = max(filter(None, map(_parts, target.slices)), default=7)
    one = target.multiprocessors // (8 if of_device > 4 else of_device) // PAIR * PAIR
    return max(1, min(target.multiprocessors, one * parts))


def _parts(profile: Slice) -> int | None:
    found = _COMPUTE.match(profile.name)
    return int(found[1]) if found else None


def partition(target: Target, mode: Slice) -> Target:
    """One of the devices that an AMD package becomes in a partition mode, such as CPX with NPS4.

    AMD's documents: compute partitions are whole XCDs, each with an L2 of its own; memory partitions are the stacks
    beside them, and with NPS1 every partition sees all of the memory. HBM, Infinity Cache and links stay shared by all
    partitions, so an even share of their bandwidth and of that cache is counted on.
    """
    share = Fraction(1, mode.most)
    multiprocessors = mode.multiprocessors or int(target.multiprocessors * share)
    return replace(
        target,
        multiprocessors=multiprocessors,
        chiplets=max(1, target.chiplets // mode.most),
        memory=min(target.memory, mode.memory or target.memory),
        level_2=int(target.level_2 * share),
        cache=int(target.cache * share),
        rates=scaled(target.rates, Fraction(multiprocessors, target.multiprocessors), share, share),
    )


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
    """A green context of `number` multiprocessors: at least the least, and a multiple (cuda.h, Green Contexts).
    The driver decides which groups a chip's layout allows."""
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
    """The device with `number` compute units unmasked, spread over all chiplets (HSA_CU_MASK, or a stream's mask).

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

GPU_CUTS: Mapping[str, Cut] = {"mps": mps_percentage, "sms": green_context, "cus": compute_unit_mask}


def cores(target: Target, number: Fraction, where: str) -> Target:
    """Some cores, each with its own L2 as it was, an even share of the L3, and what bandwidth those cores can draw."""
    wanted = int(number)
    _at_most(wanted, target.multiprocessors, f"{where}: {target.key} has {target.multiprocessors} cores")
    share = Fraction(wanted, target.multiprocessors)
    rates = scaled(target.rates, compute=share, cache=share)
    if rates is not None and target.rates is not None and rates.multiprocessor_cache_gb_s is not None:
        drawn = wanted * rates.multiprocessor_cache_gb_s
        rates = replace(rates, cache_gb_s=min(drawn, target.rates.cache_gb_s or drawn))
    return replace(
        target,
        multiprocessors=wanted,
        level_2=_sizes(target).block_shared * wanted,
        cache=max(1, int(target.cache * share)),
        rates=rates,
    )


def level_2(target: Target, number: Fraction, where: str) -> Target:
    """Cores that have no more than these bytes of their L2, as where others on the same core use it too."""
    sizes, wanted = _sizes(target), int(number)
    _at_most(wanted, sizes.block_shared, f"{where}: a core of {target.key} has {sizes.block_shared} bytes of L2")
    return replace(target, sizes=replace(sizes, block_shared=wanted), level_2=wanted * target.multiprocessors)


def level_3(target: Target, number: Fraction, where: str) -> Target:
    """No more than these bytes of the last cache."""
    wanted = int(number)
    _at_most(wanted, target.cache, f"{where}: {target.key} has {target.cache} bytes of L3")
    return replace(target, cache=wanted)


def registers(target: Target, number: Fraction, where: str) -> Target:
    """Plans that count on no more than these vector registers."""
    sizes, wanted = _sizes(target), int(number)
    has = f"{where}: a core of {target.key} has {sizes.thread_registers} vector registers"
    _at_most(wanted, sizes.thread_registers, has)
    return replace(target, sizes=replace(sizes, thread_registers=wanted))


def _at_most(wanted: int, most: int, has: str) -> None:
    if wanted > most:
        raise OptionError(f"{has}, not {wanted}")


def _sizes(target: Target) -> CpuSizes:
    if not isinstance(target.sizes, CpuSizes):
        raise OptionError(f"{target.key} is no CPU")
    return target.sizes


CPU_CUTS: Mapping[str, Cut] = {"cores": cores, "l2": level_2, "l3": level_3, "registers": registers}
