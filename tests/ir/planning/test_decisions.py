"""Every field of a plan is a decision that is listed once."""

from __future__ import annotations

from dataclasses import fields

from vkernels.ir.pin import Pin
from vkernels.ir.plan import Plan
from vkernels.ir.planning.decisions.decisions import DECISIONS, starting_choices, things_to_decide

from .test_plan_batches import space_of


def test_every_field_of_a_plan_is_one_decision():
    listed = [decision.field for decision in DECISIONS]
    assert sorted(listed) == sorted({each.name for each in fields(Plan)})
    assert set(listed) <= {each.name for each in fields(Pin)}


def test_what_is_tried_instead_differs_from_what_is_chosen():
    space = space_of("attention_rows")
    start = next(starting_choices(space))
    others = [other for alternatives in things_to_decide(space) for other in alternatives(start)]
    assert others
    assert start not in others
