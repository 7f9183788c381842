"""Misspelt fields are refused with the fields that are meant; copies and pickles of what is right stay as they are."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import fields, replace

import pytest

import vkernels as vk

RIGHT = (
    vk.Pin(tiles={"M": 64}, warps=8, homes={"row": "shared"}),
    vk.Plan(tiles={"i": 4}, stages=2),
    vk.Budget(registers=64),
    vk.Tuning(budget=3.0),
)
KINDS = pytest.mark.parametrize("right", RIGHT, ids=lambda right: type(right).__name__)


@pytest.mark.parametrize(
    ("kind", "field", "meant"),
    [
        (vk.Pin, "tile", "did you mean tiles?"),
        (vk.Plan, "num_stages", "did you mean stages?"),
        (vk.Budget, "register", "did you mean registers?"),
        (vk.Budget, "xyz", "there are registers, shared, threads"),
        (vk.Tuning, "budgets", "did you mean budget?"),
    ],
)
def test_a_field_that_does_not_exist_is_refused(kind, field, meant):
    with pytest.raises(vk.OptionError) as caught:
        kind(**{field: 1})
    assert str(caught.value) == f"vk.{kind.__name__}: there is no field {field!r}; {meant}"


def test_a_replaced_field_must_exist():
    with pytest.raises(vk.OptionError, match="did you mean stages"):
        replace(vk.Plan(), stage=2)


@KINDS
def test_copies_and_pickles_are_equal(right):
    assert copy.deepcopy(right) == right
    assert pickle.loads(pickle.dumps(right)) == right
    assert replace(right) == right


@KINDS
def test_the_signature_shows_the_fields(right):
    assert [*inspect.signature(type(right)).parameters] == [each.name for each in fields(right)]
