"""A slice of a device, as a target: what it leaves unchanged, what it scales."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NoReturn

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError

from ..target import Target
from .cuts import CPU_CUTS, GPU_CUTS, mig_instance, partition

MAX_SPEC_CHARACTERS = 200

_WHOLE = re.compile(r"[1-9][0-9]{0,14}")
_PERCENT = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3})?")


@dataclass(frozen=True)
class Option:
    """A part of a spec that has a value. `unit`: what it counts, for messages."""

    unit: str
    is_percentage: bool = False


OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "nvidia": {"mps": Option("percent", is_percentage=True), "sms": Option("multiprocessors")},
    "amd": {"cus": Option("compute units")},
    "cpu": {
        "cores": Option("cores"),
        "l2": Option("bytes of a core's L2"),
        "l3": Option("bytes of L3"),
        "registers": Option("vector registers"),
    },
}
"""What each vendor's devices can be cut by, beside profiles and partition modes."""


@dataclass(frozen=True)
class Spec:
    """A spec understood: a profile's name as the device has it, or none, then options in their order."""

    profile: str | None
    options: tuple[tuple[str, Fraction], ...]


def parse_spec(text: str, device: str, vendor: str, profiles: Sequence[str]) -> Spec:
    """A spec's text, for a device that has some profiles.

    Parts stand between commas: a profile, first if at all, and options, each once. Raises `OptionError` that says
    what is wrong with which part, and what may have been meant.
    """

    def refuse(message: str) -> NoReturn:
        raise OptionError(f"{device}:{_shown(text)}: {message}")

    options = OPTIONS.get(vendor, {})
    names = [*map(str.lower, profiles), *(f"{name}=…" for name in options)]
    if not text or len(text) > MAX_SPEC_CHARACTERS:
        refuse(f"expected a slice: {', '.join(names)}")
    profile: str | None = None
    found: dict[str, Fraction] = {}
    for number, part in enumerate(text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            if number:
                refuse(f"{_shown(part)} must come first, and alone, as a slice of the whole device")
            profile = _profile(part, profiles)
            if profile is None:
                refuse(f"there is no slice {_shown(part)}; {did_you_mean(part.lower(), names)}")
        elif name not in options:
            refuse(f"there is no {_shown(name)} to cut {device} by; {_meant_option(name, options, names)}")
        elif name in found:
            refuse(f"{name} is given twice")
        else:
            found[name] = _value(value, options[name]) or refuse(
                f"{name} is {_shown(value)}; expected {_expected(options[name])}"
            )
    if {"mps", "sms"} <= found.keys():
        refuse("mps and sms are two ways to share multiprocessors; choose one")
    return Spec(profile, tuple(found.items()))


def _profile(part: str, profiles: Sequence[str]) -> str | None:
    """The profile of that name in any case; `cpx` alone is the first of that mode."""
    for name in profiles:
        if part.lower() in (name.lower(), name.lower().split("/")[0]):
            return name
    return None


def _value(text: str, option: Option) -> Fraction | None:
    if not (_PERCENT if option.is_percentage else _WHOLE).fullmatch(text):
        return None
    value = Fraction(text)
    return None if value == 0 or (option.is_percentage and value > 100) else value


def _expected(option: Option) -> str:
    return "a percentage above 0, up to 100" if option.is_percentage else f"a whole number of {option.unit}"


def _meant_option(name: str, options: Mapping[str, Option], names: Sequence[str]) -> str:
    return did_you_mean(name, [*options]) if options else f"there are {', '.join(names) or 'none'}"


def _shown(text: str) -> str:
    """A text as it may be printed: short, and without a terminal's control characters."""
    short = text if len(text) <= 60 else f"{text[:60]}…"
    return short if short.isprintable() else repr(short)


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


def target_or_slice(name: str, targets: Mapping[str, Target]) -> Target:
    """One of some targets by its key, or a slice of it as `KEY:SLICE`. Raises `OptionError` with what was meant."""
    if name in targets:
        return targets[name]
    keys = [key for key in targets if name.startswith(f"{key}:")]
    if not keys:
        key, _, rest = name.partition(":")
        number = rest.partition(":")[0]
        if key in ("nvidia", "amd") and number.isdecimal():  # a device of this machine, not a slice
            key = f"{key}:{number}"
        raise OptionError(f"there is no target {key!r}; {did_you_mean(key, [*targets])}")
    key = max(keys, key=len)  # of this machine's, `nvidia:0`
    return slice_of(targets[key], name.removeprefix(f"{key}:"))


def split_names(text: str) -> list[str]:
    """Names between commas. What has a `=` but no `:` is more of the slice before it: `cpu:cores=2,l2=262144,t4`."""
    names: list[str] = []
    for entry in map(str.strip, text.split(",")):
        if names and ":" in names[-1] and "=" in entry and ":" not in entry:
            names[-1] += f",{entry}"
        else:
            names.append(entry)
    return names
