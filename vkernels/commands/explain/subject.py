"""Resolve the target that `vk explain` names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vkernels.ir.errors import OptionError
from vkernels.targets import Target

_PRESENT = ("nvidia:", "amd:")


def target_named(name: str | None, slice_: str | None, file: Path | None) -> Target:
    """Return a known target, one of this machine, or one of the user's file; cut into a slice if one is named.

    A file with a single device needs no name. Raises `OptionError`, and `FileError` for the file.
    """
    from vkernels.targets import load_targets
    from vkernels.targets.slices import target_or_slice

    own = load_targets(file) if file is not None else {}
    if name is None:
        if len(own) != 1:
            there = f"; --limits has {', '.join(own)}" if own else ""
            raise OptionError(f"--target: name a target; `vk targets` lists them{there}")
        name = next(iter(own))
    known = {**_known(name), **own}
    if slice_ is not None:
        if name not in known and any(name.startswith(f"{key}:") for key in known):
            raise OptionError(f"--slice: --target {name} names a slice already")
        name = f"{name}:{slice_}"
    try:
        return target_or_slice(name, known)
    except OptionError as error:
        raise OptionError(f"{'--target' if slice_ is None else '--slice'}: {error}") from error


def _known(name: str) -> Mapping[str, Target]:
    """Return known devices, this machine's CPU, and its GPUs if the name asks for one."""
    from vkernels.targets import known_targets
    from vkernels.targets.present import present_cpu
    from vkernels.targets.slices import present_slices

    if name.startswith(_PRESENT):
        return {**known_targets(), **{target.key: target for target in present_slices()}}
    return {**known_targets(), "cpu": present_cpu()}
