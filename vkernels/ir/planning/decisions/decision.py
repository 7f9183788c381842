"""A decision of a plan, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...cost_model.plan_batch import Numbers, PlanBatch
from ..space import PlanSearchSpace, StructuralChoices

Alternatives = Callable[[StructuralChoices], Iterable[StructuralChoices]]
"""Gives the other values that one thing can have, all else as chosen."""


@dataclass(frozen=True)
class PlanDecision:
    """One field of a plan.

    `field`: its name in `Plan`, and in `Pin`. `subject`: what a pin of it names: a tile axis, a whole axis, an axis, a
    tensor, a scratchpad, a phase, or nothing (`check_pin.py` knows the names of each); `meaning`: what it says, for
    `vk explain`. `alternatives`: what the search tries, one thing after another; nothing for sizes, which are tried all
    at once. `title`: its name in tables, its field's if empty. `entry`: what the tuner and its reports call one entry
    of a mapping or a list. `plain`: the value that is not worth showing. `gpu_only`: CPUs have no choice.

    `names`: of a list, the names that it can have in a kernel. `weight`: how much a plan has to win, in units of
    `DECISION_MUST_WIN`, for each of its names, or for a value that is not plain; `as_one`: for all names together,
    which are chosen at once. `with_split`: false for what a kernel with a split axis cannot have. `worthwhile`: which
    plans of a batch the search looks at.

    Whether a kernel can have what is decided is checked where it is mapped (`transforms/apply_plan/check_plan.py`).
    """

    field: str
    subject: str = ""
    meaning: str = ""
    alternatives: Callable[[PlanSearchSpace], Iterable[Alternatives]] = lambda space: ()
    title: str = ""
    entry: str = ""
    plain: object = None
    gpu_only: bool = False
    names: Callable[[PlanSearchSpace], Sequence[str]] | None = None
    weight: int = 0
    as_one: bool = False
    with_split: bool = True
    worthwhile: Callable[[PlanSearchSpace, PlanBatch], Numbers] = lambda space, at: True
