"""Sizes as GPUs want them: Triton's tiles are powers of two, and programs a power of two of warps."""

from __future__ import annotations

from ..limits import Limits

_ELEMENTS_A_THREAD = 8
_MOST_WARPS = 8


def power_above(number: int) -> int:
    """The least power of two that is not below a number; 1 for numbers below 1."""
    return 1 << max(0, number - 1).bit_length()


def power_below(number: int) -> int:
    """The largest power of two that is not above a number; 1 for numbers below 1."""
    return 1 << max(1, number).bit_length() - 1


def warps_for(elements: int, limits: Limits) -> int:
    """Warps for a tile of so many elements: about eight elements a thread, eight warps at most."""
    wanted = power_below(elements // (_ELEMENTS_A_THREAD * limits.warp))
    return min(wanted, _MOST_WARPS, power_below(limits.threads // limits.warp))
