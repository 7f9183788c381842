"""What a machine lends, and which of it a job's slice means: by limits, not by where a device is in its machine."""

from __future__ import annotations

import importlib.util
import re
import socket
from collections.abc import Sequence
from functools import cache

from vkernels.autotune.database.entry import limits_hash
from vkernels.autotune.slice_names import place_of, slice_limits, slice_target, usable
from vkernels.ir.errors import OptionError, SetupError
from vkernels.targets import known_targets

from .records import Offer

CPU_SLICES = ("cpu:cores=1", "cpu")
_GPU = re.compile(r"(nvidia|amd)(?::\d{1,3})?")


def slices_here() -> list[str]:
    """What a machine lends by default: cores one by one, the whole CPU, and each GPU that torch can use."""
    return [*CPU_SLICES, *gpus_here()]


def gpus_here() -> list[str]:
    """GPUs that torch can use and whose limits are known, as `nvidia:0`."""
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    make = "nvidia" if torch.version.hip is None else "amd"
    found = [f"{make}:{number}" for number in range(torch.cuda.device_count())]
    return [name for name in found if _is_usable(name)]


def _is_usable(name: str) -> bool:
    try:
        slice_limits(name)
    except SetupError:
        return False
    return True


def offers_here(slices: Sequence[str]) -> list[Offer]:
    """What this machine offers: slices by name, as `cpu:cores=1`, each as often as it fits.

    A GPU is launched on from a core of its own, where there are enough; from an equal share of them if no slice of the
    CPU is lent. Raises `OptionError` for unknown or repeated names, and `SetupError` for an absent device.
    """
    if not slices or len(set(slices)) != len(slices):
        raise OptionError(f"expected different slices, got {', '.join(slices) or 'none'}")
    places = {name: place_of(name) for name in slices}
    gpus = [name for name, place in places.items() if place.device != "cpu"]
    mine = usable()
    share = max(1, len(mine) // len(gpus)) if len(gpus) == len(slices) else 1
    found = []
    for name, place in places.items():
        if place.device == "cpu":
            found.append(_offer(name, len(place.cores), mine))
        else:
            first = gpus.index(name) * share % len(mine)  # slices of the CPU begin at the last core
            found.append(_offer(name, share, mine[first : first + share]))
    return found


def _offer(name: str, width: int, cores: Sequence[int]) -> Offer:
    host = socket.gethostname()[:255]
    return Offer(name, slice_target(name).name, limits_hash(slice_limits(name)), width, host, list(cores))


def asks_for(slice: str, offer: Offer) -> bool:
    """Whether a job's slice may be this one.

    `nvidia` and `nvidia:0` are any NVIDIA GPU: its number says only where it is in a machine. A known device, as
    `h100-sxm5-80`, is one with the same limits. Slices of CPUs are meant by name.
    """
    if slice == offer.slice:
        return True
    one, other = _GPU.fullmatch(slice), _GPU.fullmatch(offer.slice)
    if one and other:
        return one[1] == other[1]
    return offer.limits == _known_limits(slice)


@cache
def _known_limits(slice: str) -> str | None:
    """The hash of the limits of a known device or a slice of one; None for other names."""
    if slice.partition(":")[0] not in known_targets():
        return None
    try:
        return limits_hash(slice_limits(slice))
    except OptionError:
        return None
