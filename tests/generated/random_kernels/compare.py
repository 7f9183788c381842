"""Run a kernel in every way and compare what it writes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.arguments import Same
from vkernels.ir.dialect import KernelOp, MappedOp
from vkernels.ir.errors import PlanError, UnsupportedError
from vkernels.ir.facts import Facts
from vkernels.ir.interpret import interpret
from vkernels.ir.interpret.ttir import interpret_ttir
from vkernels.ir.limits import Limits
from vkernels.ir.lowering.ttir import LoweredTtir, lower_to_ttir
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import bottom_plan
from vkernels.ir.planning.space import read_space
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.block_sums import block_sums
from vkernels.ir.transforms.expand_math import expand_math
from vkernels.ir.transforms.insert_barriers import insert_barriers
from vkernels.ir.transforms.split_phases import split_phases
from vkernels.ir.transforms.verify_mapped import verify_mapped

from ..outcome import Outcome
from .aliases import aliased, apart, both_updated
from .generate import generate
from .native import run_native
from .plans import POWERS, random_facts, random_plan
from .races import programs_race
from .values import Kernel

Arguments = dict[str, Any]
SMALL = Limits(registers=8, register_bytes=16, shared=1 << 10, multiprocessors=1, cache=1 << 20)
PLANS = 3
"""Plans tried for every kernel; the first of several is plain."""


class Difference(AssertionError):
    """Two ways of running a kernel differ; says the seed, the plan, and where."""


@dataclass
class Counts:
    """How many kernels ran, and in which ways. `outcome` is told of the plans."""

    kernels: int = 0
    mapped: int = 0
    compiled: int = 0
    lowered: int = 0
    aliased: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    outcome: Outcome = field(default_factory=Outcome)


def check(seed: int, counts: Counts, native: bool = True, plans: int = PLANS) -> None:
    """Generate the seed's kernel, run it in every way, and raise `Difference` where a result differs.

    `native`: also as native code, under the last plan that applies. Where none does, that of the bottom rung must,
    unless the kernel's programs race as it is written.
    """
    kernel = generate(seed)
    module = kernel.module()
    module = parse_module(print_module(module))
    expected = _run(module, kernel)
    split = module.clone()
    split_phases(split)
    split.verify()
    _compare(kernel, expected, _run(split, kernel), f"seed {seed}: split phases")
    choose = random.Random(f"plans of {seed}")
    counts.kernels += 1
    last: tuple[str, ModuleOp] | None = None
    for number in range(plans):
        plain = number == 0 and plans > 1
        plan, facts = random_plan(kernel, split, choose, plain=plain), random_facts(kernel, choose)
        try:
            mapped = apply_plan(module, plan, facts, overlap=True)
        except PlanError as error:
            counts.refused[str(error)] += 1
            continue
        counts.mapped += 1
        counts.outcome.note_plan(plan, (seed, plan, facts))
        verify_mapped(mapped)
        what = f"seed {seed}: plan {number}: {plan} {facts}"
        order = choose.choice([None, choose.getrandbits(20)])
        actual = _run(mapped, kernel, order=order, check_races=True)
        _compare(kernel, expected, actual, f"{what}: mapped")
        last = what, mapped
    if last is None and not programs_race(_kernel_of(module)):
        bottom, _ = bottom_plan(read_space(_kernel_of(module), kernel.sizes, SMALL))
        mapped = apply_plan(module, bottom, Facts(kernel.sizes, distinct=True), overlap=True)
        verify_mapped(mapped)
        _compare(kernel, expected, _run(mapped, kernel), f"seed {seed}: the bottom rung: {bottom}")
    if native and last is not None:
        what, mapped = last
        counts.compiled += 1
        arguments = _copied(kernel.arguments)
        run_native(mapped, arguments, kernel.sizes)
        _compare(kernel, expected, arguments, f"{what}: compiled")
    _check_aliased(kernel, module, seed, counts, native)


def _check_aliased(kernel: Kernel, module: ModuleOp, seed: int, counts: Counts, native: bool) -> None:
    """Run the kernel with one array for two parameters, where that is not refused."""
    choose = random.Random(f"aliases of {seed}")
    found = aliased(kernel, module, choose)
    counts.aliased += found is not None
    if found is None:
        return
    merged, arguments, same = found
    what, written = f"seed {seed}: same {same}", _ran(module, arguments)
    if not both_updated(_kernel_of(module), same):
        distinct = _ran(module, apart(arguments, same))
        _compare(kernel, {**distinct, **{name: distinct[used] for name, used in same}}, written, what, same)
    split = merged.clone()
    split_phases(split)
    _compare(kernel, written, _ran(split, arguments), f"{what}: split phases", same)
    for number in range(2):
        plan, facts = random_plan(kernel, split, choose, plain=number == 0), random_facts(kernel, choose)
        facts = replace(facts, strides=_strides(facts, kernel.arguments, arguments, same), distinct=True)
        try:
            mapped = apply_plan(merged, plan, facts, overlap=True)
        except PlanError as error:
            counts.refused[str(error)] += 1
            continue
        counts.mapped += 1
        counts.outcome.note_plan(plan, (seed, same, plan, facts))
        order = choose.choice([None, choose.getrandbits(20)])
        actual = _ran(mapped, arguments, order=order, check_races=True)
        _compare(kernel, written, actual, f"{what}: plan {number}: {plan} {facts}: mapped", same)
        if native and number:
            given = _copied(arguments)
            run_native(mapped, given, kernel.sizes)
            _compare(kernel, written, given, f"{what}: {plan} {facts}: compiled", same)


def _strides(facts: Facts, distinct: Arguments, arguments: Arguments, same: Same) -> dict[str, tuple[int, ...]]:
    """What is known of strides: nothing of tensors that are the same, nor of one replaced by another."""
    unknown = {name for pair in same for name in pair}
    unknown |= {name for name, value in arguments.items() if value is not distinct[name]}
    return {name: strides for name, strides in facts.strides.items() if name not in unknown}


def _kernel_of(module: ModuleOp) -> KernelOp:
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    return kernel


def check_ttir(seed: int, counts: Counts) -> None:
    """Generate the seed's kernel, lower it to TTIR under a random plan of powers of two, and run that in NumPy.

    Raises `Difference` where a result differs from the kernel's as written, `CheckError` for what would go wrong on
    a GPU.
    """
    kernel = generate(seed)
    module = parse_module(print_module(kernel.module()))
    expected = _run(module, kernel)
    split = module.clone()
    split_phases(split)
    choose = random.Random(f"plans of {seed} for GPUs")
    counts.kernels += 1
    plan = random_plan(kernel, split, choose, plain=choose.random() < 0.2, among=POWERS)
    facts = random_facts(kernel, choose)
    tensors = [name for name, value in kernel.arguments.items() if isinstance(value, np.ndarray)]
    facts = replace(facts, large=tuple(name for name in tensors if choose.random() < 0.2))
    resident = choose.choice([0, 0, 2])
    try:
        mapped = apply_plan(module, plan, facts)
        lowered = lowered_to_ttir(mapped, resident)
    except (PlanError, UnsupportedError) as error:
        counts.refused[str(error)] += 1
        return
    counts.lowered += 1
    counts.outcome.note_plan(plan, (seed, "TTIR", plan, facts, resident))
    arguments = _copied(kernel.arguments)
    order = choose.choice([None, choose.getrandbits(20)])
    interpret_ttir(lowered, arguments, kernel.sizes, order=order)
    _compare(kernel, expected, arguments, f"seed {seed}: {plan} {facts}: TTIR")
    _check_aliased_ttir(kernel, module, plan, facts, resident, counts)


def _check_aliased_ttir(
    kernel: Kernel, module: ModuleOp, plan: Plan, facts: Facts, resident: int, counts: Counts
) -> None:
    """The same with one array for two parameters, where that is not refused."""
    choose = random.Random(f"aliases of {plan}")
    found = aliased(kernel, module, choose)
    if found is None:
        return
    merged, arguments, same = found
    facts = replace(facts, strides=_strides(facts, kernel.arguments, arguments, same), distinct=True)
    try:
        lowered = lowered_to_ttir(apply_plan(merged, plan, facts), resident)
    except (PlanError, UnsupportedError) as error:
        counts.refused[str(error)] += 1
        return
    counts.aliased += 1
    expected, given = _ran(module, arguments), _copied(arguments)
    interpret_ttir(lowered, given, kernel.sizes)
    _compare(kernel, expected, given, f"{kernel.op.sym_name}: same {same}: {plan} {facts}: TTIR", same)


def lowered_to_ttir(mapped: ModuleOp, resident: int = 0) -> LoweredTtir:
    """The TTIR of a module's mapped kernel, which is changed on the way."""
    insert_barriers(mapped)
    block_sums(mapped, on_gpu=True)
    expand_math(mapped)
    (op,) = (op for op in mapped.ops if isinstance(op, MappedOp))
    return lower_to_ttir(op, resident)


