"""Targets and slices by what the command line calls them: `t4`, `h100-sxm5-80:1g.10gb`, `cpu:cores=2`."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError

from ..target import Target
from .slice_of import slice_of


def target_or_slice(name: str, targets: Mapping[str, Target]) -> Target:
    """One of some targets by its key, or a slice of it as `KEY:SLICE`. Raises `OptionError` with what was meant."""
    if name in targets:
        return targets[name]
    keys = [key for key in targets if name.startswith(f"{key}:")]
    if not keys:
        key, _, rest = name.partition(":")
        number = rest.partition(":")[0]
        if key in ("nvidia", "amd") and number.isdecimal():  # of this machine's, not a slice
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
