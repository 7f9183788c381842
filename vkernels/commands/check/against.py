"""A run of `vk check` against a baseline, as text and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console

from vkernels.inspect.check.baseline import Baseline, Comparison

from ..formatting import printable


def as_json(found: Comparison, before: Baseline) -> dict[str, Any]:
    """Return the comparison as JSON."""
    return {
        "triton": before.triton, "compared": found.compared, "added": found.added, "missing": found.missing,
        "unknown": found.unknown,
        "regressions": [
            {
                **msgspec.to_builtins(each.now), "changes": list(each.changes),
                "file": None if each.place is None else each.place.file,
                "line": None if each.place is None else each.place.line,
            }
            for each in found.regressions
        ],
    }  # fmt: skip


def show(found: Comparison, before: Baseline, triton: str, console: Console) -> None:
    """Print each regression with the line of its kernel, a summary, and why nothing was compared, if so."""
    for each in found.regressions:
        console.print(printable(each.message, newlines=True), soft_wrap=True, markup=False)
    if before.triton != triton:
        console.print(f"The baseline is from Triton {before.triton}; this is Triton {triton}.", markup=False)
    others = (
        (found.added, "not in the baseline"), (found.missing, "only in the baseline"), (found.unknown, "now unknown"),
    )  # fmt: skip
    rest = "".join(f", {count} {words}" for count, words in others if count)
    console.print(f"Against the baseline: {found.compared} cells compared, {len(found.regressions)} worse{rest}.")
    if found.strangers is not None:
        then, now = found.strangers
        console.print(
            f"Nothing was compared. The baseline has {printable(then.shown)}; this run has {printable(now.shown)}.",
            soft_wrap=True, markup=False,
        )  # fmt: skip
