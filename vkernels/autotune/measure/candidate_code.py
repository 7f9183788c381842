"""A candidate's code as calls of its task would have it, made without making arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vkernels.compiler.arguments import example_arguments
from vkernels.compiler.default_session import default_session
from vkernels.compiler.request import CompileRequest
from vkernels.inspect.task import Task, kernel_of, signature_of, strides_of

if TYPE_CHECKING:
    from vkernels.compiler.request import Code, CompileTarget
    from vkernels.ir.plan import Plan
    from vkernels.language.kernel import Kernel

    from .outcomes import Candidate


def with_plan(kernel: Kernel, plan: Plan) -> Kernel:
    """The kernel with this plan, and no other."""
    return type(kernel)(kernel.function, replace(kernel.options, plan=plan))


def code_of(task: Task, candidate: Candidate, numbers: Mapping[str, bool | int | float], where: CompileTarget) -> Code:
    """What calls would run somewhere. `numbers`: their scalars. Raises what making it raises."""
    called = replace(task, constants={**task.constants, **candidate.constants})
    kernel = with_plan(kernel_of(task), candidate.plan)
    arguments = example_arguments(kernel, signature_of(called, numbers), called.shape, strides_of(called))
    return default_session().compile(CompileRequest(kernel, arguments, where)).executable().code
