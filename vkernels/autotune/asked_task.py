"""A kernel that somebody asks to tune for the arguments of a call."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vkernels.compiler.arguments import Arguments
from vkernels.compiler.protocols import file_of
from vkernels.inspect.task import Task, kernel_of, strides_of
from vkernels.ir.errors import ArgumentError, FileError
from vkernels.language.kernel import Kernel
from vkernels.runtime.bind_arguments import bind, in_order

from .arguments import only_written
from .database.entry import layout


@dataclass(frozen=True)
class AskedTask:
    """A kernel to tune. `inputs`: the user's values of what it reads; None if they are not known. `call`: values of all
    parameters in order, to run plans in this process."""

    task: Task
    device: str
    inputs: Mapping[str, Any] | None = None
    call: tuple[Any, ...] = field(default=(), repr=False)

    @staticmethod
    def of(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> AskedTask:
        """The task of a call. Raises `ArgumentError` for inputs that do not fit, and as `place_of_kernel` does."""
        values = in_order(kernel, args, kwargs)
        arguments = bind(kernel, values)
        given = {p.name for p, _ in zip(kernel.parameters, args, strict=False)} | kwargs.keys()
        dtypes = {name: view.dtype for name, view in arguments.tensors.items()}
        constants = {name: value for name, value in arguments.constants.items() if name in given}
        task = Task(place_of_kernel(file_of(kernel), kernel.name), dict(arguments.sizes), dtypes, constants)
        kernel_of(task)
        _refuse_layouts(task, arguments)
        by_name = dict(zip((p.name for p in kernel.parameters), values, strict=True))
        unread = only_written(task)
        inputs = {n: by_name[n] for n in (*arguments.tensors, *arguments.scalars) if n not in unread}
        inputs |= {name: arguments.scalars[name] for name in arguments.scalars}
        return AskedTask(task, arguments.device, inputs, values)


def place_of_kernel(file: str, name: str) -> str:
    """MODULE:NAME of a kernel in a package, which needs its package to be imported; or else FILE.py:NAME.

    Raises `FileError` for a kernel that is in no file: other processes cannot find it.
    """
    if not Path(file).is_file():
        raise FileError(f"{name}: is in no file, where the processes that measure could find it: move it to a file")
    found = [m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == file]
    packaged = next((m for m in found if getattr(m, "__package__", None) and m.__name__ != "__main__"), None)
    return f"{file if packaged is None else packaged.__name__}:{name}"


def _refuse_layouts(task: Task, arguments: Arguments) -> None:
    usual = strides_of(task)
    for name, view in arguments.tensors.items():
        if layout(view.strides) != layout(usual[name]) and view.size > 1:
            raise ArgumentError(
                f"{task.name}: argument `{name}` has strides {list(view.strides)}, and is tuned with "
                f"{list(usual[name])}: other layouts are not tuned; pass a contiguous tensor"
            )