def mapped_of(seed: int, number: int) -> tuple[Kernel, ModuleOp, Plan, Facts, ModuleOp]:
    """A seed's kernel, module, and one of its plans with what it makes of it: to look into a difference."""
    kernel = generate(seed)
    module = parse_module(print_module(kernel.module()))
    split = module.clone()
    split_phases(split)
    choose = random.Random(f"plans of {seed}")
    for n in range(number + 1):
        plan, facts = random_plan(kernel, split, choose, plain=n == 0), random_facts(kernel, choose)
        try:
            mapped = apply_plan(module, plan, facts, overlap=True)
        except PlanError:
            continue
        choose.choice([None, choose.getrandbits(20)])
    return kernel, module, plan, facts, mapped


def _run(module: ModuleOp, kernel: Kernel, **options: Any) -> Arguments:
    return _ran(module, kernel.arguments, **options)


def _ran(module: ModuleOp, arguments: Arguments, **options: Any) -> Arguments:
    arguments = _copied(arguments)
    interpret(module, arguments, **options)
    return arguments


def _copied(arguments: Arguments) -> Arguments:
    """The same arguments in memory of their own, laid out alike; what is one array stays one."""
    copies = {id(value): _copy(value) for value in arguments.values() if isinstance(value, np.ndarray)}
    return {name: copies.get(id(value), value) for name, value in arguments.items()}


