"""The kinds of random cases, and what comes of a seed's cases of each."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from .outcome import Failure, Outcome, shortened

Note = Callable[[str], None]
"""Is told what comes next, so that a crash or a hang can be told of."""


def run_planned(seed: int, note: Note) -> Outcome:
    """A kernel planned for random limits: each plan that is chosen is run on several calls."""
    from .planned_cases.group import run_group

    return run_group(seed, note)


def run_drawn(seed: int, note: Note) -> Outcome:
    """A random kernel under random plans: interpreted as written, in phases and mapped; native; and as TTIR."""
    from .random_kernels.compare import Counts, check, check_ttir

    outcome = Outcome()
    counts = Counts(outcome=outcome)
    for way, run in (("as on a CPU", check), ("as on a GPU", check_ttir)):
        note(f"random kernel {seed}, {way}")
        try:
            run(seed, counts)
        except Exception:
            outcome.failures.append(Failure(seed, f"random kernel {seed}, {way}", shortened(traceback.format_exc())))
    found = {"interpreted": counts.mapped, "native": counts.compiled, "TTIR": counts.lowered}
    outcome.counts.update(found)
    outcome.counts.update({"cases": sum(found.values()), "refused": counts.refused.total(), "in place": counts.aliased})
    return outcome


KINDS: dict[str, Callable[[int, Note], Outcome]] = {"planned": run_planned, "drawn": run_drawn}


def kind_of(seed: int, kinds: Sequence[str]) -> str:
    """Which of some kinds a seed's cases are of."""
    return kinds[seed % len(kinds)]
