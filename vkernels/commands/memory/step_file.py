"""Load FILE.py:FUNCTION, a function that runs one iteration, and locate its errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def step_named(named: str, afresh: bool = False) -> tuple[str, str, Callable[[], Any]]:
    """Execute the file of FILE.py:FUNCTION and return path, name and function; `afresh`: execute it again.

    Raises `OptionError` and `FileError`.
    """
    from vkernels.inspect.cases import executed
    from vkernels.ir.did_you_mean import did_you_mean
    from vkernels.ir.errors import OptionError

    path, colon, name = named.rpartition(":")
    if not colon or not path.endswith(".py") or not name:
        raise OptionError(f"expected FILE.py:FUNCTION, a function that runs one iteration, got {named!r}")
    module = (executed.__wrapped__ if afresh else executed)(path)
    step = getattr(module, name, None)
    if not callable(step):
        functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise OptionError(f"{path} has no function {name!r}; {did_you_mean(name, functions or ['none'])}")
    return path, name, step


def step_error(path: str, name: str, error: Exception) -> Exception:
    """Return a `FileError` for what a step raised, with its line in the file."""
    from vkernels.ir.errors import FileError

    here = Path(path).resolve()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if Path(each.filename).resolve() == here]
    where = f"{path}:{lines[-1]}" if lines else path
    return FileError(f"{where}: {name}: {type(error).__name__}: {error}")