def _copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    base = array if array.base is None else array.base
    if not isinstance(base, np.ndarray) or base.base is not None:
        return array.copy("K")
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, base.copy("K"), start, array.strides)


def _compare(kernel: Kernel, expected: Arguments, actual: Arguments, what: str, same: Same = ()) -> None:
    for name, argument in kernel.arguments.items():
        if not isinstance(argument, np.ndarray) or name in dict(same):
            continue
        if name not in kernel.tolerances:
            if expected[name].tobytes() != actual[name].tobytes():
                raise Difference(f"{what}\n{name}, which is only read, has changed")
            continue
        if found := difference(name, expected[name], actual[name], kernel.tolerances[name]):
            raise Difference(f"{what}\n{found}")


def difference(name: str, expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any], tolerance: float) -> str:
    """Where two arrays differ by more than a tolerance; empty where they do not."""
    want, have = _numbers(expected), _numbers(actual)
    with np.errstate(invalid="ignore"):
        close = (want == have) | (np.isnan(want) & np.isnan(have)) | (np.abs(want - have) <= tolerance)
    if close.all():
        return ""
    where = tuple(int(n) for n in np.argwhere(~close)[0])
    return (
        f"{name}{list(where)} is {have[where]}, expected {want[where]} within {tolerance};"
        f" {int((~close).sum())} of {close.size} differ"
    )


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Elements as floats that hold them exactly."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    return array.astype(np.longdouble)
