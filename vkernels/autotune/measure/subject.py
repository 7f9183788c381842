"""A task's kernel and arguments in a worker: compile a candidate, check its results, call it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from math import ceil
from typing import TYPE_CHECKING, Any

from vkernels.compiler.arguments import CPU, example_arguments
from vkernels.compiler.default_session import default_session
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.inspect.task import Task, kernel_of, signature_of, strides_of
from vkernels.ir.errors import ArgumentError, Error, OutOfMemoryError, PlanError
from vkernels.ir.plan import Plan
from vkernels.ir.planning.resources import OutOfResources, RefusedCodeError
from vkernels.language.kernel import Kernel
from vkernels.runtime.bind_arguments import bind
from vkernels.runtime.dispatch import launcher_of
from vkernels.runtime.present_target import present_target

from ..arguments import checksum, copied, is_array, make_arguments, moved, numbers, only_written, outputs, refill
from .expected import EPSILON, Expected
from .fixed_plans import chosen_plan, with_plan
from .measures import Candidate, Effort, Failed, FailureReason, Setting
from .readers import reader_of

if TYPE_CHECKING:
    from vkernels.compiler.request import Code


MAX_KEPT_CANDIDATES = 32
"""Candidates whose code is kept, because finalists are measured again."""
Values = dict[str, Any]


class WrongAnswerError(Exception):
    """A plan's code gave wrong results."""


def code_of(task: Task, candidate: Candidate, numbers: Mapping[str, bool | int | float], where: CompileTarget) -> Code:
    """The code of a candidate on a target, compiled without making arguments. `numbers`: scalars of the calls.

    Raises what compiling raises.
    """
    called = replace(task, constants={**task.constants, **candidate.constants})
    kernel = with_plan(kernel_of(task), candidate.plan)
    arguments = example_arguments(kernel, signature_of(called, numbers), called.shape, strides_of(called))
    return default_session().compile(CompileRequest(kernel, arguments, where)).executable().code


