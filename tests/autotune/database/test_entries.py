"""Entries are read as a stranger's: whatever is odd is refused with what and where, and nothing else happens."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.autotune.database.entry_json import (
    SCHEMA_FILE,
    document_of,
    document_schema,
    entries_of,
    entry_from_text,
    entry_to_json,
    entry_to_text,
)
from vkernels.ir.errors import FileError
from vkernels.targets import limits_of
from vkernels.targets.table import known_targets

from .making import entry

GOOD = entry_to_json(entry(1))
HUGE = 10**30


def changed(path: str, value: object) -> dict[str, object]:
    """The good entry with another value at a place."""
    found = copy.deepcopy(GOOD)
    *way, last = path.split(".")
    at = found
    for name in way:
        at = at[name]
    at[last] = value
    return found


HOSTILE = {
    "another field": changed("surprise", 1),
    "a failure of no known kind": changed("failure", "bored"),
    "a failure with a time": changed("failure", "crash"),
    "no time": changed("seconds", None),
    "a time of 0": changed("low", 0),
    "a time below 0": changed("seconds", -1.0),
    "a time that is text": changed("seconds", "1"),
    "a time outside its interval": changed("high", 0.5),
    "a truth for a number": changed("repeats", True),
    "a huge number": changed("repeats", HUGE),
    "an origin of no known kind": changed("origin", "dreamt"),
    "limits that are not the key's": changed("limits.shared", 7),
    "limits without end": changed("limits.registers", HUGE),
    "limits of text": changed("limits.sizes", "large"),
    "half of a multiprocessor": changed("limits.sizes", {"warp": 32}),
    "no multiprocessors": changed("limits.multiprocessors", 0),
    "a class that is not the shape's": changed("shape.N", 5),
    "a size below 0": changed("shape.N", -1),
    "a hash that is none": changed("key.kernel_hash", "../../etc"),
    "a plan of text": changed("plan", "fast"),
    "a plan with another field": changed("plan.surprise", 1),
    "a tile of text": changed("plan.tiles", {"i": "4"}),
    "a home that is none": changed("plan.homes", {"e": "the moon"}),
    "a terminal's control characters": changed("provenance.device", "\x1b[2J"),
    "a name without end": changed("kernel", "k" * 100_000),
    "a text without end": changed("text", "t" * 100_000),
    "a constant that is a list": changed("constants", {"block": [1]}),
    "more names than anybody has": changed("shape", {f"N{n}": 1 for n in range(2000)}),
    "a clock that is none": changed("provenance.clocks", {"core": "fast"}),
    "what was modelled as a choice": {**changed("final", True), "origin": "modelled"},
    "a list": [1],
    "nothing": None,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_odd_is_refused_with_what_and_where(name):
    with pytest.raises(FileError, match="the entry") as caught:
        entry_from_text(json.dumps(HOSTILE[name]))
    assert len(str(caught.value)) < 500
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("missing", ["key", "kernel", "shape", "limits", "plan", "provenance"])
def test_what_is_missing_is_named(missing):
    with pytest.raises(FileError, match=f"missing required field `{missing}`"):
        entry_from_text(json.dumps({name: value for name, value in GOOD.items() if name != missing}))


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", '{"kernel": 1, "kernel": 2}', "[" * 100_000, "1" * 10_000, '{"seconds": Infinity}'],
    ids=["nothing", "half", "no number", "twice", "nested", "digits", "endless"],
)  # fmt: skip
def test_no_json_is_refused(text):
    with pytest.raises(FileError):
        entry_from_text(text)


@pytest.mark.slow
@given(data=st.data())
def test_a_document_with_anything_anywhere_is_read_or_refused(data):
    text = entry_to_text(entry(1))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    text = (
        text[:start] + data.draw(st.text(max_size=8) | st.sampled_from(["null", "-1", "{}", "[]", '""'])) + text[end:]
    )
    try:
        found = entry_from_text(text)
    except FileError:
        return
    assert entry_from_text(entry_to_text(found)) == found


@pytest.mark.parametrize("target", sorted(known_targets()))
def test_limits_of_every_target_go_round(target):
    given = entry(1, limits=limits_of(known_targets()[target]))
    assert entry_from_text(entry_to_text(given)) == given


def test_the_schema_in_the_package_is_the_one_of_what_is_read():
    """After a change: SCHEMA_FILE.write_text(json.dumps(document_schema(), indent=1) + "\\n")."""
    assert json.loads(SCHEMA_FILE.read_text()) == document_schema()


def test_a_document_is_as_its_schema_says_and_hostile_ones_are_not():
    jsonschema = pytest.importorskip("jsonschema")
    schema = document_schema()
    check = jsonschema.Draft202012Validator(schema)
    check.check_schema(schema)
    limits = [limits_of(target) for target in known_targets().values()]
    some = [entry(1), entry(2, failure="crash", text="x"), entry(3, final=True, constants={"a": None})]
    check.validate(json.loads(json.dumps(document_of([*some, *(entry(1, limits=each) for each in limits)]))))
    left = {name for name, odd in HOSTILE.items() if check.is_valid({**document_of([]), "entries": [odd]})}
    assert left == {
        "a failure with a time", "no time", "a time outside its interval", "limits that are not the key's",
        "a class that is not the shape's", "a terminal's control characters", "what was modelled as a choice",
    }  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [[], {}, {"kind": "vkernels tuning entries"}, {**document_of([]), "schema_version": 2},
     {**document_of([]), "schema_version": True}, {**document_of([]), "entries": {}}, {**document_of([]), "more": 1},
     {**document_of([entry(1)]), "kind": "a cat"}],
    ids=["a list", "empty", "kind only", "newer", "a truth", "an object", "more", "another kind"],
)  # fmt: skip
def test_another_document_is_refused(document):
    with pytest.raises(FileError):
        entries_of(document)
