"""A `@vk.kernel` on its way to devices that are not here: planned for their limits, lowered to TTIR."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.errors import ArgumentError, Error, PlanError
from vkernels.ir.facts import Facts
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import Chosen
from vkernels.ir.planning.shortage import Lack, Shortage, ShortError

from ..arguments import check_native
from ..arrays import ArrayView
from ..gpu.compiling import lower_for
from ..keys import frozen
from ..ladder import Descent, shortages
from ..plans import Plans
from ..protocols import Constant, KernelLike, Signature, size_name
from ..specialise import kernel_in, specialised
from .planned import AUTHOR, CHOSEN, PLAIN, Planned, describe_plan

_ADDRESS = 1 << 20


@dataclass(frozen=True)
class Lowered:
    """Code to be compiled, of one plan.

    `launches`: of each its `name`, `text` of its TTIR, `options`, the fields of `GpuOptions`; and for the sizes that it
    was lowered for: `programs`, `swap_bytes` of each that is resident, `persistent` if they go on to others, and the
    `resident` ones that the plan asks for. None on a CPU.
    `own_bytes`: of memory that a call takes beside its tensors and swap space.
    """

    launches: tuple[dict[str, Any], ...]
    own_bytes: int


@dataclass(frozen=True)
class Prepared:
    """What runs within some limits: the number of its `Lowered`, and the plan."""

    number: int
    planned: Planned


class KernelPreparer:
    """Prepares one kernel, for certain arguments, for one target after another. `lowered`: for each plan so far.

    `fixed`: the plan that every target gets. `strides`: of the tensors that do not lie row after row.
    """

    def __init__(
        self,
        kernel: KernelLike,
        sizes: Mapping[str, int],
        dtypes: Mapping[str, str],
        scalars: Mapping[str, str],
        constants: Mapping[str, Constant],
        fixed: Plan | None = None,
        strides: Mapping[str, Sequence[int]] = {},
    ):
        """Raises the author's mistakes in the kernel's text, and `ArgumentError` for a size that is missing."""
        self.kernel, self.sizes, self.dtypes, self.fixed = kernel, sizes, dtypes, fixed
        signature = Signature(tuple(dtypes.items()), tuple(scalars.items()), tuple(constants.items()))
        self.module: ModuleOp = kernel.build(signature)
        self.tensors = dense_tensors(kernel, sizes, dtypes, strides)
        self.lowered: list[Lowered] = []
        self._numbers: dict[Hashable, int | Error] = {}

    def prepare(self, limits: Limits, tried: Sequence[str] = ()) -> Prepared:
        """What runs within these limits. `tried`: what the code of each plan so far took too much of (`Lack`), where
        plans are chosen: the next plan down comes then.

        Raises what the kernel's plan cannot do, `ArgumentError` for a dtype that the target has no code for, and
        `PlanError` where there is no plan left.
        """
        check_native(self.kernel, self.dtypes, limits)
        strides = {name: view.strides for name, view in self.tensors.items()}
        plans = Plans(self.kernel, kernel_in(self.module), self.sizes, self.dtypes, limits, strides)
        own = self.fixed or plans.own()
        if own is None:
            return self._down(plans, tried)
        if tried:
            raise PlanError(f"{self.kernel.name} has a plan of its author's: there is no other")
        return self._of(own, AUTHOR, plans.allowed)

    @property
    def tensor_bytes(self) -> int:
        """Of all tensors together."""
        return sum(view.size * view.itemsize for view in self.tensors.values())

    def _down(self, plans: Plans, tried: Sequence[str]) -> Prepared:
        """The plan that a call would come to, if the code of those before took too much of this."""
        lacks = iter(tried)

        def attempt(plan: Plan) -> None:
            lack = next(lacks, None)
            if lack is not None:
                raise ShortError(Shortage(Lack(lack), 0, 0, f"takes too much: {lack}"))
            with shortages():
                self._lowered(plan, plans.allowed)

        descent: Descent[None] = Descent(self.kernel.name, plans.down, attempt)
        descent.land()
        chosen = descent.chosen
        assert isinstance(chosen, Chosen), "nothing was remembered"
        origin = CHOSEN if chosen.times.parts else PLAIN
        return self._of(chosen.plan, origin, plans.allowed, chosen, tuple(s.lack.value for _, s in descent.tried))

    def _of(
        self,
        plan: Plan,
        origin: str,
        limits: Limits,
        chosen: Chosen | None = None,
        tried: tuple[str, ...] = (),
    ) -> Prepared:
        number = self._lowered(plan, limits)
        return Prepared(number, describe_plan(self.module, plan, origin, self.sizes, limits, chosen, tried))

    def _lowered(self, plan: Plan, limits: Limits) -> int:
        """The number of what a plan was lowered to. Raises what the kernel's plan cannot do."""
        cores = 0 if limits.warp > 1 else limits.multiprocessors
        key = (frozen(plan), cores)
        if key not in self._numbers:
            self._numbers[key] = self._lower(plan, cores)
        number = self._numbers[key]
        if isinstance(number, Error):
            raise number
        return number

    def _lower(self, plan: Plan, cores: int) -> int | Error:
        try:
            lowered = specialised(
                lambda facts: self._lowered_for(plan, cores, facts),
                kernel_in(self.module), plan, self.sizes, self.tensors, for_gpu=not cores,
            )  # fmt: skip
        except Error as error:
            return error
        self.lowered.append(lowered)
        return len(self.lowered) - 1

    def _lowered_for(self, plan: Plan, cores: int, facts: Facts) -> Lowered:
        """For a GPU, or for a CPU of so many cores."""
        if cores:
            return Lowered((), self._native_bytes(plan, facts, cores))
        lowering = lower_for(self.module, plan, facts)
        prepared = lowering.lowered.prepare(self.sizes)
        launches = tuple(
            {
                "name": launch.name, "text": job.text, "options": asdict(job.options),
                "programs": prepared.programs[number], "persistent": launch.is_persistent,
                "swap_bytes": launch.swap_bytes + prepared.more_swap(number), "resident": plan.resident_programs,
            }
            for number, (launch, job) in enumerate(zip(lowering.lowered.launches, lowering.jobs(""), strict=True))
        )  # fmt: skip
        return Lowered(launches, sum(prepared.buffer_bytes))

    def _native_bytes(self, plan: Plan, facts: Facts, cores: int) -> int:
        """Bytes of memory that a call of native code for this machine takes on so many cores."""
        from ..compiling import compile_kernel
        from ..prepared import Prepared as Call

        native = compile_kernel(self.module, plan, facts).native
        slots: list[int] = []
        for parameter in self.kernel.parameters:
            if parameter.kind == "tensor":
                slots += [0, *self.tensors[parameter.name].strides]
            elif parameter.kind == "scalar":
                slots.append(0)
        call = Call(native, [*slots, *(self.sizes[name] for name in native.sizes)], (), (), 0)
        return sum(call.buffer_bytes) + cores * call.workspace


