"""Which kernels a bundle is built of: tasks as requests to compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vkernels.bundles.build_request import BuildRequest
from vkernels.compiler.arguments import EXAMPLE_SCALARS, strides_in_order
from vkernels.compiler.protocols import Signature
from vkernels.ir.errors import OptionError
from vkernels.language.kernel import Kernel

from .cases import executed, is_vk_kernel
from .resolve import source_in_file
from .specialisation import KINDS
from .task import Task, kernel_of, signature_of, strides_of


def is_kernel(name: str) -> bool:
    """Whether FILE.py:NAME is a kernel; the file is executed. Raises `OptionError` and `FileError`."""
    source = source_in_file(name)
    return is_vk_kernel(getattr(executed(source.file), source.name, None))


def bundle_requests(tasks: Sequence[Task], layouts: Mapping[str, str] = {}) -> list[BuildRequest]:
    """Requests for tasks: those of one kernel, with the same dtypes and constants, are shapes of one request.

    `layouts`: orders of dimensions in memory, by tensor. Raises `OptionError` for a kernel that cannot be frozen.
    """
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        key = repr((task.kernel, sorted(task.dtypes.items()), sorted(task.constants.items(), key=str)))
        groups.setdefault(key, []).append(task)
    return [_request(group, layouts) for group in groups.values()]


def _request(tasks: Sequence[Task], layouts: Mapping[str, str]) -> BuildRequest:
    first = tasks[0]
    kernel = kernel_of(first)
    if kernel.options.checked:
        raise OptionError(f"{first.name}: a checked kernel is interpreted, and has no code to keep")
    left_open = tuple(
        each.name for each in kernel.parameters if each.tunable is not None and each.name not in first.constants
    )
    strides = tuple(strides_of(task) | _laid(kernel, task, layouts) for task in tasks)
    shapes = tuple(dict(task.shape) for task in tasks)
    return BuildRequest(kernel, _signature(kernel, first), shapes, strides, left_open, first.kernel)


def _signature(kernel: Kernel, task: Task) -> Signature:
    """The signature of a task; scalars have the kinds of their defaults."""
    scalars = [each for each in kernel.parameters if each.kind == "scalar"]
    kinds = {each.name: KINDS.get(type(each.default), each.dtypes[0]) for each in scalars}
    return signature_of(task, {name: EXAMPLE_SCALARS[kind] for name, kind in kinds.items()})


def _laid(kernel: Kernel, task: Task, layouts: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    own = {each.name for each in kernel.parameters}
    given = {name: order for name, order in layouts.items() if name in own}
    return strides_in_order(task.name, kernel.parameters, task.shape, given)
