"""The tasks of torch models: run a model, and find its kernel calls and their shares of the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from types import ModuleType
from typing import Any

from vkernels.compiler.default_session import patient
from vkernels.inspect.cases import executed
from vkernels.inspect.task import Task
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import FileError, OptionError
from vkernels.language.samples import CatalogueEntry
from vkernels.runtime.events import LaunchEvent, on_launch

RUNS = 3


@dataclass(frozen=True)
class Part:
    """A task of a model, its number of calls in a run of the model, and the seconds of all these calls.

    On a GPU these are seconds of the host, until the task itself is measured.
    """

    task: Task
    calls: int
    seconds: float


@dataclass(frozen=True)
class ModelTasks:
    """The tasks of a model.

    `parts`: distinct tasks, the longest first. `seconds`: of a run of the model. `left_out`: why kernels cannot be
    tuned here. `layers`: the replaced layers, one per line.
    """

    parts: tuple[Part, ...]
    seconds: float
    left_out: Mapping[str, str] = field(default_factory=dict)
    layers: str = ""

    @property
    def covered(self) -> float:
        """The tasks' share of the model's time on the host."""
        return min(1.0, sum(part.seconds for part in self.parts) / self.seconds) if self.seconds else 0.0


def read_model(name: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A model and its inputs, from FILE.py:FUNCTION, which is executed.

    FUNCTION has no parameters and returns the model and its inputs: a tensor, a tuple of tensors, or a dict by name.
    Raises `FileError` for a file that does not run, or a function that returns something else, and `OptionError` for
    an unknown function.
    """
    path, colon, function = name.rpartition(":")
    if not colon or not path.endswith(".py") or not function:
        raise OptionError(f"{name!r} names no model: expected FILE.py:FUNCTION, which returns a model and its inputs")
    module = executed(path)
    made = getattr(module, function, None)
    if not callable(made):
        functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise OptionError(f"{path} has no function {function!r}; {did_you_mean(function, functions or ['none'])}")
    try:
        found = made()
    except Exception as error:
        raise FileError(f"{name}: {type(error).__name__}: {error}") from error
    if not isinstance(found, tuple) or len(found) != 2 or not callable(found[0]):
        raise FileError(f"{name}: expected a model and its inputs, `return model, inputs`, got {type(found).__name__}")
    model, inputs = found
    if isinstance(inputs, Mapping):
        return model, (), dict(inputs)
    return model, tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,), {}


def tasks_of(
    model: Callable[..., Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any] | None = None,
    catalogue: Sequence[CatalogueEntry] = (),
    layers: str = "",
    runs: int = RUNS,
) -> ModelTasks:
    """Run a model and find its tasks; if it is in training mode, with a backward pass.

    `catalogue`: kernels to identify by name; others are identified by file. `layers`: the replaced layers, for the
    report. Raises what the model raises.
    """
    named = dict(named or {})
    found: list[list[LaunchEvent]] = []
    seconds: list[float] = []
    with patient():
        run_once(model, arguments, named)
        for _ in range(max(1, runs)):
            events: list[LaunchEvent] = []
            with on_launch(events.append):
                start = perf_counter()
                run_once(model, arguments, named)
                seconds.append(perf_counter() - start)
            found.append(events)
    parts, left_out = _parts(found, catalogue)
    return ModelTasks(parts, median(seconds), left_out, layers)


def _parts(
    runs: Sequence[Sequence[LaunchEvent]], catalogue: Sequence[CatalogueEntry]
) -> tuple[tuple[Part, ...], dict[str, str]]:
    modules = {entry.name: import_module(entry.module) for entry in catalogue}
    tasks: list[Task] = []
    times: dict[Task, list[float]] = {}
    calls: dict[Task, int] = {}
    left_out: dict[str, str] = {}
    for number, events in enumerate(runs):
        for event in events:
            task = _task(event, modules)
            if isinstance(task, str):
                left_out[event.kernel] = task
                continue
            if task not in times:
                tasks.append(task)
                times[task], calls[task] = [0.0] * len(runs), 0
            times[task][number] += event.seconds
            calls[task] += 1
    parts = [Part(task, -(-calls[task] // len(runs)), median(times[task])) for task in tasks]
    return tuple(sorted(parts, key=lambda part: -part.seconds)), left_out


def _task(event: LaunchEvent, modules: Mapping[str, ModuleType]) -> Task | str:
    called, name = event.called, event.kernel
    if not called.sizes:
        return "it takes no tensors whose sizes matter"
    if name in modules and called.file == modules[name].__file__:
        where = modules[name].__name__
    elif any(Path(str(module.__file__)).parent in Path(called.file).parents for module in modules.values()):
        return "it is a kernel of the library's own that is not in its catalogue"
    elif not Path(called.file).is_file():
        return "it stands in no file"
    else:
        where = called.file
    constants = {name: value for name, value in called.constants.items() if name not in called.left_open}
    return Task(f"{where}:{name}", dict(called.sizes), dict(called.dtypes), constants)


def run_once(model: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Run a model forward; if it is in training mode, with a backward pass."""
    import torch

    trains = bool(getattr(model, "training", False))
    with torch.set_grad_enabled(trains):
        result = model(*arguments, **named)
    outputs = [*result.values()] if isinstance(result, Mapping) else result
    values = outputs if isinstance(outputs, list | tuple) else [outputs]
    sums = [value.float().sum() for value in values if getattr(value, "requires_grad", False)]
    if trains and sums:
        sum(sums[1:], sums[0]).backward()
