"""What benchmarks/tune_all.py makes of turns: parts of the best with their spread, and the table of all kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import json_lines

ENOUGH = 0.97
"""Part of the best plan's speed that tuning is to reach."""
CHOOSING = 1 / 3
"""Part of the turns by which the best plan is found; its speed is judged by the others, that were not chosen."""
SLOWER = 0.01
"""A tuned plan counts as slower than the default one where the median of the turns says so by more than this, and three
turns of four say so at all."""
DEFAULT, TUNED = "default", "tuned"

Record = dict[str, Any]
Turns = Mapping[str, Sequence[float]]
"""By plan, seconds in each turn; plans that are the same have the same name."""


def spread(values: Sequence[float]) -> Record:
    """The median, and the quarters below and above it."""
    lower, median, upper = np.quantile(values, [0.25, 0.5, 0.75])
    return {"median": float(median), "lower": float(lower), "upper": float(upper)}


def judged(turns: Turns, tuned: str, default: str) -> Record:
    """`best`: the fastest of all; `part`: its time over the tuned plan's, turn by turn; `gain`: the default's over the
    tuned plan's."""
    count = len(turns[tuned])
    choosing = max(1, round(CHOOSING * count))
    best = min(turns, key=lambda name: float(np.median(turns[name][:choosing])))
    rest = slice(choosing, None) if count > choosing else slice(None)

    def against(name: str) -> Record:
        return spread([other / own for other, own in zip(turns[name][rest], turns[tuned][rest], strict=True)])

    return {"best": best, "part": against(best), "gain": against(default)}


def is_slower(record: Record) -> bool:
    """Whether the tuned plan is slower than the default one."""
    gain = record["gain"]
    return bool(gain["median"] < 1 - SLOWER and gain["upper"] < 1)


def records_in(path: Path) -> dict[str, Record]:
    """By kernel, the last record that is one."""
    return {
        record["kernel"]: record
        for record in json_lines(path)
        if isinstance(record, dict) and isinstance(record.get("kernel"), str)
    }


def table(records: Iterable[Record]) -> str:
    """Records as Markdown, the smallest part of the best first; what could not be tuned last."""
    every = list(records)
    done = sorted((each for each in every if "failed" not in each), key=lambda each: each["part"]["median"])
    lines = [
        "| kernel | plans | best of | tried | part of the best | over the default | compiling, comparing, timing |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in done:
        long, tuned = each.get("long"), each["tuned"]
        of = (
            []
            if long is None
            else ["all" if long["stopped"] == "space" else f"{long['tried']}, {long['seconds']:.0f} s"]
        )
        of += [f"{each['known']} known"] if each.get("known") else []
        part = _said(each["part"]) if _has_rivals(each) else "–"
        lines.append(
            f"| `{each['kernel']}` | {each['plans']} | {' + '.join(of) or '–'} | {tuned['tried']} "
            f"| {part} | {_said(each['gain'])} | {_shares(tuned['spent'])} |"
        )
    lines += [f"| `{each['kernel']}` | | | | {each['failed'][:200]} | | |" for each in every if "failed" in each]
    return "\n".join([*lines, "", summary(every)])


def summary(records: Sequence[Record]) -> str:
    """How many kernels reach what."""
    done = [each for each in records if "failed" not in each]
    compared = [each for each in done if _has_rivals(each)]
    enough = sum(each["part"]["median"] >= ENOUGH for each in compared)
    tried = [each["tuned"]["tried"] for each in done]
    said = [
        f"{len(done)} kernels tuned, {len(records) - len(done)} failed",
        f"{enough} of {len(compared)} reach {ENOUGH} of the best",
        f"{sum(map(is_slower, done))} slower than the default",
    ]
    return "; ".join([*said, f"plans tried: {float(np.median(tried)):.0f} in the median"] if tried else said) + "."


def _has_rivals(record: Record) -> bool:
    """Whether the tuned plan was timed beside what others found, not beside the default alone."""
    return record.get("long") is not None or bool(record.get("known"))


def _said(numbers: Record) -> str:
    return f"{numbers['median']:.2f} ({numbers['lower']:.2f}–{numbers['upper']:.2f})"


def _shares(spent: Mapping[str, float]) -> str:
    total = sum(spent.values()) or 1.0
    return ", ".join(f"{100 * spent.get(name, 0.0) / total:.0f} %" for name in ("compiling", "running", "timing"))
