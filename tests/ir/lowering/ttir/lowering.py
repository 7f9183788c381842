"""Kernels mapped and lowered, and what they do in both interpreters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.dialect import MappedOp
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import LoweredTtir, lower_to_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.block_sums import block_sums
from vkernels.ir.transforms.expand_math import expand_math
from vkernels.ir.transforms.insert_barriers import insert_barriers

KERNELS = Path(__file__).parents[2] / "transforms"
Arguments = Mapping[str, Any]


def kernel(name: str) -> ModuleOp:
    """A kernel as written, by the name of its golden file."""
    return parse_module((KERNELS / f"{name}.mlir").read_text(), name)


def mapped_in(module: ModuleOp) -> MappedOp:
    """The module's mapped kernel."""
    (mapped,) = (op for op in module.ops if isinstance(op, MappedOp))
    return mapped


def lowered(module: ModuleOp, plan: Plan, facts: Facts, resident_programs: int = 0, threads: int = 0) -> LoweredTtir:
    """A kernel as written, mapped by a plan, made ready for GPUs and lowered."""
    result = apply_plan(module, plan, facts)
    insert_barriers(result)
    block_sums(result, on_gpu=True)
    expand_math(result)
    return lower_to_ttir(mapped_in(result), resident_programs, plan.stages, threads=threads)


def copied(arguments: Arguments) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}


def assert_same(
    module: ModuleOp, ttir: LoweredTtir, arguments: Arguments, sizes: Mapping[str, int], tolerance: float = 0
) -> None:
    """A module's kernel and its TTIR write the same into tensors, or within a tolerance of each other."""
    expected, actual = copied(arguments), copied(arguments)
    interpret(module, expected)
    interpret_ttir(ttir, actual, sizes, order=1)
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(actual[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


def mapped_text(body: str, tensors: Mapping[str, str], facts: str = "", top: str = "") -> str:
    """A mapped kernel of one launch of one program; `tensors`: the dimensions and element of each."""
    parameters = ", ".join(f"%{name}: !vk.tensor<{type_}>" for name, type_ in tensors.items())
    given = f"sizes = {{}}, multiples = {{}}, strides = {{}}{facts}"
    return (
        f"vk.mapped @k({parameters}) facts {{{given}}} {{\n{top}\n%one = arith.constant 1 : i64\n"
        f'vk.launch "k" over (%p = %one) {{\n{body}\n}}\n}}\n'
    )
