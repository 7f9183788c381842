"""Random limits: made up, from sixteen registers a thread and no shared memory; of real devices and slices; those cut
down."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.cpus import CPUS
from vkernels.ir.errors import OptionError
from vkernels.ir.limits import Limits
from vkernels.targets import Target, known_targets, limits_of
from vkernels.targets.slices import slice_of


def random_limits(choose: random.Random, on_gpu: bool) -> Limits:
    """Of a GPU or of a CPU."""
    kind = choose.randint(0, 9)
    if kind < 3:
        return _real(choose, on_gpu)
    if kind < 6:
        return _cut(choose, _real(choose, on_gpu))
    return _gpu(choose) if on_gpu else _cpu(choose)


def _cpu(choose: random.Random) -> Limits:
    """From eight vector registers and no cache of its own."""
    return Limits(
        registers=choose.choice([8, 16, 32, choose.randint(8, 32)]),
        register_bytes=choose.choice([16, 32, 64]),
        shared=_none_or(choose, 64, 2 << 20),
        multiprocessors=_spread(choose, 1, 128),
        cache=_none_or(choose, 1 << 10, 256 << 20),
        memory=_spread(choose, 1 << 10, 1 << 38),
    )


def _gpu(choose: random.Random) -> Limits:
    """From sixteen registers a thread, no shared memory and one warp."""
    warp = choose.choice([32, 64])
    return Limits(
        registers=choose.choice([16, 32, 64, 128, 255, choose.randint(16, 512)]),
        register_bytes=4,
        shared=_none_or(choose, 64, 228 << 10),
        multiprocessors=_spread(choose, 1, 304),
        cache=_none_or(choose, 1 << 10, 256 << 20),
        threads=warp * choose.choice([1, 1, 2, 4, 8, 16, 32]),
        warp=warp,
        memory=_spread(choose, 1 << 10, 1 << 38),
        tensor_memory=choose.choice([0, 0, 32, 128, 512]),
        copies_ahead=choose.random() < 0.5,
        dots_from_shared=choose.random() < 0.5,
    )


def _cut(choose: random.Random, limits: Limits) -> Limits:
    """One or several of a device's limits halved, again and again."""
    on_gpu = limits.warp > 1
    least = {"registers": 16 if on_gpu else 8, "shared": 0, "memory": 1 << 10, "multiprocessors": 1}
    least |= {"threads": limits.warp, "tensor_memory": 0} if on_gpu else {}
    for name in choose.sample(sorted(least), choose.randint(1, 3)):
        times = choose.choice([1, 2, 3, 5, 8, 40])
        limits = replace(limits, **{name: max(least[name], getattr(limits, name) >> times)})
    return limits


def _real(choose: random.Random, on_gpu: bool) -> Limits:
    """A typical CPU; a GPU of the table, or a slice of it."""
    if not on_gpu:
        return choose.choice([*CPUS.values()])
    target = choose.choice([*known_targets().values()])
    cut = choose.choice(_cuts(choose, target))
    try:
        return limits_of(slice_of(target, cut) if cut else target)
    except OptionError:  # of numbers that this device's rules do not allow
        return limits_of(target)


def _cuts(choose: random.Random, target: Target) -> list[str]:
    """Slices of a device by name; "" for all of it."""
    units = choose.randint(1, target.multiprocessors)
    own = {
        "nvidia": [f"mps={choose.randint(1, 100)}", f"sms={choose.choice([8, 16, 32])}"],
        "amd": [f"cus={units}"],
    }
    return ["", *own.get(target.vendor, []), *(slice.name for slice in target.slices)]


def _spread(choose: random.Random, low: int, high: int) -> int:
    """A number of any size, small ones as often as large ones."""
    bits = choose.randint(low.bit_length() - 1, high.bit_length() - 1)
    return min(high, max(low, choose.randint(1 << bits, (2 << bits) - 1)))


def _none_or(choose: random.Random, low: int, high: int) -> int:
    return 0 if choose.random() < 0.15 else _spread(choose, low, high)
