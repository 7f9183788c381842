"""The values that a kernel's tunable constants take together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from vkernels.compiler.protocols import Constant
from vkernels.inspect.task import Task
from vkernels.ir.errors import ArgumentError

if TYPE_CHECKING:
    from vkernels.language.annotations import Tunable
    from vkernels.language.kernel import Kernel

CONSTANT = "constant "
"""Parameters of search spaces that are tunable constants are named so."""
MAX_COMBINATIONS = 256
"""Combinations of values, at most: each is a kernel of its own, that is built and planned."""


def tunable_values(kernel: Kernel, task: Task) -> list[dict[str, Constant]]:
    """Combinations of the values of the constants that are tunable and that the task leaves open; the one that a call
    without tuning takes comes first, and is there even if constraints rule it out. One empty one where none is tunable.

    Raises `ArgumentError` for too many, and for constraints that cannot be asked.
    """
    open_ = {
        parameter.name: parameter.tunable
        for parameter in kernel.parameters
        if parameter.tunable is not None and parameter.name not in task.constants
    }
    fixed = {p.name: p.default for p in kernel.parameters if p.kind == "constant"} | dict(task.constants)
    found: list[dict[str, Constant]] = [{name: tunable.values[0] for name, tunable in open_.items()}]
    for values in product(*(tunable.values for tunable in open_.values())):
        named = dict(zip(open_, values, strict=True))
        known = {**task.shape, **fixed, **named}
        if named != found[0] and all(_holds(task, name, t, known) for name, t in open_.items()):
            found.append(named)
            if len(found) > MAX_COMBINATIONS:
                raise ArgumentError(
                    f"{task.name}: its tunable constants have more than {MAX_COMBINATIONS} values together"
                )
    return found


def _holds(task: Task, name: str, tunable: Tunable, known: Mapping[str, Any]) -> bool:
    """Whether a constraint holds of the constants and sizes that it names."""
    missing = [each for each in tunable.names if each not in known]
    if missing:
        raise ArgumentError(f"{task.name}: {name}: `where` asks for {missing[0]}, which is no constant or size of it")
    try:
        return tunable.holds(known)
    except Exception as error:
        raise ArgumentError(f"{task.name}: {name}: `where` failed: {type(error).__name__}: {error}") from error
