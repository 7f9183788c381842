"""A `@vk.kernel` on its way to devices that are not here: planned for their limits, lowered to TTIR."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.errors import ArgumentError, Error, PlanError
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from ..arrays import ArrayView
from ..gpu.compiling import lower_for
from ..keys import frozen
from ..plans import plan_of
from ..protocols import Constant, KernelLike, Signature, size_name
from ..specialise import facts_for, kernel_in

_ADDRESS = 1 << 20

Launches = list[dict[str, Any]]
"""Of each launch: `name`, `text` of its TTIR, and `options`, the fields of `GpuOptions`."""


class KernelPreparer:
    """Prepares one kernel, for certain arguments, for one target after another. `launches`: for each plan so far."""

    def __init__(
        self,
        kernel: KernelLike,
        sizes: Mapping[str, int],
        dtypes: Mapping[str, str],
        scalars: Mapping[str, str],
        constants: Mapping[str, Constant],
    ):
        """Raises the author's mistakes in the kernel's text, and `ArgumentError` for a size that is missing."""
        self.kernel, self.sizes, self.dtypes = kernel, sizes, dtypes
        signature = Signature(tuple(dtypes.items()), tuple(scalars.items()), tuple(constants.items()))
        self.module: ModuleOp = kernel.build(signature)
        self.tensors = dense_tensors(kernel, sizes, dtypes)
        self.launches: list[Launches] = []
        self._prepared: dict[Hashable, int | Error] = {}

    def prepare(self, limits: Limits) -> int:
        """The number, in `launches`, of what runs within these limits. Raises what the kernel's plan cannot do."""
        plan = plan_of(self.kernel, kernel_in(self.module), self.sizes, self.dtypes, limits)
        key = frozen(plan)
        if key not in self._prepared:
            self._prepared[key] = self._lowered(plan)
        prepared = self._prepared[key]
        if isinstance(prepared, Error):
            raise prepared
        return prepared

    def _lowered(self, plan: Plan) -> int | Error:
        try:
            try:
                launches = self._lowered_for(plan, exact_whole=False)
            except PlanError:  # of a value that needs memory along a whole axis, and so its exact length
                launches = self._lowered_for(plan, exact_whole=True)
        except Error as error:
            return error
        self.launches.append(launches)
        return len(self.launches) - 1

    def _lowered_for(self, plan: Plan, exact_whole: bool) -> Launches:
        facts = facts_for(
            kernel_in(self.module), plan, self.sizes, self.tensors, distinct=True, exact_whole=exact_whole, for_gpu=True
        )
        lowering = lower_for(self.module, plan, facts)
        return [
            {"name": launch.name, "text": job.text, "options": asdict(job.options)}
            for launch, job in zip(lowering.lowered.launches, lowering.jobs(""), strict=True)
        ]


def dense_tensors(kernel: KernelLike, sizes: Mapping[str, int], dtypes: Mapping[str, str]) -> dict[str, ArrayView]:
    """The kernel's tensors as they would lie in memory of their own, row after row."""
    tensors = {}
    for number, parameter in enumerate(kernel.parameters):
        if parameter.kind == "tensor":
            shape = tuple(_length(kernel, parameter.name, n, d, sizes) for n, d in enumerate(parameter.dimensions))
            strides = tuple(prod(shape[n + 1 :]) for n in range(len(shape)))
            dtype = dtypes[parameter.name]
            address = (number + 1) * _ADDRESS
            tensors[parameter.name] = ArrayView(dtype, item_bytes(dtype), shape, strides, address, True)
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
