"""A planned kernel as the runtime would compile it, and its runs: natively, or as TTIR in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tests.ir.lowering.llvm.running import Call
from vkernels.compiler.arguments import ArrayView
from vkernels.compiler.array_layout import is_aligned, is_large, seen_strides
from vkernels.compiler.backends.llvm import NativeKernel, compile_cpu, host_scales
from vkernels.compiler.size_classes import EXACT, WIDE, SizeClass
from vkernels.compiler.specialise import facts_for
from vkernels.ir.dialect import MappedOp
from vkernels.ir.errors import PlanError
from vkernels.ir.facts import UNKNOWN, Facts
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.lowering.ttir import LoweredTtir, lower_to_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.block_sums import block_sums
from vkernels.ir.transforms.expand_math import expand_math
from vkernels.ir.transforms.fill_tails import fill_tails
from vkernels.ir.transforms.insert_barriers import insert_barriers
from vkernels.ir.transforms.prefetch_rows import prefetch_rows
from vkernels.ir.transforms.verify_mapped import verify_mapped
from vkernels.ir.transforms.version_chunks import version_chunks
from vkernels.ir.transforms.version_loops import version_loops
from vkernels.ir.transforms.version_selects import version_selects

from .arrays import around, whole_memory
from .subjects import Case, Subject

TAKES = 15e-6
"""Seconds that the interpreter of TTIR takes for an operation, about."""


def facts_of(
    subject: Subject, plan: Plan, case: Case, sizes: Mapping[str, int], exact: bool, on_gpu: bool, of: SizeClass = EXACT
) -> Facts:
    """What the runtime would rely on in calls of these sizes, or of a class, with tensors laid out as a case's."""
    return facts_for(subject.kernel, plan, sizes, case.views, exact, on_gpu, of)


def holds(facts: Facts, same: tuple[str, str] | None, case: Case) -> bool:
    """Whether a call is as the facts say, and of the `same` tensors."""
    sizes = all(case.sizes.get(name, length) == length for name, length in facts.sizes.items())
    for most in (facts.capacities, facts.bounds):
        sizes &= all(case.sizes.get(name, 0) <= most[name] for name in most)
    sizes &= all(case.sizes.get(name, 0) >= least for name, least in facts.least.items())
    multiples = all(case.sizes.get(name, 0) % number == 0 for name, number in facts.multiples.items())
    strides = all(
        known in (UNKNOWN, stride) or not case.views[name].size
        for name, strides in facts.strides.items()
        for known, stride in zip(strides, case.views[name].strides, strict=True)
    )
    aligned = all(_is_aligned(case.views[name], facts.strides[name]) for name in facts.aligned)
    large = all(name in facts.large or not is_large(view) for name, view in case.views.items())
    return sizes and multiples and strides and aligned and large and case.same == same


def _is_aligned(view: ArrayView, known: Sequence[int]) -> bool:
    """Strides of 1 that are not known to be 1 are taken for multiples of 16 bytes as well."""
    unknown = [stride for stride, fact in zip(seen_strides(view), known, strict=True) if fact == UNKNOWN]
    return is_aligned(view) and all(stride * view.itemsize % WIDE == 0 for stride in unknown)


def mapped_by(
    subject: Subject, plan: Plan, case: Case, sizes: Mapping[str, int], on_gpu: bool, exact: bool, of: SizeClass = EXACT
) -> tuple[ModuleOp, Facts]:
    """As the runtime maps it: with few facts; where the plan needs to know more sizes, with those."""
    module = subject.split if case.same is None else subject.merged(case.same)
    facts = facts_of(subject, plan, case, sizes, exact, on_gpu, of)
    try:
        return apply_plan(module, plan, facts, overlap=not on_gpu), facts
    except PlanError:
        facts = facts_of(subject, plan, case, sizes, True, on_gpu, of)
        return apply_plan(module, plan, facts, overlap=not on_gpu), facts


@dataclass(frozen=True)
class Native:
    """Code for this machine's CPU, with vectors of so many bytes."""

    code: NativeKernel
    facts: Facts

    @classmethod
    def of(cls, mapped: ModuleOp, facts: Facts, register_bytes: int) -> Native:
        verify_mapped(mapped)
        fill_tails(mapped)
        block_sums(mapped)
        version_loops(mapped)
        version_selects(mapped)
        version_chunks(mapped)
        prefetch_rows(mapped)
        expand_math(mapped, scales=host_scales())
        return cls(compile_cpu(mapped, register_bytes=register_bytes), facts)

    def seconds(self, case: Case, subject: Subject, plan: Plan) -> float:
        return 0.0  # next to nothing

    def run(self, case: Case, order: int) -> None:
        """Run on memory that holds anything. Raises `AssertionError` where memory beside arrays is written."""
        call = Call(self.code, list(case.arguments.values()), case.sizes)
        byte = (0xCD, 0xFF, 0x00, 0x7F)[order % 4]
        for memory in (*call.buffers, call.workspace):
            memory[...] = byte
        call.run()


@dataclass(frozen=True)
class Ttir:
    """Launches as TTIR."""

    lowered: LoweredTtir
    facts: Facts

    @classmethod
    def of(cls, mapped: ModuleOp, facts: Facts, resident: int) -> Ttir:
        verify_mapped(mapped)
        insert_barriers(mapped)
        block_sums(mapped, on_gpu=True)
        expand_math(mapped)
        (op,) = (op for op in mapped.ops if isinstance(op, MappedOp))
        return cls(lower_to_ttir(op, resident), facts)

    def seconds(self, case: Case, subject: Subject, plan: Plan) -> float:
        """That a run takes, about: no loop over chunks is inside another, or all are."""
        extents = subject.needs.extents(case.sizes)
        trips = [-(-extents[axis] // (chunk * plan.splits.get(axis, 1))) for axis, chunk in plan.chunks.items()]
        programs = self.lowered.prepare(case.sizes).programs
        operations = [sum(1 for _ in launch.module.walk()) for launch in self.lowered.launches]
        return TAKES * max(1, *trips, prod(trips) / 4) * sum(a * b for a, b in zip(programs, operations, strict=True))

    def run(self, case: Case, order: int) -> None:
        options = {"order": order, "resident": 1 + order % 3, "write_only": case.unread}
        interpret_ttir(self.lowered, case.arguments, case.sizes, **options)


def checked_run(code: Native | Ttir, case: Case, written: tuple[str, ...], order: int) -> str:
    """Run a call; what is wrong with what it left, empty if nothing is."""
    arrays = {name: value for name, value in case.arguments.items() if isinstance(value, np.ndarray)}
    names = {*written, *(case.same or ())}
    before = {n: around(a) if n in names else whole_memory(a).tobytes() for n, a in arrays.items()}
    code.run(case, order)
    for name, array in arrays.items():
        after = around(array) if name in names else whole_memory(array).tobytes()
        if after != before[name]:
            return f"memory beside `{name}` has been written" if name in names else f"`{name}` has been written"
    return case.wrong(case.arguments)
