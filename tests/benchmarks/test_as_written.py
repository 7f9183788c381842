"""Every kernel of benchmarks/as_written.py computes what torch does in float64, at its smallest sizes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from as_written_cases import FAMILIES
from as_written_cases.case import TINY, WrittenCase
from library_turns import error_of


def _cases() -> dict[str, WrittenCase]:
    torch.manual_seed(0)
    return {case.name: case for family in FAMILIES.values() for case in family.cases(TINY)}


CASES = _cases()


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", CASES)
def test_kernels_as_written_are_right(name: str) -> None:
    case = CASES[name]
    assert error_of(case.as_case()) <= case.tolerance
