"""Run FILE.py:FUNCTION, one iteration of a program: record it, or run copies of it whose results are compared."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from vkernels.inspect.cases import executed
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import Error, FileError, OptionError
from vkernels.memory import record as recorder
from vkernels.memory.trace import MemoryTrace
from vkernels.memory.trace_file import save

from ..results import check_writable
from .options import console_for, status_line, write_result
from .show import show_trace, trace_to_json

SEED = 0


def record(step: str, out: Path, warm_up: int, json: Path | None) -> None:
    """Record one iteration as a trace."""
    check_writable(out)
    check_writable(json)

    console = console_for(json)
    with status_line(console, "running the file") as report:
        trace = recorded(step, warm_up, report)
    save(trace, out)
    show_trace(console, trace)
    console.print(f"  written to {out}")
    write_result(json, "record", file=str(out), trace=trace_to_json(trace))


def recorded(named: str, warm_up: int, report: Callable[[str], None]) -> MemoryTrace:
    """Record FILE.py:FUNCTION. Raises `OptionError` for an unknown function, `FileError` with the line that failed, and
    `TraceError` if iterations differ."""

    path, name, step = step_named(named)
    number = 0

    def counted() -> None:
        nonlocal number
        number += 1
        report(f"iteration {number} of {warm_up + 2}{'' if number <= warm_up else ', recorded'}")
        step()

    try:
        return recorder.record(counted, name, warm_up)
    except Error:
        raise
    except Exception as error:
        raise step_error(path, name, error) from error


def step_named(named: str, afresh: bool = False) -> tuple[str, str, Callable[[], Any]]:
    """Execute the file of FILE.py:FUNCTION and return path, name and function; `afresh`: execute it again.

    Raises `OptionError` and `FileError`.
    """

    path, colon, name = named.rpartition(":")
    if not colon or not path.endswith(".py") or not name:
        raise OptionError(f"expected FILE.py:FUNCTION, a function that runs one iteration, got {named!r}")
    module = executed(path, afresh)
    step = getattr(module, name, None)
    if not callable(step):
        functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise OptionError(f"{path} has no function {name!r}; {did_you_mean(name, functions or ['none'])}")
    return path, name, step


def step_error(path: str, name: str, error: Exception) -> Exception:
    """Return a `FileError` for what a step raised, with its line in the file."""

    here = Path(path).resolve()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if Path(each.filename).resolve() == here]
    where = f"{path}:{lines[-1]}" if lines else path
    return FileError(f"{where}: {name}: {type(error).__name__}: {error}")


class Twin:
    """FILE.py:FUNCTION in a module of its own. Twins draw the same random numbers."""

    def __init__(self, named: str):
        seed(SEED)
        self.path, self.name, self.step = step_named(named, afresh=True)
        self._calls = 0

    def __call__(self, step: Callable[[], Any] | None = None) -> Any:
        """Run one iteration, of `step` instead of its own function if given.

        Raises `FileError` with the line of the file that failed; errors of vkernels pass through.
        """

        self._calls += 1
        seed(SEED + self._calls)
        try:
            return (step or self.step)()
        except Error:
            raise
        except Exception as error:
            raise step_error(self.path, self.name, error) from error

    def state(self) -> Iterator[torch.Tensor]:
        """Return all tensors that the file's names hold, directly or in containers, modules and optimisers."""
        return tensors_of([getattr(self.step, "__globals__", {}).get(name) for name in self._names()])

    def _names(self) -> list[str]:
        return sorted(name for name in getattr(self.step, "__globals__", {}) if not name.startswith("__"))


def seed(number: int) -> None:
    """Seed the generators of Python, NumPy and torch."""

    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Return the tensors in nested containers, and in the state of modules and optimisers."""

    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf.detach()
        elif isinstance(leaf, torch.nn.Module | torch.optim.Optimizer):
            yield from tensors_of(leaf.state_dict())


def storages(tensors: list[torch.Tensor]) -> Iterator[int]:
    """Return the addresses of the tensors' storages."""

    for tensor in tensors:
        if tensor.layout == torch.strided:
            yield tensor.untyped_storage()._cdata


def same_bits(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    """Whether both have the same number of tensors, dtypes, shapes and bits."""
    return len(left) == len(right) and all(map(_same, left, right))


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:

    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.layout != torch.strided:
        return torch.equal(left, right)
    as_bytes = [each.contiguous().reshape(-1).view(torch.uint8) for each in (left, right)]
    return torch.equal(*as_bytes)
