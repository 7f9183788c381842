"""Tasks of the library's kernels with their usual sizes, to tune, place or measure."""

from __future__ import annotations

from collections.abc import Sequence

from vkernels.inspect.resolve import resolve_tasks
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.task import Task

from .catalogue import CATALOGUE


def library_tasks(
    names: Sequence[str], request: SpecialisationRequest | None = None, on_gpu: bool = False
) -> list[Task]:
    """The tasks of `all`, of kernels or families of the library, and of FILE.py:KERNEL: see `resolve_tasks`."""
    return resolve_tasks(names, request or SpecialisationRequest(), CATALOGUE, on_gpu)
