"""The code of one kernel for one CPU target: for sizes that are named, for others, and for any layout."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from vkernels.compiler.arguments import CPU, Arguments, Same, example_arguments
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.compile_cpu import CompiledCpu, CpuObject
from vkernels.compiler.plans import stated_rung
from vkernels.compiler.protocols import Constant
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.size_classes import LEVELS_ON_CPU, SizeClass, class_at
from vkernels.ir.errors import Error, OptionError
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.runtime.objects import read_object, refuse_other_imports
from vkernels.runtime.present_target import present_target
from vkernels.targets.host_cpu import dot_units, vector_registers
from vkernels.targets.instruction_sets import InstructionSet, host_needs, instruction_set

from .build_request import BuildOptions, BuildRequest
from .manifest import Assumptions, CpuCode, Pair

MAX_WORKSPACE = 1 << 26
"""Bytes a thread that code for other sizes may need: more is laid out for sizes that hardly come."""

MAX_SIZE = 1 << 24
"""The largest size of plain code: sums are cut into blocks by it."""

_SHOWN = ("registers", "register_bytes", "shared", "multiprocessors", "cache", "memory")


@dataclass(frozen=True)
class CpuTarget:
    """A CPU to build for. `instructions`: None for this machine's own; `features`: that a machine must have."""

    name: str
    machine: str
    features: tuple[str, ...]
    limits: Limits
    instructions: InstructionSet | None = None

    @property
    def limits_shown(self) -> dict[str, int]:
        """The sizes of the limits."""
        return {name: getattr(self.limits, name) for name in _SHOWN}


@dataclass(frozen=True)
class CpuPiece:
    """Code for one role; see `Code` of the manifest. `tuned`: values of constants that were left open."""

    role: Literal["shape", "class", "plain"]
    object: bytes = field(repr=False)
    code: CpuCode
    plan: Plan
    rung: str
    assumes: Assumptions
    same: tuple[Pair, ...] = ()
    tuned: Mapping[str, Constant] = field(default_factory=dict)


def cpu_target(name: str) -> CpuTarget:
    """The target of a name: `cpu`, this machine with all its instructions, or `cpu:INSTRUCTIONS`.

    Plans for other instructions count on this machine's cores and caches. Raises `OptionError` for other names.
    """
    import llvmlite.binding as llvm

    kind, _, instructions = name.partition(":")
    if kind != CPU:
        raise OptionError(f"--targets: {name}: bundles hold code for CPUs: cpu, cpu:x86-64-v3, cpu:aarch64+dotprod, …")
    here = present_target(CPU).limits
    if not instructions:
        needs = host_needs(dict(llvm.get_host_cpu_features()))
        return CpuTarget(name, platform.machine(), needs, here)
    chosen = instruction_set(instructions)
    features = dict.fromkeys(chosen.features, True)
    registers, register_bytes = vector_registers(features, chosen.machine)
    units = dot_units(features, chosen.machine)
    limits = replace(
        here, registers=registers, register_bytes=register_bytes, dot_units=units, processor=chosen.processor
    )
    return CpuTarget(name, chosen.machine, chosen.features, limits, chosen)


def cpu_pieces(
    request: BuildRequest, shape: Mapping[str, int], strides: Mapping[str, Sequence[int]], target: CpuTarget,
    options: BuildOptions, session: CompilerSession, same: Sequence[Same], for_others: bool,
) -> Iterator[CpuPiece]:  # fmt: skip
    """The code of a kernel for a shape: for calls in which the tensors of each of `same` are one, and for other
    sizes, if `for_others`.

    Raises what compiling for the shape raises. Where there is no code for other sizes, there is none.
    """
    arguments = example_arguments(request.kernel, request.signature, shape, strides)

    def compilation(arguments: Arguments) -> Compilation:
        limits = CompileTarget(target.limits, CPU, target.name)
        return session.compile(
            CompileRequest(
                request.kernel, arguments, limits, left_open=request.left_open,
                wants_deterministic=options.deterministic,
            )
        )  # fmt: skip

    exact = compilation(arguments)
    for pairs in same:
        yield replace(_piece("shape", exact.given(arguments, pairs), target), same=pairs)
    if not (options.plain and for_others):
        return
    if may_be_of_class(exact):
        changing = class_at(LEVELS_ON_CPU[-1], {name: max(2, size) for name, size in shape.items()}, False)
        yield from _for_others("class", exact.of_class(changing), target)
    apart = {name: tuple(2 * max(1, each) for each in view.strides) for name, view in arguments.tensors.items()}
    loose = compilation(example_arguments(request.kernel, request.signature, shape, apart))
    any_sizes = SizeClass({name: max(size, MAX_SIZE) for name, size in shape.items()}, on_cpu=True)
    yield from _for_others("plain", loose.of_class(any_sizes), target)


