"""How well needs predict what binaries take: records of benchmarks/needs.py, compared and as a table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from needs_plans import Subject, subject_of

from vkernels.compiler.specialise import kernel_in
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.analysis.needs.needs import SPILL_ALLOWANCE
from vkernels.ir.limits import Limits
from vkernels.ir.plan_json import plan_from_json
from vkernels.library.catalogue import CATALOGUE
from vkernels.targets import known_targets, limits_of

FITTED_ON = ("sm_80", "gfx942")
HELD_OUT = ("mlp", "attention", "segment_sum", "csr_matmul", "cumulative_sum", "stencil")
"""Families of kernels that constants were not fitted on; those of others on `FITTED_ON` alone."""


@dataclass(frozen=True)
class Judged:
    """One plan of a kernel on one architecture: what was predicted, and what the binaries say.

    `need`: registers of the worst launch, and 4-byte words that it spills. `fits`: whether shared memory, tensor memory
    and threads are within limits and a thread spills no more than `SPILL_ALLOWANCE` bytes; `fits_without`: no byte.
    """

    kernel: str
    family: str
    architecture: str
    predicted: float
    need: float
    spilled: int
    predicted_fit: bool
    fits: bool
    fits_without: bool
    shared_right: bool

    @property
    def is_held_out(self) -> bool:
        return self.family in HELD_OUT or self.architecture not in FITTED_ON


def judged(lines: Iterable[str]) -> Iterator[Judged]:
    """Records whose launches all compiled, each plan once, with what needs predict of them."""
    subjects = {subject.name: subject for subject in map(subject_of, CATALOGUE)}
    limits: dict[str, Limits] = {}
    for target in known_targets().values():
        limits.setdefault(target.architecture, limits_of(target))
    seen = set()
    for record in map(json.loads, lines):
        key = json.dumps([record["kernel"], record["architecture"], record["plan"]], sort_keys=True)
        if key in seen or record["kernel"] not in subjects or any("failure" in one for one in record["launches"]):
            continue
        seen.add(key)
        yield _judged(record, subjects[record["kernel"]], limits[record["architecture"]])


def _judged(record: Mapping[str, Any], subject: Subject, limits: Limits) -> Judged:
    device, launches = NeedsDevice.of(limits), record["launches"]
    use = annotate_needs(kernel_in(subject.preparer.module)).evaluate(
        plan_from_json(record["plan"]), subject.preparer.sizes, device
    )
    worst = {name: max(launch[name] for launch in launches) for name in ("shared", "tensor_memory", "stack", "threads")}
    room = worst["tensor_memory"] <= limits.tensor_memory and worst["threads"] <= limits.threads
    shared = worst["shared"] <= limits.shared
    predicted_shared = use.shared_bytes <= limits.shared
    predicted_room = use.tensor_memory_columns <= limits.tensor_memory and use.threads <= limits.threads
    need = max(launch["registers"] + launch["stack"] / 4 for launch in launches)
    return Judged(
        subject.name, subject.entry.family, record["architecture"], use.registers_a_thread, need, worst["stack"],
        predicted_shared and predicted_room and not use.spills, shared and room and worst["stack"] <= SPILL_ALLOWANCE,
        shared and room and worst["stack"] == 0, shared == predicted_shared,
    )  # fmt: skip


def spearman(rows: Sequence[Judged]) -> float:
    """Of predicted registers and of what was needed; not a number where fewer than five plans or no difference."""
    from scipy.stats import spearmanr

    if len(rows) < 5 or len({row.need for row in rows}) < 2 or len({row.predicted for row in rows}) < 2:
        return math.nan
    return float(spearmanr([row.predicted for row in rows], [row.need for row in rows]).statistic)


def summary(rows: Sequence[Judged]) -> list[str]:
    """Plans, those that fit; right about fit, about shared memory, about fit with no byte spilled; then Spearman's
    coefficient of each kernel on each architecture: median, tenth percentile, share of 0.8 or more, and the median
    without spills.
    """
    cells: dict[tuple[str, str], list[Judged]] = {}
    for row in rows:
        cells.setdefault((row.kernel, row.architecture), []).append(row)
    all_ = [rho for cell in cells.values() if not math.isnan(rho := spearman(cell))]
    dry = [rho for cell in cells.values() if not math.isnan(rho := spearman([r for r in cell if not r.spilled]))]

    def share(right: Iterable[bool]) -> str:
        listed = list(right)
        return f"{100 * sum(listed) / len(listed):.1f} %"

    def quantile(values: Sequence[float], at: float) -> str:
        return f"{np.quantile(values, at):.2f}" if values else "–"

    return [
        str(len(rows)), share(r.fits for r in rows), share(r.fits == r.predicted_fit for r in rows),
        share(r.shared_right for r in rows), share(r.fits_without == r.predicted_fit for r in rows),
        quantile(all_, 0.5), quantile(all_, 0.1), share(rho >= 0.8 for rho in all_) if all_ else "–",
        quantile(dry, 0.5),
    ]  # fmt: skip


HEADER = (
    "",
    "plans",
    "fit",
    "fit right",
    "shared right",
    "right, no byte spilled",
    "ρ",
    "ρ, tenth",
    "ρ ≥ 0.8",
    "ρ, no spills",
)


def table(rows: Sequence[Judged]) -> Iterator[str]:
    """As Markdown: what constants were fitted on and what not, then architectures, then kernels."""
    groups: dict[str, list[Judged]] = {"all": list(rows)}
    fitted = [row for row in rows if not row.is_held_out]
    groups["fitted on"] = fitted
    groups["held out: architectures"] = [r for r in rows if r.family not in HELD_OUT and r.is_held_out]
    groups["held out: kernels"] = [row for row in rows if row.family in HELD_OUT]
    for row in rows:
        groups.setdefault(row.architecture, []).append(row)
    for row in sorted(rows, key=lambda row: row.kernel):
        groups.setdefault(row.kernel, []).append(row)
    yield f"| {' | '.join(HEADER)} |"
    yield f"|---|{'---:|' * (len(HEADER) - 1)}"
    for name, members in groups.items():
        if members:
            yield f"| {name} | {' | '.join(summary(members))} |"
