"""Faults that are known and being mended: the tests leave out calls that meet them, the command does not.

An entry goes with the change that mends it; where nothing is known, `KNOWN` is empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .case import Case

KNOWN: tuple[tuple[str, Callable[[Case], bool]], ...] = (
    ("starts at the edges of int64 wrap", lambda case: case.fault == "start"),
    ("arguments of other shapes, dtypes or options are taken or raise", lambda case: case.fault in CHECKS),
    ("sums along long axes run one after another", lambda case: _longest(case) > 500),
    ("so do sums along several axes", lambda case: case.values in ("constant", "alternating") and _most(case) > 500),
    ("arrays of no dimensions raise", lambda case: any(not each.shape for each in case.arguments)),
    ("arrays of no elements crash", lambda case: any(0 in each.shape for each in case.arguments)),
    ("sums of bool are refused", lambda case: any(each.dtype == "bool" for each in case.arguments)),
    ("the width of a histogram overflows", lambda case: dict(case.options).get("high") == 3e38),
)
CHECKS = ("out shape", "shape", "dtype", "option")


def is_known(case: Case) -> bool:
    return any(meets(case) for _, meets in KNOWN)


def _longest(case: Case) -> int:
    return max(length for each in case.arguments for length in (*each.shape, 0))


def _most(case: Case) -> int:
    return max(math.prod(each.shape) for each in case.arguments)