def may_be_of_class(compilation: Compilation) -> bool:
    """Whether plans are chosen for the sizes: an author's, pinned and tuned ones are for those of a call."""
    kernel = compilation.request.kernel
    is_free = kernel.pin is None and kernel.budget is None and not compilation.tuned
    return is_free and compilation.plans.author_plan() is None


def _for_others(role: Literal["class", "plain"], compilation: Compilation, target: CpuTarget) -> Iterator[CpuPiece]:
    try:
        piece = _piece(role, compilation, target)
    except Error:  # as for a scratchpad that is too large for the class
        return
    if piece.code.workspace <= MAX_WORKSPACE:
        yield piece


def _piece(role: Literal["shape", "class", "plain"], compilation: Compilation, target: CpuTarget) -> CpuPiece:
    plan, rung, code = _made(role, compilation, target)
    if isinstance(code, CpuObject):
        lowered, data = code.lowered, code.object
        prepare, launches = lowered.prepare, lowered.launches
        native: CpuCode = CpuCode(
            "none", prepare, launches, lowered.sizes, lowered.slots, lowered.buffers, lowered.workspace
        )
    else:
        made, data = code.native, code.native.object
        launches = tuple(f"{made.name}_launch_{number}" for number in range(len(made.launches)))
        native = CpuCode(
            "none", f"{made.name}_prepare", launches, tuple(made.sizes), made.slots, made.buffers, made.workspace
        )
    read = read_object(data, compilation.request.kernel.name)
    refuse_other_imports(read, f"{compilation.request.kernel.name} for {target.name}")
    return CpuPiece(
        role, data, native, plan, rung, assumptions(code.facts), tuned=dict(compilation.tuned)
    )  # fmt: skip


def _made(role: str, compilation: Compilation, target: CpuTarget) -> tuple[Plan, str, CompiledCpu | CpuObject]:
    """The plan, its rung and its code."""
    instructions, plans = target.instructions, compilation.plans
    if role == "plain":
        plan, rung = list(plans.plain())[-1]
        return plan, rung, _code_of(compilation, plan, instructions)
    own = plans.author_plan()
    if own is not None:
        return own, stated_rung(own), _code_of(compilation, own, instructions)
    if instructions is None:
        made = compilation.executable()
        assert isinstance(made.code, CompiledCpu), "a CPU's"
        return made.plan, made.rung, made.code
    fallback, code = plans.first_fit(lambda plan: compilation.object_code(plan, instructions))
    return fallback.chosen.plan, fallback.chosen.rung, code


def _code_of(compilation: Compilation, plan: Plan, instructions: InstructionSet | None) -> CompiledCpu | CpuObject:
    if instructions is not None:
        return compilation.object_code(plan, instructions)
    code = compilation.code(plan)
    assert isinstance(code, CompiledCpu), "a CPU's"
    return code


def assumptions(facts: Facts) -> Assumptions:
    """What code relies on that was compiled with these facts, in a form that needs no compiler."""
    names = {*facts.bounds, *facts.capacities}
    most = {name: min(known[name] for known in (facts.bounds, facts.capacities) if name in known) for name in names}
    return Assumptions(
        dict(facts.sizes), dict(facts.multiples), most, dict(facts.least), dict(facts.strides), facts.aligned,
        facts.large,
    )  # fmt: skip
