"""Code for CPUs that are not present, read back."""

from __future__ import annotations

import pytest

from vkernels.compiler.backends.llvm_processors import assembly_for
from vkernels.compiler.compile_cpu import assembly_for_processor
from vkernels.ir.dot_units import DOT_UNITS
from vkernels.ir.errors import SetupError
from vkernels.ir.facts import Facts
from vkernels.ir.lowering.llvm.lower_to_llvm import LlvmModule
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module
from vkernels.targets import limits_of
from vkernels.targets.processors import PROCESSORS, processor_targets

from ...ir.lowering.llvm.texts import matmul_text

PLAN = Plan({"i": 2, "j": 17}, {"k": 4}, packs=("a", "b"), lanes="j", order=("j", "i"))


@pytest.mark.sample(16)
@pytest.mark.parametrize("element", ["i8", "bf16"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_unit_is_in_the_code_of_processors_that_have_it_alone(name: str, element: str) -> None:
    limits = limits_of(processor_targets()[f"cpu:{name}"])
    module = parse_module(matmul_text(element, "i32" if element == "i8" else "f32"))
    assembly = assembly_for_processor(module, PLAN, Facts(distinct=True), limits)
    has = [unit for unit in map(DOT_UNITS.__getitem__, limits.dot_units) if unit.element == element]
    for unit in DOT_UNITS.values():
        assert (unit.instruction in assembly) == (unit in has[:1])


def test_a_name_that_llvm_may_not_know_is_refused() -> None:
    with pytest.raises(SetupError, match="no processor 'pentium9'"):
        assembly_for(LlvmModule("f", "module {}", 0, (), 0, "p", (), 0), "pentium9")
