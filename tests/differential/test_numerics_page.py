"""docs/numerics.md states the bounds that results are held to: every function's, and those of reductions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .bounds import MATHS, REDUCTIONS, function_ulps, sum_units, table
from .subjects import BOUNDS

PAGE = MATHS.with_name("numerics.md")


def with_tables(page: Path) -> str:
    """The page with its tables as they are made now."""
    text = page.read_text()
    for marker, bounds in (("reductions", REDUCTIONS), ("functions", BOUNDS)):
        pattern = re.compile(rf"(<!-- {marker}:[^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
        made = table(bounds)
        text, count = pattern.subn(lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text)
        assert count == 1
    return text


def test_the_page_has_a_row_for_each_bound(golden) -> None:
    golden(PAGE, with_tables(PAGE))
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert set(BOUNDS) <= set(rows)


def test_the_page_states_the_bound_of_sums() -> None:
    assert "S(n) = 16 + 4·log₂(n)" in PAGE.read_text()
    assert sum_units(1) == 16
    assert sum_units(1 << 20) == 16 + 4 * 20


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "rsqrt"])
def test_functions_have_the_accuracy_that_their_page_states(name: str) -> None:
    assert f"| {name} | {function_ulps()[name]['float32']} |" in MATHS.read_text()
