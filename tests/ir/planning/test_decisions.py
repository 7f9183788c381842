"""Every field of a plan is a decision that is listed once."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

from vkernels.ir.pin import Pin
from vkernels.ir.plan import AS_IN_PLANS, PLAN_TYPES, Plan, StructuralChoices
from vkernels.ir.planning.decisions.decisions import DECISIONS, starting_choices, things_to_decide

from .test_plan_batches import space_of


def test_every_field_of_a_plan_is_one_decision():
    listed = [decision.field for decision in DECISIONS]
    assert sorted(listed) == sorted({each.name for each in fields(Plan)})
    assert set(listed) <= {each.name for each in fields(Pin)}


def test_structural_choices_have_the_types_that_plans_have():
    structural = get_type_hints(StructuralChoices)
    assert {name: structural[name] for name in AS_IN_PLANS} == {name: PLAN_TYPES[name] for name in AS_IN_PLANS}
    assert set(structural) - set(AS_IN_PLANS) == {"held", "homes", "split"}


def test_what_is_tried_instead_differs_from_what_is_chosen():
    space = space_of("attention_rows")
    start = next(starting_choices(space))
    others = [other for alternatives in things_to_decide(space) for other in alternatives(start)]
    assert others
    assert start not in others
