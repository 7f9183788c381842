"""Resolve target and slice options to targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vkernels.ir.errors import OptionError

if TYPE_CHECKING:
    from vkernels.targets import Target

ALL = "all"


def chosen_targets(named: str, table: Path | None, slices: Sequence[str]) -> list[Target]:
    """Return named targets, or all known ones, and those of the user's table; each cut into each slice, if any.

    With `all`, targets that cannot be cut that way are left out. Raises `OptionError` for unknown names.
    """
    from vkernels.targets import known_targets, load_targets
    from vkernels.targets.present import present_cpu
    from vkernels.targets.slices import split_names, target_or_slice

    own = load_targets(table) if table is not None else {}
    known = {**known_targets(), **own}
    if named == ALL:
        found = list(known.values())
    else:
        names = split_names(named)
        if any(name.partition(":")[0] == "cpu" for name in names):
            known["cpu"] = present_cpu()
        try:
            found = [*(target_or_slice(name, known) for name in names), *own.values()]
        except OptionError as error:
            raise OptionError(f"--targets: {error}") from error
    if slices:
        found = list(_cut(found, slices, must=named != ALL))
    return list({target.key: target for target in found}.values())


def specs_in(text: str) -> list[str]:
    """Split slices at commas. A part with `=` continues the slice before it, if there is one."""
    specs: list[str] = []
    for part in map(str.strip, text.split(",")):
        if specs and "=" in part:
            specs[-1] += f",{part}"
        else:
            specs.append(part)
    return specs


def _cut(targets: Iterable[Target], slices: Sequence[str], must: bool) -> list[Target]:
    from vkernels.targets.slices import slice_of

    specs = [spec for text in slices for spec in specs_in(text)]
    found, refused = [], []
    for target in targets:
        if ":" in target.key and target.like is not None:
            raise OptionError(f"--slice cuts whole devices; {target.key} is a slice already")
        for spec in specs:
            try:
                found.append(slice_of(target, spec))
            except OptionError as error:
                refused.append(error)
    if refused and (must or not found):
        raise OptionError(f"--slice: {refused[0]}")
    return found
