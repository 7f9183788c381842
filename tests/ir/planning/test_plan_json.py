"""Plans as JSON: they come back as they were, and nothing else comes in."""

import json
import typing
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.ir.errors import FileError
from vkernels.ir.pin import Pin
from vkernels.ir.plan import PLAN_TYPES, RANGES, Home, Plan
from vkernels.ir.plan_json import PlanRow, plan_from_json, plan_table, plan_to_json

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)


def values(kind):
    """Values of a field of a plan, whatever fields there come to be."""
    if typing.get_origin(kind) is tuple:
        return st.lists(values(typing.get_args(kind)[0]), max_size=4, unique=True).map(tuple)
    if typing.get_origin(kind) is not None and type(None) in typing.get_args(kind):
        return st.none() | values(typing.get_args(kind)[0])
    if typing.get_origin(kind) is not None:
        return st.dictionaries(NAMES, values(typing.get_args(kind)[1]), max_size=4)
    return {int: st.integers(1, 1 << 62), str: NAMES, Home: st.sampled_from(Home)}[kind]


BOUNDED = {name: st.integers(*bounds) for name, bounds in RANGES.items()}
BOUNDED["warps"] = st.sampled_from([1, 2, 4, 8, 16, 32, 64])
PLANS = st.builds(Plan, **{**{name: values(kind) for name, kind in PLAN_TYPES.items()}, **BOUNDED})


@given(plan=PLANS)
def test_plans_come_back_from_json_text(plan):
    again = plan_from_json(json.loads(json.dumps(plan_to_json(plan))))
    assert again == plan
    assert all(isinstance(home, Home) for home in again.homes.values())


def test_every_field_is_written_but_those_that_old_databases_do_not_know():
    """Entries and caches are found by the JSON of their plan, which must stay what it was for plans that do not
    have what was added later."""
    later = {
        "swizzle": 4, "private_copies": 2, "guards": ("j",), "descriptors": ("x",), "k_major": ("b",),
        "warp_specialized": ("k",), "parallel": ("h",),
    }  # fmt: skip
    assert plan_to_json(Plan(**later)).keys() == {each.name for each in fields(Plan)}
    assert plan_to_json(Plan()).keys() == {each.name for each in fields(Plan)} - later.keys()
    assert plan_from_json(plan_to_json(Plan())) == Plan()


def test_fields_that_are_not_there_have_their_defaults():
    assert plan_from_json({}) == Plan()
    assert plan_from_json({"warps": 8}) == Plan(warps=8)


REFUSED = {
    "a list": ([], "expected an object of fields, got a list"),
    "nothing": (None, "expected an object of fields, got None"),
    "an unknown field": ({"tile": {}}, "there is no field tile; did you mean tiles?"),
    "a field that moves the cursor": ({"\x1b[2J": 1}, "there is no field"),
    "tiles in a list": ({"tiles": ["i"]}, "tiles: expected an object, got a list"),
    "a text for a number": ({"tiles": {"i": "4"}}, "tiles.i: expected a whole number from 0, got '4'"),
    "true for a number": ({"warps": True}, "warps: expected a whole number"),
    "a fraction": ({"warps": 4.0}, "warps: expected a whole number"),
    "no program in a group": ({"swizzle": 0}, "swizzle: expected a whole number from 1"),
    "less than nothing": ({"stages": -1}, "stages: expected a whole number"),
    "a huge number": ({"chunks": {"j": 10**400}}, "chunks.j: expected a whole number from 0, got a huge number"),
    "no home": ({"homes": {"e": "attic"}}, "homes.e: expected registers or shared or recompute or memory, got attic"),
    "a list for a home": ({"homes": {"e": ["shared"]}}, "homes.e: expected registers"),
    "a text for a list": ({"packs": "ab"}, "packs: expected a list"),
    "a number among names": ({"packs": ["a", 3]}, "packs.1: expected a name, got 3"),
    "an empty name": ({"order": [""]}, "order.0: expected a name"),
    "a name with a line's end": ({"lanes": "i\nj"}, "lanes: expected a name"),
    "a long name": ({"lanes": "i" * 1000}, "lanes: expected a name"),
    "too many": ({"packs": ["a"] * 1001}, "packs: expected at most 1000 entries"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plan_is_refused_by_its_field(name):
    data, words = REFUSED[name]
    with pytest.raises(FileError) as error:
        plan_from_json(data, "plans.json")
    assert str(error.value).startswith("plans.json: ")
    assert words in str(error.value)
    assert str(error.value).isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(data=JSON | st.dictionaries(st.sampled_from([each.name for each in fields(Plan)]), JSON, max_size=3))
def test_any_json_is_a_plan_or_refused(data):
    try:
        plan = plan_from_json(data)
    except FileError:
        return
    assert plan_from_json(plan_to_json(plan)) == plan


def test_tables_have_a_row_for_each_decision_and_mark_what_is_pinned():
    plan = Plan(tiles={"i": 4}, chunks={"j": 64}, homes={"e": Home.SHARED}, packs=("a", "b"), lanes="j", warps=8)
    rows = plan_table(plan, Pin(tiles={"i": 4}, homes={"e": "shared"}, packs=("a", "b"), warps=8))
    assert PlanRow("tiles", "i", "4", pinned=True) in rows
    assert PlanRow("chunks", "j", "64") in rows
    assert PlanRow("homes", "e", "shared", pinned=True) in rows
    assert PlanRow("packs", "", "a, b", pinned=True) in rows
    assert PlanRow("lanes", "", "j") in rows
    assert PlanRow("warps", "", "8", pinned=True) in rows
    assert PlanRow("stages", "", "1") in rows
    assert not any(row.field in ("streams", "splits", "order") for row in rows)
    assert not any(row.pinned for row in plan_table(plan))
    assert len(plan_table(replace(plan, lanes=None))) == len(rows) - 1
