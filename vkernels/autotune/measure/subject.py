"""A task's kernel and arguments in a worker: compile a candidate, check its results, call it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vkernels.compiler.arguments import CPU, example_arguments
from vkernels.compiler.default_session import default_session
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.compiler.specialise import kernel_in
from vkernels.inspect.task import Task, kernel_of, signature_of, strides_of
from vkernels.ir.errors import ArgumentError, Error, OutOfMemoryError, PlanError
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.default_plan import default_plan
from vkernels.ir.planning.resources import OutOfResources
from vkernels.language.kernel import Kernel
from vkernels.runtime.bind_arguments import bind
from vkernels.runtime.present_target import present_target

from ..arguments import checksum, copied, is_array, make_arguments, moved, numbers, only_written, outputs, refill
from .measures import Candidate, Effort, Failed, FailureReason

if TYPE_CHECKING:
    from vkernels.compiler.request import Code


Numbers = npt.NDArray[Any]

EPSILON = {
    "float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}  # fmt: skip
"""Distance from 1 to the next number of a dtype."""
UNITS, UNITS_OF_A_TERM = 16, 4
"""Tolerated roundings of any computation, and more for each doubling of the number of terms."""
PEERS = 4
"""A candidate's error may be this multiple of that of another plan in the same dtypes."""
BLOCK = 1 << 15
"""Elements compared together, so that they and temporary results stay in a cache."""
FAR_OFF = {"float64": 1e-8, "float32": 1e-2}
"""Larger differences between float64 and the dtype, relative to the largest value, are no rounding. 0.2 for 16 bits."""


@dataclass(frozen=True)
class Expected:
    """The expected value of one output.

    `peer`: by another plan in the same dtypes; `exact`: in float64, if the kernel supports it; `dtype`: the output's;
    `slack`: tolerated difference from `exact`, beyond the rounding of the result.
    """

    name: str
    dtype: str
    peer: Numbers
    exact: Numbers | None
    slack: float

    @staticmethod
    def of(name: str, dtype: str, peer: Numbers, exact: Numbers | None, terms: int) -> Expected:
        """`terms`: maximal number of terms of a result."""
        if dtype not in EPSILON:
            return Expected(name, dtype, peer, None, 0.0)
        expected = peer if exact is None else exact
        finite = np.isfinite(peer) & np.isfinite(expected)
        scale = float(np.max(np.abs(expected[finite]), initial=0.0))
        apart = float(np.max(np.abs(peer[finite] - expected[finite]), initial=0.0))
        if exact is not None and apart > FAR_OFF.get(dtype, 0.2) * scale:  # rounding makes it jump, as a random mask
            exact, apart = None, 0.0
        units = UNITS + UNITS_OF_A_TERM * log2(max(2, terms))
        rounding = min(EPSILON[dtype], EPSILON["float32"]) * units * scale
        return Expected(name, dtype, peer, exact, (2 if exact is None else 1) * rounding + PEERS * apart)

    def is_surely_right(self, found: object) -> bool:
        """Whether an output is right, checked fast and without large temporary arrays.

        False also if that is uncertain: at the very ends of the tolerance, and for some outputs.
        """
        if self._ends is None or not isinstance(found, np.ndarray) or found.shape != self.peer.shape:
            return False
        low, high = self._ends
        if found.dtype != low.dtype or not found.flags.c_contiguous:
            return False
        flat = found.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            some = slice(start, start + BLOCK)
            if not ((flat[some] >= low[some]) & (flat[some] <= high[some])).all():
                return False
        return True

    @cached_property
    def _ends(self) -> tuple[Numbers, Numbers] | None:
        """The least and largest tolerated value of each element; None if NumPy lacks the dtype. Empty for a NaN."""
        if self.dtype not in ("float32", "float64"):
            return None
        held = np.dtype(self.dtype)
        expected = self._expected().reshape(-1)
        with np.errstate(invalid="ignore", over="ignore"):
            reach = np.where(np.isfinite(expected), EPSILON[self.dtype] * np.abs(expected) + self.slack, 0.0)
            low, high = (expected - reach).astype(held), (expected + reach).astype(held)
            inner = np.nextafter(low, held.type(np.inf)), np.nextafter(high, held.type(-np.inf))
        exact = ~np.isfinite(expected)
        return np.where(exact, low, inner[0]), np.where(exact, high, inner[1])

    def _expected(self) -> Numbers:
        return self.peer if self.exact is None else np.where(np.isfinite(self.peer), self.exact, self.peer)

    def difference(self, found: Numbers) -> str:
        """What is wrong with an output; empty if it is right."""
        if found.shape != self.peer.shape:
            return f"{self.name} has shape {found.shape}, expected {self.peer.shape}"
        wrong = self._wrong(found)
        count = int(np.count_nonzero(wrong))
        if not count:
            return ""
        first = tuple(int(number) for number in np.argwhere(wrong)[0])
        expected = (self.peer if self.exact is None else self.exact)[first]
        place = ", ".join(map(str, first))
        digits = 17 if self.dtype == "float64" else 9
        return (
            f"{self.name}: {count} of {wrong.size} elements are wrong; the first, [{place}], is "
            f"{found[first]:.{digits}g}, expected {expected:.{digits}g}"
        )

    def _wrong(self, found: Numbers) -> npt.NDArray[np.bool_]:
        if self.dtype not in EPSILON:
            return np.asarray(found != self.peer)
        expected = self._expected()
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(found - expected)
            near = apart <= EPSILON[self.dtype] * np.abs(expected) + self.slack
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        return np.asarray(~(same | (near & np.isfinite(expected))))