class MeasuredTask:
    """A task's kernel and arguments.

    `device`: `cpu` or `cuda:0`. `sets`: copies of the arguments. `expected`: the right outputs; `plans`: the plans
    that computed them.
    """

    def __init__(
        self, task: Task, seed: int, device: str, effort: Effort, plans: Sequence[Plan] = (),
        own: Mapping[str, Any] | None = None,
    ):  # fmt: skip
        """Make the arguments and a reference. `plans`: for the reference, if they were chosen before. `own`: a user's
        arguments.

        Raises what is wrong with the task.
        """
        self.task, self.device = task, device
        self.plans: list[Plan] = []
        self._known = list(plans)
        self._calls: dict[Hashable, list[Callable[[], object]]] = {}
        self._kernels: dict[Hashable, Kernel] = {}
        self.kernel = kernel_of(task)
        self.constants = {p.name: p.default for p in self.kernel.parameters if p.kind == "constant"}
        self.constants |= dict(task.constants)
        made = make_arguments(task, seed, own)
        self.written = outputs(task)
        first = {name: moved(v, device) if device != CPU and is_array(v) else v for name, v in made.items()}
        self._before = {name: copied(first[name]) for name in self.written}
        self._given = {n: checksum(v) for n, v in first.items() if is_array(v) and n not in self.written}
        self.bytes = sum(getattr(value, "nbytes", 0) for value in first.values())
        self.sets = [first]
        self.expected = self._reference(first)
        for _ in range(_copies(self.bytes, present_target(device).limits.cache, effort) - 1):
            self.sets.append({n: copied(v) if is_array(v) else v for n, v in first.items()})
        self._changing = tuple(sorted(set(self.written) - only_written(task)))

    @property
    def usual(self) -> Candidate:
        """The plan that computed the reference, which always works."""
        return Candidate(self.plans[0])

    def compiled(self, candidate: Candidate) -> list[Callable[[], object]]:
        """Compile a candidate; return its calls, one for each copy of the arguments. Raises what compiling raises."""
        calls = self._calls.pop(candidate.key, None)
        if calls is None:
            kernel = with_plan(self.kernel, candidate.plan)
            constants = {**self.constants, **candidate.constants}
            arguments = [self._in_order(values, constants) for values in self.sets]
            request = CompileRequest(kernel, bind(kernel, arguments[0]), present_target(self.device))
            default_session().compile(request).executable()
            calls = [partial(kernel, *values) for values in arguments]
            self._kernels[candidate.key] = kernel
        while len(self._calls) >= MAX_KEPT_CANDIDATES:
            oldest = next(iter(self._calls))
            del self._calls[oldest], self._kernels[oldest]
        self._calls[candidate.key] = calls
        return calls

    def own_bytes(self, candidate: Candidate) -> int | None:
        """Bytes that calls of a candidate need beside their tensors; None before the first call."""
        kernel = self._kernels.get(candidate.key)
        entries = () if kernel is None else launcher_of(kernel).entries
        running = next((entry.distinct for entry in entries if entry.distinct is not None), None)
        return None if running is None else running.launch_record().swap_bytes

    def calls_in(self, setting: Setting, calls: Sequence[Callable[[], object]]) -> list[Callable[[], object]]:
        """What to time in a setting, for a candidate's `calls`: with a reader of the results after each, or as is."""
        if not setting.has_reader:
            return list(calls)
        return [partial(_one_after_the_other, call, read) for call, read in zip(calls, self._readers, strict=True)]

    @cached_property
    def _readers(self) -> list[Callable[[], object]]:
        return [reader_of(values, self.written, self.device) for values in self.sets]

    def check(self, call: Callable[[], object], number: int = 0) -> None:
        """Run a call on the copy of this number, with poisoned outputs. Raises `WrongAnswerError` for wrong results."""
        values = self.sets[number]
        self._refill(values, self.written)
        call()
        self._wait()
        for each in self.expected:
            found = values[each.name]
            if not each.is_surely_right(found) and (problem := each.difference(numbers(found))):
                raise WrongAnswerError(problem)
        if number == 0:
            for name, given in self._given.items():
                if checksum(values[name]) != given:
                    raise WrongAnswerError(f"{name} is an input, and was written to")

    def restore(self) -> None:
        """Reset tensors that the kernel both reads and writes, so that repeated calls do not diverge."""
        for values in self.sets:
            self._refill(values, self._changing)

    def _refill(self, values: Values, names: Sequence[str]) -> None:
        for name in names:
            refill(values[name], self._before[name])

    def _reference(self, values: Values) -> tuple[Expected, ...]:
        peer = {name: numbers(value) for name, value in self._run(values).items()}
        exact: dict[str, Any] = {}
        wide = self._in_float64(values)
        try:
            if wide is not None:
                exact = {name: numbers(value) for name, value in self._run(wide).items()}
        except (Error, MemoryError) as error:
            print(f"no reference in float64: {error}", file=sys.stderr)
        terms = max(self.task.shape.values(), default=1)
        return tuple(
            Expected.of(name, self.task.dtypes[name], peer[name], exact.get(name), terms) for name in self.written
        )

    def _in_float64(self, values: Values) -> Values | None:
        """Arguments in float64; None if the kernel does not accept them, or has them anyway."""
        wide, changed = dict(values), False
        for parameter in self.kernel.parameters:
            if parameter.kind == "tensor" and self.task.dtypes[parameter.name] in EPSILON:
                if "float64" not in parameter.dtypes:
                    return None
                changed = changed or self.task.dtypes[parameter.name] != "float64"
                wide[parameter.name] = copied(values[parameter.name], "float64")
        return wide if changed else None

    def _run(self, values: Values) -> Values:
        ordered = self._in_order(values, self.constants)
        known = self._known[len(self.plans) :]
        plan = known[0] if known else chosen_plan(self.kernel, ordered, self.device)
        self.plans.append(plan)
        with_plan(self.kernel, plan)(*ordered)
        self._wait()
        found = {name: copied(values[name]) for name in self.written}
        self._refill(values, self.written)
        return found

    def _in_order(self, values: Values, constants: Mapping[str, Any]) -> list[Any]:
        return [constants[p.name] if p.kind == "constant" else values[p.name] for p in self.kernel.parameters]

    def _wait(self) -> None:
        if self.device != CPU:
            import torch

            torch.cuda.synchronize(self.device)


def _one_after_the_other(first: Callable[[], object], second: Callable[[], object]) -> None:
    first()
    second()


def _copies(size: int, cache: int, effort: Effort) -> int:
    # Together they fill the last cache twice, within limits.
    wanted = ceil(2 * cache / max(1, size))
    return max(1, min(wanted, effort.sets, effort.set_bytes // max(1, size)))


class FailureReport:
    """`failure`: the failure that an exception was converted to."""

    failure: Failed


@contextmanager
def classified(otherwise: FailureReason) -> Iterator[FailureReport]:
    """Convert an exception that a candidate raises to its failure. `otherwise`: the reason of unexpected ones."""
    report = FailureReport()
    try:
        yield report
    except WrongAnswerError as error:
        report.failure = Failed(FailureReason.WRONG_ANSWER, str(error))
    except RefusedCodeError as error:
        report.failure = Failed(FailureReason.COMPILE_ERROR, str(error)[:2000])
    except (OutOfResources, OutOfMemoryError, MemoryError) as error:
        report.failure = Failed(FailureReason.DOES_NOT_FIT, str(error) or "there is not enough memory")
    except (PlanError, ArgumentError) as error:
        report.failure = Failed(FailureReason.REFUSED, str(error))
    except Exception as error:
        name = "" if isinstance(error, Error) else f"{type(error).__name__}: "
        report.failure = Failed(otherwise, f"{name}{error}"[:2000])
