"""The kernels that a function calls, as tasks to tune."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vkernels.compiler.default_session import patient
from vkernels.inspect.task import Task
from vkernels.ir.errors import ArgumentError, Error
from vkernels.runtime.events import LaunchEvent, on_launch

from .asked_task import place_of_kernel


def kernels_in(
    function: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[tuple[Task, str, int, float]], dict[str, str]]:
    """The kernels that a function calls, the longest first: task, device, calls, seconds; and why some are left out."""
    events: list[LaunchEvent] = []
    with patient():
        function(*args, **kwargs)
        with on_launch(events.append):
            function(*args, **kwargs)
    if not events:
        raise ArgumentError(f"tune: {getattr(function, '__name__', function)} calls no kernel")
    found: dict[Task, list[LaunchEvent]] = {}
    failed: dict[str, str] = {}
    for event in events:
        called = event.called
        constants = {name: value for name, value in called.constants.items() if name not in called.left_open}
        try:
            place = place_of_kernel(called.file, event.kernel)
            task = Task(place, dict(called.sizes), dict(called.dtypes), constants)
            found.setdefault(task, []).append(event)
        except Error as error:
            failed[event.kernel] = str(error)
    parts = [(task, some[0].device, len(some), sum(each.seconds for each in some)) for task, some in found.items()]
    return sorted(parts, key=lambda part: -part[3]), failed
