"""A slice of a device, as a target: what it leaves unchanged, what it scales."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ..target import Target
from .cpu import CUTS as CPU_CUTS
from .multiprocessors import CUTS as GPU_CUTS
from .profiles import mig_instance, partition
from .spec import parse_spec


def slice_of(target: Target, text: str) -> Target:
    """A slice of a device: `1g.10gb`, `mps=50`, `sms=16`, `cpx/nps4`, `cus=38`, `cores=2,l2=524288`; docs/slices.md.

    It is a target itself, called `TARGET:SLICE`, with sizes of the multiprocessors (or cores) that it has, and rates.
    Options apply from left to right, each to what those before it left. Raises `OptionError` for what this device
    cannot be cut into.
    """
    spec = parse_spec(text, target.key, target.vendor, [profile.name for profile in target.slices])
    found = target
    if spec.profile is not None:
        (profile,) = (profile for profile in target.slices if profile.name == spec.profile)
        found = mig_instance(found, profile) if profile.kind == "mig" else partition(found, profile)
    for name, value in spec.options:
        found = {**CPU_CUTS, **GPU_CUTS}[name](found, value, f"{target.key}:{text}")
    parts = [*([spec.profile] if spec.profile else []), *(f"{name}={_plain(value)}" for name, value in spec.options)]
    return replace(
        found,
        key=f"{target.key}:{','.join(parts).lower()}",
        name=f"{target.name}, {' '.join(parts)}",
        slices=(),
        note="",
        sources={},
        like=target.key,
    )


def _plain(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
