"""What a worker measures: one task's kernel, on arguments that it made once, by any plan."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

from vkernels.compiler.arguments import CPU
from vkernels.compiler.default_session import default_session
from vkernels.compiler.request import CompileRequest
from vkernels.compiler.specialise import kernel_in
from vkernels.inspect.task import Task, kernel_of
from vkernels.ir.errors import Error
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.default_plan import default_plan
from vkernels.runtime.bind_arguments import bind
from vkernels.runtime.present_target import present_target

from ..arguments import make_arguments, only_written, outputs
from .arrays import byte_count, checksum, copied, is_array, moved, numbers, refill
from .candidate_code import with_plan
from .compare import EPSILON, Expected
from .effort import Effort
from .outcomes import Candidate

MAX_KEPT_CANDIDATES = 32
"""Candidates whose code is kept, for finalists are measured again."""
Values = dict[str, Any]
"""Arguments by name."""


class WrongAnswerError(Exception):
    """A plan's code ran, and what came out is wrong."""


class MeasuredTask:
    """A task's kernel and arguments. `device`: `cpu` or `cuda:0`. `expected`: what its outputs should hold; `plans`:
    those that it was computed by."""

    def __init__(self, task: Task, seed: int, device: str, effort: Effort, plans: Sequence[Plan] = ()):
        """Makes the arguments and a reference. `plans`: those of an earlier one, which saves choosing them.

        Raises what is wrong with the task.
        """
        self.task, self.device = task, device
        self.plans: list[Plan] = []
        self._known = list(plans)
        self._calls: dict[Hashable, list[Callable[[], object]]] = {}
        self.kernel = kernel_of(task)
        self.constants = {p.name: p.default for p in self.kernel.parameters if p.kind == "constant"}
        self.constants |= dict(task.constants)
        made = make_arguments(task, seed)
        self.written = outputs(task)
        first = {name: moved(v, device) if device != CPU and is_array(v) else v for name, v in made.items()}
        self._before = {name: copied(first[name]) for name in self.written}
        self._given = {n: checksum(v) for n, v in first.items() if is_array(v) and n not in self.written}
        self.bytes = sum(byte_count(value) for value in first.values() if is_array(value))
        self.sets = [first]
        self.expected = self._reference(first)
        for _ in range(_sets(self.bytes, present_target(device).limits.cache, effort) - 1):
            self.sets.append({n: copied(v) if is_array(v) else v for n, v in first.items()})
        self._changing = tuple(sorted(set(self.written) - only_written(task)))

    @property
    def usual(self) -> Candidate:
        """The plan that the reference was computed by, which is always there."""
        return Candidate(self.plans[0])

    def compiled(self, candidate: Candidate) -> list[Callable[[], object]]:
        """The candidate's calls, one for each copy of the arguments, after its code was made; that of the last few is
        kept. Raises what making it raises."""
        key = candidate.key
        known = self._calls.pop(key, None)
        calls = self._compiled(candidate) if known is None else known
        while len(self._calls) >= MAX_KEPT_CANDIDATES:
            del self._calls[next(iter(self._calls))]
        self._calls[key] = calls
        return calls

    def _compiled(self, candidate: Candidate) -> list[Callable[[], object]]:
        kernel = with_plan(self.kernel, candidate.plan)
        constants = {**self.constants, **candidate.constants}
        places = [self._in_order(values, constants) for values in self.sets]
        request = CompileRequest(kernel, bind(kernel, places[0]), present_target(self.device))
        default_session().compile(request).executable()
        return [partial(kernel, *values) for values in places]

    def check(self, call: Callable[[], object], number: int = 0) -> None:
        """Run a call on the copy of this number, poisoned before, and compare. Raises `WrongAnswerError`."""
        values = self.sets[number]
        for name, before in self._before.items():
            refill(values[name], before)
        call()
        self._settle()
        for each in self.expected:
            found = values[each.name]
            if not each.is_surely_right(found) and (problem := each.difference(numbers(found))):
                raise WrongAnswerError(problem)
        if number == 0:
            for name, given in self._given.items():
                if checksum(values[name]) != given:
                    raise WrongAnswerError(f"{name} is an input, and was written to")

    def restore(self) -> None:
        """Give tensors that the kernel reads and writes what they held at first, so that calls do not run away."""
        for name in self._changing:
            for values in self.sets:
                refill(values[name], self._before[name])

    def _reference(self, values: Values) -> tuple[Expected, ...]:
        """Outputs by the plan that is chosen, and by the one that is chosen in float64."""
        peer = {name: numbers(value) for name, value in self._run(values).items()}
        exact: dict[str, Any] = {}
        wide = self._wide(values)
        try:
            if wide is not None:
                exact = {name: numbers(value) for name, value in self._run(wide).items()}
        except (Error, MemoryError) as error:
            print(f"no reference in float64: {error}", file=sys.stderr)
        terms = max(self.task.shape.values(), default=1)
        return tuple(
            Expected.of(name, self.task.dtypes[name], peer[name], exact.get(name), terms) for name in self.written
        )

    def _wide(self, values: Values) -> Values | None:
        """Arguments in float64; None where the kernel does not take them, or has them."""
        wide, changed = dict(values), False
        for parameter in self.kernel.parameters:
            if parameter.kind == "tensor" and self.task.dtypes[parameter.name] in EPSILON:
                if "float64" not in parameter.dtypes:
                    return None
                changed = changed or self.task.dtypes[parameter.name] != "float64"
                wide[parameter.name] = copied(values[parameter.name], "float64")
        return wide if changed else None

    def _run(self, values: Values) -> Values:
        """What the kernel writes, by the plan that is modelled best for these arguments; they are as before then."""
        ordered = self._in_order(values, self.constants)
        plan = self._known[len(self.plans)] if len(self.plans) < len(self._known) else self._plan(ordered)
        self.plans.append(plan)
        with_plan(self.kernel, plan)(*ordered)
        self._settle()
        found = {name: copied(values[name]) for name in self.written}
        for name in self.written:
            refill(values[name], self._before[name])
        return found

    def _plan(self, ordered: Sequence[Any]) -> Plan:
        arguments, limits = bind(self.kernel, ordered), present_target(self.device).limits
        built = kernel_in(self.kernel.build(arguments.signature))
        strides = {name: view.strides for name, view in arguments.tensors.items()}
        try:
            return choose_plan(built, arguments.sizes, limits, None, strides).plan
        except Error:  # needs that cannot be read
            return default_plan(built, arguments.sizes, limits)

    def _in_order(self, values: Values, constants: Mapping[str, Any]) -> list[Any]:
        return [constants[p.name] if p.kind == "constant" else values[p.name] for p in self.kernel.parameters]

    def _settle(self) -> None:
        if self.device != CPU:
            import torch

            torch.cuda.synchronize(self.device)


def _sets(size: int, cache: int, effort: Effort) -> int:
    """Copies that together are twice what the last cache holds, within reason."""
    wanted = ceil(2 * cache / max(1, size))
    return max(1, min(wanted, effort.sets, effort.set_bytes // max(1, size)))
