"""A candidate's code as calls of its task would have it, made without making arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vkernels.runtime.arguments import Arguments
from vkernels.runtime.checking.prepare_kernel import dense_tensors
from vkernels.runtime.launch import launcher_of

from .arguments import strides_of
from .task import Task, kernel_of, signature_of

if TYPE_CHECKING:
    from vkernels.ir.plan import Plan
    from vkernels.language.kernel import Kernel
    from vkernels.runtime.making import Code, Where

    from .measure.outcomes import Candidate


def with_plan(kernel: Kernel, plan: Plan) -> Kernel:
    """The kernel with this plan, and no other."""
    return type(kernel)(kernel.function, replace(kernel.options, plan=plan))


def code_of(task: Task, candidate: Candidate, numbers: Mapping[str, bool | int | float], where: Where) -> Code:
    """What calls would run somewhere. `numbers`: their scalars. Raises what making it raises."""
    called = replace(task, constants={**task.constants, **candidate.constants})
    return launcher_of(with_plan(kernel_of(task), candidate.plan)).ahead(_arguments(called, numbers), where)[2]


def _arguments(task: Task, numbers: Mapping[str, bool | int | float]) -> Arguments:
    """What is known of the arguments of a call."""
    tensors = dense_tensors(kernel_of(task), task.shape, task.dtypes)
    laid_out = {name: replace(tensors[name], strides=strides) for name, strides in strides_of(task).items()}
    return Arguments(laid_out, dict(numbers), dict(signature_of(task, numbers).constants), dict(task.shape))
