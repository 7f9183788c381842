"""What the page says in words."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.autotune.report import Slice, Subject

ABOUT: Mapping[str, str] = {
    "glance": (
        "Each kernel and shape, with each device or slice of one that it was tuned for. The gain is over "
        "the plan that runs without tuning."
    ),
    "plans": "The best plan on each, where they differ. All that is not listed is the same.",
    "one plan": "The best plan, with every decision.",
    "crossed": (
        "The best time that is known there, as a part of what the row's plan takes: 1 is as good as tuned for it. A "
        "dot: nobody measured that."
    ),
    "convergence": (
        "Each point is a plan that was tried, the line the best until then, as a multiple of the best in the end. "
        "Crosses below are plans that failed."
    ),
    "weights": (
        "How much longer than the best plan the best one takes that has another value there: what it costs to get this "
        "one choice wrong, and all others right, as far as was tried."
    ),
}

REASONS: Mapping[str, str] = {
    "does-not-fit": "took more than the slice has",
    "compile-error": "the compiler gave no code",
    "time-out": "took too long",
    "crash": "ended its process",
    "wrong-answer": "differed from the reference",
    "refused": "the kernel cannot have that plan",
}


def title_of(subject: Subject) -> str:
    """Kernel, sizes and dtypes."""
    sizes = " ".join(f"{name}={size}" for name, size in subject.shape.items())
    dtypes = [part.partition("=")[2] for part in subject.dtypes.split()]
    return f"{subject.kernel} {sizes} {dtypes[0] if len(set(dtypes)) == 1 else subject.dtypes}"


def gain_of(each: Slice) -> str:
    """How many times faster the best plan is than the one that runs without tuning; empty where that is not known."""
    gain = each.group.gain
    return "" if gain is None else f"×{gain:.2f}"


def when_of(each: Slice) -> str:
    """Driver and clocks."""
    where = (each.best or each.group.entries[0]).provenance
    clocks = [f"{name} {megahertz:.0f} MHz" for name, megahertz in where.clocks.items()]
    return ", ".join(filter(None, [where.driver, *clocks]))
