"""What a signature says of parameters, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.inspect.specialisation import (
    NUMBERS,
    TritonParameter,
    parse_assignments,
    parse_signature,
    parse_value,
    split_at_commas,
)
from vkernels.ir.errors import OptionError

X, Y, N, BLOCK = (
    TritonParameter("x", False),
    TritonParameter("y", False),
    TritonParameter("n", False),
    TritonParameter("BLOCK", True),
)
ALL = [X, Y, N, BLOCK]


def test_types_hints_and_constants_are_told_apart():
    found = parse_signature("*fp16:16, *bf16,i32", ALL, {"BLOCK": 128})
    assert found.types == (("x", "*fp16"), ("y", "*bf16"), ("n", "i32"))
    assert (found.divisible, found.constants) == (("x",), (("BLOCK", 128),))


@pytest.mark.parametrize("text", ["*fp16:16,*fp16,i32,128", "*fp16:16,*fp16,i32:1", "*fp16:16,*fp16,1"])
def test_constants_may_stand_in_their_place(text):
    found = parse_signature(text, ALL, {})
    assert found.types[:2] == (("x", "*fp16"), ("y", "*fp16"))
    assert dict(found.constants) in ({"BLOCK": 128}, {"n": 1})


def test_a_constant_takes_its_parameters_place_among_the_passed():
    for text in ("*fp16,*fp16", "*fp16,*fp16,i32"):
        found = parse_signature(text, ALL, {"n": 64})
        assert (dict(found.constants), len(found.types)) == ({"n": 64}, 2)


def test_descriptors_keep_their_commas():
    found = parse_signature("tensordesc<fp16[64, 32]>,i32:16,i32", ALL, {})
    assert found.types[0] == ("x", "tensordesc<fp16[64,32]>")
    assert found.divisible == ("y",)


@pytest.mark.parametrize(
    ("text", "constants", "message"),
    [
        ("*fp16", {}, "has 1 entries; expected 3, for x, y, n"),
        ("", {}, "has 0 entries"),
        ("*fp16,*fp16,i32,1,2", {}, "has 5 entries"),
        ("*float16,*fp16,i32", {}, "x is '\\*float16'"),
        ("*fp16:8,*fp16,i32", {}, "expected :16"),
        ("*fp16:1,*fp16,i32", {}, "expected :16"),
        ("*fp16,*fp16,__import__('os')", {}, "n is "),
        ("tensordesc<fp16[0]>,*fp16,i32", {}, "x is "),
        ("*fp16,*fp16,i32", {"M": 3}, "no parameter M"),
    ],
)
def test_what_it_cannot_be_is_refused(text, constants, message):
    with pytest.raises(OptionError, match=message):
        parse_signature(text, ALL, constants)


@given(st.lists(st.tuples(st.sampled_from(NUMBERS), st.booleans(), st.booleans()), max_size=8))
def test_any_signature_comes_back(entries):
    spelled = [f"{'*' * pointer}{kind}{':16' * hint}" for kind, pointer, hint in entries]
    parameters = [TritonParameter(f"p{number}", False) for number in range(len(entries))]
    found = parse_signature(",".join(spelled), parameters, {})
    divisible = set(found.divisible)
    assert [f"{kind}{':16' * (name in divisible)}" for name, kind in found.types] == spelled


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    with suppress(OptionError):
        parse_signature(text, ALL, {})


@pytest.mark.parametrize(
    ("text", "value"),
    [("128", 128), ("-3", -3), ("1e-5", 1e-5), ("True", True), ("None", None), ("relu", "relu"), ("'a,b'", "a,b")],
)
def test_values_are_what_python_would_read(text, value):
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_assignments():
    assert parse_assignments("M=1, N = 2,text='a,b'", "--x") == {"M": "1", "N": "2", "text": "'a,b'"}
    for wrong in ("M", "M=", "=3", "M=1,M=2", "", "M=1,,N=2", "1M=3"):
        with pytest.raises(OptionError, match="--x"):
            parse_assignments(wrong, "--x")


@given(st.lists(st.text("ab<>[]()", max_size=5), min_size=1))
def test_entries_without_brackets_are_split_at_every_comma(entries):
    plain = ["".join(c for c in entry if c in "ab") for entry in entries]
    assert split_at_commas(",".join(plain)) == plain
