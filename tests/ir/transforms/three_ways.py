"""Run a kernel of this folder as written, mapped, as native code and in TTIR, and compare what each writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tests.generated.random_kernels.native import run_native
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.plan import Plan
from vkernels.ir.text import print_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped

from ..lowering.ttir.lowering import assert_same, copied, lowered

Arguments = dict[str, Any]


def run_three_ways(
    module: ModuleOp,
    arguments: Arguments,
    sizes: Mapping[str, int],
    plan: Plan,
    facts: Facts,
    tolerance: float = 1e-5,
    resident_programs: int = 0,
) -> str:
    """The text of the mapped kernel. Tiles and chunks must be powers of two, as they are on a GPU."""
    expected = copied(arguments)
    interpret(module, expected)
    mapped = apply_plan(module, plan, facts)
    verify_mapped(mapped)
    text = print_module(mapped)
    actual = copied(arguments)
    interpret(mapped, actual, order=1, check_races=True)
    _compare(expected, actual, tolerance, "mapped")
    native = copied(arguments)
    run_native(mapped, native, sizes)
    _compare(expected, native, tolerance, "native")
    assert_same(module, lowered(module, plan, facts, resident_programs), arguments, sizes, tolerance)
    return text


def _compare(expected: Arguments, actual: Arguments, tolerance: float, how: str) -> None:
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(actual[name], value, rtol=tolerance, atol=tolerance, err_msg=f"{name}, {how}")
