"""Slices of a CPU: some of its cores with their share of caches, or less cache or fewer registers than it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from vkernels.ir.errors import OptionError

from ..target import CpuSizes, Target
from .multiprocessors import Cut
from .scale import scaled


def cores(target: Target, number: Fraction, where: str) -> Target:
    """Some cores, each with its own L2 as it was, an even share of the L3, and what bandwidth those cores can draw."""
    wanted = int(number)
    _at_most(wanted, target.multiprocessors, f"{where}: {target.key} has {target.multiprocessors} cores")
    share = Fraction(wanted, target.multiprocessors)
    return replace(
        target,
        multiprocessors=wanted,
        level_2=_sizes(target).block_shared * wanted,
        cache=max(1, int(target.cache * share)),
        rates=scaled(target.rates, compute=share, cache=share),
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


CUTS: Mapping[str, Cut] = {"cores": cores, "l2": level_2, "l3": level_3, "registers": registers}
