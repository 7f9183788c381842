"""Kernels that are fixed to a plan, and the planner's choice for a call, without any tuned plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vkernels.compiler.specialise import kernel_in
from vkernels.ir.errors import Error
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.default_plan import default_plan
from vkernels.language.kernel import Kernel
from vkernels.runtime.bind_arguments import bind
from vkernels.runtime.present_target import present_target


def with_plan(kernel: Kernel, plan: Plan) -> Kernel:
    """The kernel, fixed to a plan: it does not tune itself."""
    return type(kernel)(kernel.function, replace(kernel.options, plan=plan, tune=None))


def chosen_plan(kernel: Kernel, ordered: Sequence[Any], device: str) -> Plan:
    """The planner's choice for a call with these arguments on `cpu` or `cuda:0`."""
    arguments, limits = bind(kernel, ordered), present_target(device).limits
    built = kernel_in(kernel.build(arguments.signature))
    strides = {name: view.strides for name, view in arguments.tensors.items()}
    try:
        return choose_plan(built, arguments.sizes, limits, None, strides).plan
    except Error:  # its needs are unknown
        return default_plan(built, arguments.sizes, limits)
