"""What vendors' own partitions leave of a device: MIG instances of NVIDIA's, partition modes of AMD's."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from ..target import Slice, Target
from .scale import scaled

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
    """No more multiprocessors than an instance has whose number nobody wrote down.

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
