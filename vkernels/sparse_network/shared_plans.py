"""Plans of sparse-network kernels that serve many shapes.

The numbers of layers and live images and the row stride differ between launches. On a CPU, plans are chosen for rounded
sizes, so that few plans are chosen and compiled; the excess of the last tile is masked. GPUs choose as for any kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np

from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.language.kernel import Kernel
from vkernels.runtime import get_deterministic

LAYERS = 4
"""Number of layers that plans are chosen for: of the first launches, which run the most images."""

IMAGES = (4, 1024)
"""The fewest and most images that plans are chosen for; sizes between them are powers of two."""

TOGETHER = 2
"""Outputs per chunk if features exceed a core's own cache: neighbours share inputs, and longer chunks hinder
prefetching."""

LINES = 2
"""Cache lines per row then: four sums in flight, as many as an addition's latency in cycles."""

ROWS = 8
"""Outputs per chunk when images are dropped."""

MOST_LINES = 4
"""Cache lines per row where features stay in a core's own cache: more fetch no faster, and take more of it."""

INDICES = 0.5
"""What reading indices adds to a tile, in lines of features: in tiles of three and two lines, an image takes 1.03 and
1.14 times as long as in tiles of four (one core, 384 images of the challenge's network)."""

SUMS = 8
"""Lines of sums in flight then: as many as two additions a cycle, each of four cycles, work on."""

LINE = 64
"""Bytes of a cache line."""


def kernel_for(features: Any, kernel: Kernel) -> Kernel:
    """The kernel, with shared plans if the features are on a CPU."""
    on_cpu = isinstance(features, np.ndarray) or features.device.type == "cpu"
    return with_shared_plans(kernel) if on_cpu else kernel


@lru_cache(maxsize=64)
def with_shared_plans(kernel: Kernel) -> Kernel:
    """The same kernel with plans that serve many shapes."""
    return Kernel(kernel.function, replace(kernel.options, plan=_planner(kernel)))


def round_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes rounded to those that plans are chosen for."""
    found = dict(sizes)
    if "L" in found:
        found["L"] = LAYERS
    fewest, most = IMAGES
    for name in ("I", "P"):
        if name in found:
            found[name] = min(most, max(fewest, 1 << (found[name] - 1).bit_length()))
    return found


def _planner(kernel: Kernel) -> Callable[[Mapping[str, int], Mapping[str, str], Limits], Plan]:
    known: dict[Any, Plan] = {}

    def plan(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan:
        near, pin = round_sizes(sizes), _pin(sizes, dtypes, limits)
        key = (*near.items(), *dtypes.items(), repr(pin), repr(asdict(limits)), get_deterministic())
        if key not in known:
            known[key] = _choose(kernel, pin, near, dtypes, limits)
        return known[key]

    return plan


def _choose(
    kernel: Kernel, pin: Pin | None, sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits
) -> Plan:
    """The tuned or cached plan for these sizes, else the best one, which is cached."""
    from vkernels.compiler.default_session import default_session  # calls of a bundle plan nothing
    from vkernels.compiler.specialise import kernel_in

    scalars = {parameter.name: float for parameter in kernel.parameters if parameter.kind == "scalar"}
    built = kernel_in(kernel.build(kernel.signature(**dtypes, **scalars)))
    pinned = kernel if pin is None else type(kernel)(kernel.function, replace(kernel.options, plan=pin))
    plans = default_session().plans_for(pinned, built, sizes, dtypes, limits, is_deterministic=get_deterministic())
    if plans.tuned is not None:
        return plans.tuned
    found = plans.cached(plans.cache_key)
    if found is not None:
        return found.plan
    chosen = next(plans.ranked())
    plans.plan_cache.put(plans.cache_key, chosen.plan, chosen.rung)
    return chosen.plan


def _pin(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Pin | None:
    """Fixed decisions for dropping images, and for layers, whose outputs are in an order in which neighbours gather the
    same rows: the cost model takes any row for as likely as any other. They depend on the sizes of the call; but for
    the number of lines in a tile, on `round_sizes` of them."""
    near = round_sizes(sizes)
    if sizes.keys() == {"N", "P", "I"}:  # a chunk of all images would need a plan for every number of images
        return Pin(tiles={"n": ROWS}, chunks={"i": min(near["I"] // 2, LINE // 4)})
    if not {"L", "N", "K", "I"} <= sizes.keys():
        return None
    width = LINE // (2 if dtypes["out"] in ("float16", "bfloat16") else 4)
    line = 2 * LINE * max(1, sizes["N"])  # of all features, in two copies
    if line > limits.shared:
        lines = LINES if near["I"] >= 2 * LINES * width * limits.multiprocessors else 1
        return Pin(tiles={"i": min(near["I"], width * lines)}, chunks={"n": TOGETHER})
    lines, core = MOST_LINES, limits.core_costs
    kept = core.own * (1 - core.gradual / 2) * limits.shared  # level 2 loses a quarter of so much at most
    while lines > 1 and (lines * line > kept or lines * width * limits.multiprocessors > near["I"]):
        lines //= 2
    if near["I"] == IMAGES[1]:  # one plan more, for launches of the most images
        images = ceil(sizes["I"] / width)  # in lines
        lines = min(
            (lines, max(1, 3 * lines // 4)),
            key=lambda lines: ceil(ceil(images / lines) / limits.multiprocessors) * (lines + INDICES),
        )
    sums = 4 * width * lines  # bytes of an output's
    outputs = max(1, min(SUMS * LINE, limits.registers // 2 * limits.register_bytes) // sums)
    return Pin(tiles={"i": min(near["I"], width * lines)}, chunks={"n": outputs})
