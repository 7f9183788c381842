"""Texts of the tuning report."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.autotune.report import ReportedSlice

ABOUT: Mapping[str, str] = {
    "overview": (
        "Each kernel and shape, with each device or slice that it was tuned for. The gain is over the plan that runs "
        "without tuning."
    ),
    "plans": "The best plan on each device or slice. Decisions that are the same everywhere are not listed.",
    "plan": "The best plan, with every decision.",
    "crossed": (
        "The best known time on the column's slice divided by the time of the row's plan there: 1 is as good as a plan "
        "tuned for that slice. A dot means not measured."
    ),
    "convergence": (
        "Each point is a plan that was tried, run after run; the line is the best time so far. Times are multiples of "
        "the final best. "
        "Crosses are plans that failed. Drag to zoom, double-click to reset."
    ),
    "parallel": (
        "A line for each plan, through its decisions and its time, as a multiple of the best. Drag along an axis to "
        "select plans, drag an axis's name to move it."
    ),
    "pairs": "The best time with each combination of two decisions that weigh most, as a multiple of the best of all.",
    "runs": "The best time so far of each tuning run by itself. Click a run in the legend to hide it.",
    "weights": (
        "For each decision, how many times slower the best plan with another value is: the cost of getting this one "
        "decision wrong and all others right, among the plans that were tried."
    ),
}

REASONS: Mapping[str, str] = {
    "does-not-fit": "needs more than the slice has",
    "compile-error": "did not compile",
    "time-out": "took too long",
    "crash": "crashed the measuring process",
    "wrong-answer": "result differs from the reference",
    "refused": "not a legal plan for this kernel",
}


def gain_of(each: ReportedSlice) -> str:
    """Return the speed-up of the best plan over the untuned one; empty if unknown."""
    gain = each.group.gain
    return "" if gain is None else f"×{gain:.2f}"


def when_of(each: ReportedSlice) -> str:
    """Return driver and clocks as one line."""
    where = (each.best or each.group.entries[0]).provenance
    clocks = [f"{name} {megahertz:.0f} MHz" for name, megahertz in where.clocks.items()]
    return ", ".join(filter(None, [where.driver, *clocks]))