MAX_KEPT_CANDIDATES = 32
"""Candidates whose code is kept, because finalists are measured again."""
Values = dict[str, Any]


class WrongAnswerError(Exception):
    """A plan's code gave wrong results."""


def with_plan(kernel: Kernel, plan: Plan) -> Kernel:
    """The kernel, fixed to a plan."""
    return type(kernel)(kernel.function, replace(kernel.options, plan=plan))


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

    def __init__(self, task: Task, seed: int, device: str, effort: Effort, plans: Sequence[Plan] = ()):
        """Make the arguments and a reference. `plans`: for the reference, if they were chosen before.

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
        while len(self._calls) >= MAX_KEPT_CANDIDATES:
            del self._calls[next(iter(self._calls))]
        self._calls[candidate.key] = calls
        return calls

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
        plan = self._known[len(self.plans)] if len(self.plans) < len(self._known) else self._plan(ordered)
        self.plans.append(plan)
        with_plan(self.kernel, plan)(*ordered)
        self._wait()
        found = {name: copied(values[name]) for name in self.written}
        self._refill(values, self.written)
        return found

    def _plan(self, ordered: Sequence[Any]) -> Plan:
        arguments, limits = bind(self.kernel, ordered), present_target(self.device).limits
        built = kernel_in(self.kernel.build(arguments.signature))
        strides = {name: view.strides for name, view in arguments.tensors.items()}
        try:
            return choose_plan(built, arguments.sizes, limits, None, strides).plan
        except Error:  # its needs are unknown
            return default_plan(built, arguments.sizes, limits)

    def _in_order(self, values: Values, constants: Mapping[str, Any]) -> list[Any]:
        return [constants[p.name] if p.kind == "constant" else values[p.name] for p in self.kernel.parameters]

    def _wait(self) -> None:
        if self.device != CPU:
            import torch

            torch.cuda.synchronize(self.device)


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
    except (OutOfResources, OutOfMemoryError, MemoryError) as error:
        report.failure = Failed(FailureReason.DOES_NOT_FIT, str(error) or "there is not enough memory")
    except (PlanError, ArgumentError) as error:
        report.failure = Failed(FailureReason.REFUSED, str(error))
    except Exception as error:
        name = "" if isinstance(error, Error) else f"{type(error).__name__}: "
        report.failure = Failed(otherwise, f"{name}{error}"[:2000])
