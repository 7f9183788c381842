"""What several measurements of a CPU's rates agree on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from vkernels.targets.cpu_rates import OF_ACCESSES, OF_INSTRUCTIONS, CpuRates

AGREE = 1.25
"""How much two measurements differ at most where nothing disturbs them."""

COSTS = (
    "latency", "stored_2", "stored_3", "stored", "past_3", "past", "past_3_alone", "past_alone", "past_store",
    "past_straight", "waited_3", "waited", "launch", "wake", *OF_ACCESSES, *OF_INSTRUCTIONS,
)  # fmt: skip
"""What is the mean of two measurements: mostly rates beside others, of which neither more nor less is better."""
RATIOS = {"cache_share": 2.0, "launch": 2.0, "wake": 2.0, "pages": 2.0, "streams": 2.0}
"""How much some may differ: some are powers of two, the others depend on what the system does."""
APART = {
    **dict.fromkeys(("stored_2", "stored_3", "stored", "past_3", "past", "past_3_alone", "past_alone"), 0.25),
    **dict.fromkeys(("past_store", "past_straight"), 1.0),
    **dict.fromkeys(("waited_3", "waited"), 0.25),
    **dict.fromkeys(OF_ACCESSES, 0.5),
    **dict.fromkeys(OF_INSTRUCTIONS, 0.5),
    **dict.fromkeys(("begun_3", "begun", "contended", "settled", "reshaped"), 50.0),
    **dict.fromkeys(("mispredicted", "divided", "carried", "matrix_latency"), 4.0),
    **dict.fromkeys(("atomic", "atomic_far", "hop", "line", "line_3", "fetched_store"), 4.0),
    **dict.fromkeys(("own", "gradual"), 0.25),
    "launch": 5e-7,
}
"""Differences that do not matter."""


def confirmed(found: Sequence[CpuRates]) -> CpuRates | None:
    """The rates that at least two measurements agree on; None where there are others.

    Of a rate the fastest that a second one confirms, as disturbances only slow down; of a cost the mean of the two that
    are closest. Rates for vectors of different widths cannot be mixed: those of most measurements count.
    """
    if len(found) < 2:
        return None
    widths = [rates.register_bytes for rates in found]
    alike = [rates for rates in found if rates.register_bytes == max(widths, key=widths.count)]
    values: dict[str, Any] = {}
    for each in fields(CpuRates):
        ordered = sorted((getattr(rates, each.name) for rates in alike), reverse=True)
        pairs = [pair for pair in itertools.pairwise(ordered) if _agree(each.name, *pair)]
        if not pairs:
            return None
        if each.name in COSTS:
            most, least = min(pairs, key=lambda pair: pair[0] - pair[1])
            values[each.name] = (most + least) / 2
        else:
            values[each.name] = pairs[0][0]
    return CpuRates(**values)


def _agree(name: str, most: float, least: float) -> bool:
    return most <= RATIOS.get(name, AGREE) * least or most - least <= APART.get(name, 0)
