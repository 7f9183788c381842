"""Rates of a part of a device."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ..target import PeakRates

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
