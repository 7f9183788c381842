"""What a seed's random cases came to."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen

SIZES = ("tiles", "chunks", "lanes", "order", "warps")
"""What every plan decides."""
LONGEST = 3000
"""Characters of a message, at most."""


@dataclass(frozen=True)
class Failure:
    """What went wrong where, and all that is needed to see it again."""

    seed: int
    where: str
    message: str


@dataclass
class Outcome:
    """What a seed's cases came to. `plans`, `codes`: a digest of each that was different."""

    counts: Counter[str] = field(default_factory=Counter)
    plans: set[str] = field(default_factory=set)
    codes: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)

    def note_plan(self, plan: Plan, code: tuple[object, ...]) -> None:
        """Count a plan that runs, and what it decides beside sizes. `code`: all that its code follows from."""
        self.plans.add(digest(plan))
        self.codes.add(digest(code))
        self.counts.update(f"plans with {decision}" for decision in decisions_of(plan))


def decisions_of(plan: Plan) -> Iterator[str]:
    """What a plan decides beside sizes, lanes and order."""
    plain = Plan()
    for each in fields(Plan):
        if each.name not in SIZES and getattr(plan, each.name) != getattr(plain, each.name):
            yield each.name


def digest(decision: Plan | tuple[object, ...]) -> str:
    return hashlib.blake2b(repr(frozen(decision)).encode(), digest_size=8).hexdigest()


def shortened(text: str) -> str:
    return text if len(text) < LONGEST else f"{text[: LONGEST // 10]}\n…\n{text[-LONGEST * 5 // 6 :]}"
