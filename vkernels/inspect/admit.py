"""`vk.admit`: whether calls of a kernel keep a latency beside other work on the CPU, said before they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from vkernels.compiler.ahead import shaped_arguments
from vkernels.compiler.arguments import Arguments
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.default_session import default_session, patient
from vkernels.compiler.request import CompileRequest
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import ArgumentError, Error, OptionError
from vkernels.ir.plan import Plan
from vkernels.language.declaration import with_dtype
from vkernels.language.kernel import Kernel
from vkernels.runtime.bind_arguments import bind, in_order
from vkernels.runtime.coordinator.priority import LEVELS, has_priorities
from vkernels.runtime.determinism import get_deterministic
from vkernels.runtime.events import LaunchRecord
from vkernels.runtime.observed_calls import observe, stop_observing
from vkernels.runtime.present_target import present_target
from vkernels.runtime.watch_contracts import Contract
from vkernels.targets.host_cpu import usable_cores

from .latency import Beside, Call, Prediction, in_microseconds, predict

MARGIN = 1.25
"""A target must be so many times as long as predicted: p99s of a few hundred calls each differ by as much."""

Neighbour = tuple[Any, Any] | tuple[Any, Any, str]
"""A kernel, its inputs, and its priority: low unless given."""


@dataclass(frozen=True)
class Admission:
    """The answer of `vk.admit`; true if it is yes. Times are in seconds.

    `why`: one sentence. `kernel`: with its sizes. `plan`: that calls run under; `slice`: the share of the CPU that it
    is for, `cpu:cores=2`. `p50`, `p99`: predicted beside the others; None where too little is known. `is_measured`:
    whether they were measured beside the same others before. `target`: the p99 that was asked for.
    """

    is_admitted: bool
    why: str
    kernel: str
    plan: Plan = field(repr=False)
    slice: str
    p50: float | None
    p99: float | None
    target: float
    is_measured: bool = False
    contract: Contract | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.is_admitted

    def end(self) -> None:
        """Watch no more calls. If calls ran beside others, how long they took is kept for later answers."""
        if self.contract is not None:
            self.contract.end()

    def __enter__(self) -> Admission:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def admit(
    kernel: Kernel | Callable[..., object],
    inputs: Any,
    *,
    p99: float,
    beside: Sequence[Neighbour] = (),
    priority: str = "high",
    dtype: Any = None,
    watch: bool = True,
) -> Admission:
    """Predict whether 99 of 100 calls of a kernel on the CPU end within `p99` seconds beside other work, and watch it.

    `kernel`: a kernel, or a function that calls one: it is run, with these inputs. `inputs`: the arguments, as a tuple
    or by name; or sizes by name, `{"M": 64, "N": 1024}`, with the `dtype` of all tensors that can have it. `beside`:
    what runs all the time meanwhile: pairs of kernel and inputs, or with a third part: its priority, else low.
    `priority`: "high" or "normal", of the calls. docs/sharing.md says what the answer is found by: profiles of
    `vk.profile` where there are some, else the kernel's needs and the cost model.

    Calls like these with this priority are watched if they are admitted, until `end` of the answer or of a `with` of
    it: `vk.stats().contracts` says how many were late. `watch=False` only asks.

    Raises `OptionError` for a p99 that is no positive number, another priority, and a function that calls no or
    several kernels; `ArgumentError` for inputs that do not fit, or are on a GPU.
    """
    try:
        return _admitted(kernel, inputs, p99, beside, priority, dtype, watch)
    except Error as error:
        raise error.shortened() from error.__cause__


def _admitted(
    kernel: Any, inputs: Any, p99: float, beside: Sequence[Neighbour], priority: str, dtype: Any, watch: bool
) -> Admission:
    if isinstance(p99, bool) or not isinstance(p99, int | float) or not (isfinite(p99) and p99 > 0):
        raise OptionError(f"admit: p99: expected seconds, a positive number, got {p99!r}")
    if priority == "low":
        raise OptionError('admit: priority: calls of low priority wait for all others; expected "high" or "normal"')
    _check_level(priority)
    others = _neighbours(beside, priority, dtype)
    call = Call.of(_compilation(kernel, inputs, dtype))
    found = predict(call, others, usable_cores())
    is_admitted = found is not None and _is_within(found, p99)
    contract = None
    if watch and is_admitted:
        contract = Contract(call.key, p99, priority, [(other.call.key, other.name) for other in others])
        contract.begin()
    return Admission(
        is_admitted, _why(call, others, found, p99), str(call.key), call.plan, call.key.slice,
        None if found is None else found.p50, None if found is None else found.p99, p99,
        found is not None and found.is_measured, contract,
    )  # fmt: skip


def _why(call: Call, others: Sequence[Beside], found: Prediction | None, p99: float) -> str:
    where = f" beside {', '.join(other.name for other in others)}" if others else ""
    if found is None:
        unknown = [str(each.key) for each in (call, *(other.call for other in others)) if each.demand is None]
        return f"refused: what {', '.join(unknown)} needs cannot be modelled, and was not measured{where}"
    answer, side = ("admitted", "within") if _is_within(found, p99) else ("refused", "not within")
    return (
        f"{answer}: {call.key}{where} takes {in_microseconds(found.p99)} at p99, times {MARGIN:g} to be sure {side} "
        f"the {in_microseconds(p99)} that were asked for: {found.how}"
    )


def _is_within(found: Prediction, p99: float) -> bool:
    return MARGIN * found.p99 <= p99


def _check_level(priority: object) -> None:
    if not isinstance(priority, str) or priority not in LEVELS:
        hint = did_you_mean(str(priority), list(LEVELS))
        raise OptionError(f"admit: priority: expected high, normal or low, got {priority!r}{hint}")


def _neighbours(beside: Sequence[Neighbour], priority: str, dtype: Any) -> list[Beside]:
    found = []
    for each in beside:
        if not isinstance(each, tuple) or len(each) not in (2, 3):
            raise OptionError(f"admit: beside: expected pairs of a kernel and its inputs, got {each!r}")
        kernel, inputs, level = each if len(each) == 3 else (*each, "low")
        _check_level(level)
        yields = has_priorities() and level == "low"  # others keep a core until the system takes it from them
        goes_first = has_priorities() and LEVELS[level] > LEVELS[priority]
        found.append(Beside(Call.of(_compilation(kernel, inputs, dtype)), level, yields, goes_first))
    return found


def _compilation(kernel: Any, inputs: Any, dtype: Any) -> Compilation:
    """What calls of a kernel with these inputs run."""
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (_as_tuple(inputs), {})
    if not isinstance(kernel, Kernel):
        if not callable(kernel):
            raise ArgumentError(f"admit: expected a kernel or a function, got {kernel!r}")
        return _on_cpu(_only_called(kernel, args, kwargs))
    if kwargs and all(type(value) is int for value in kwargs.values()):
        return _of_shape(kernel, kwargs, dtype)
    values = in_order(kernel, args, kwargs, leave_open=True)
    left_open = [p.name for p, value in zip(kernel.parameters, values, strict=True) if p.tunable and value is p.tunable]
    return _compiled(kernel, bind(kernel, in_order(kernel, args, kwargs)), left_open)


def _of_shape(kernel: Kernel, sizes: Mapping[str, int], dtype: Any) -> Compilation:
    """The same for sizes by name, as calls with contiguous tensors have it."""
    given = {p.name: float for p in kernel.parameters if p.kind == "scalar" and p.default is p.MISSING}
    signature = kernel.signature(**with_dtype(kernel, dtype, dict(given)))
    left_open = [parameter.name for parameter in kernel.parameters if parameter.tunable is not None]
    return _compiled(kernel, shaped_arguments(kernel, signature, sizes, {}), left_open)


def _compiled(kernel: Kernel, arguments: Arguments, left_open: Sequence[str]) -> Compilation:
    """What calls with these arguments run, the tunable constants `left_open`."""
    request = CompileRequest(
        kernel, arguments, present_target(arguments.device), (), left_open, wants_deterministic=get_deterministic()
    )
    return _on_cpu(default_session().compile(request))


def _on_cpu(compilation: Compilation) -> Compilation:
    request = compilation.request
    if request.target.on_gpu:
        raise ArgumentError(f"admit: {request.kernel.name}: the inputs are on a GPU; contracts are of calls on the CPU")
    return compilation


class _Seen:
    """An observer of which code is called."""

    def __init__(self) -> None:
        self.compilations: list[Compilation] = []

    def watch(self, compilation: Compilation, record: LaunchRecord) -> None:
        """Note it; its calls are not observed."""
        self.compilations.append(compilation)


def _only_called(function: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Compilation:
    """The compilation of the one kernel that a function calls. Runs the function."""
    seen = _Seen()
    with patient():
        observe(seen)
        try:
            function(*args, **kwargs)
        finally:
            stop_observing(seen)
    found = {(each.request.kernel.name, str(each.request.arguments.tensors)): each for each in seen.compilations}
    name = getattr(function, "__name__", function)
    if not found:
        raise OptionError(f"admit: {name} calls no kernel on the CPU")
    if len({each.request.kernel.name for each in found.values()}) > 1 or len(found) > 1:
        kernels = ", ".join(sorted({each.request.kernel.name for each in found.values()}))
        raise OptionError(f"admit: {name} calls several kernels ({kernels}): admit each of them")
    return next(iter(found.values()))


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