def dense_tensors(
    kernel: KernelLike,
    sizes: Mapping[str, int],
    dtypes: Mapping[str, str],
    strides: Mapping[str, Sequence[int]] = {},
) -> dict[str, ArrayView]:
    """The kernel's tensors as they would lie in memory of their own, row after row but for those whose `strides` are
    given."""
    tensors = {}
    for number, parameter in enumerate(kernel.parameters):
        if parameter.kind == "tensor":
            shape = tuple(_length(kernel, parameter.name, n, d, sizes) for n, d in enumerate(parameter.dimensions))
            plain = tuple(prod(shape[n + 1 :]) for n in range(len(shape)))
            laid = tuple(strides.get(parameter.name, plain))
            dtype = dtypes[parameter.name]
            address = (number + 1) * _ADDRESS
            tensors[parameter.name] = ArrayView(dtype, item_bytes(dtype), shape, laid, address, True)
    return tensors


def _length(kernel: KernelLike, tensor: str, number: int, declared: str | int, sizes: Mapping[str, int]) -> int:
    name = size_name(tensor, number, declared)
    if isinstance(name, str) and name not in sizes:
        raise ArgumentError(f"{kernel.name}: the size {name} is not given")
    return sizes[name] if isinstance(name, str) else name


def item_bytes(dtype: str) -> int:
    """Bytes of an element, by torch's name of its dtype."""
    if dtype == "bfloat16":
        return 2
    return 1 if dtype.startswith("float8") else np.dtype(dtype).itemsize
