"""Kernels from users' files, which are executed to get them; for child processes."""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import sys
import traceback
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from vkernels.compiler.backends.triton_kernels import is_triton_kernel
from vkernels.ir.errors import Error, FileError, OptionError

from .cases import KernelSource


def kernel_at(source: KernelSource) -> Any:
    """The `@vk.kernel` or plain Triton kernel that a source names.

    Raises `FileError` where the file cannot be executed, and `OptionError`, with the names that there are, where it
    has no such kernel.
    """
    module = executed(source.file) if source.file else importlib.import_module(source.module)
    found = getattr(module, source.name, None)
    if is_vk_kernel(found) or is_triton_kernel(found):
        return found
    kernels = [name for name, value in vars(module).items() if is_vk_kernel(value) or is_triton_kernel(value)]
    where = source.file or source.module
    what = "is no kernel" if hasattr(module, source.name) else "is not there"
    close = get_close_matches(source.name, kernels, 1)
    help_ = f"did you mean {close[0]}?" if close else f"kernels there: {', '.join(kernels) or 'none'}"
    raise OptionError(f"{where}: {source.name} {what}; {help_}")


def is_vk_kernel(value: object) -> bool:
    """Whether this is what `@vk.kernel` gives."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("build", "plan_for", "parameters"))


@cache
def executed(path: str) -> ModuleType:
    """The module that a file is, executed as Python would import it: its folder is where it finds its neighbours.

    Raises `FileError` where it cannot be read or does not run through, with the line.
    """
    if not Path(path).is_file():
        raise FileError(f"{path}: is no file")
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileError(f"{path}: is no Python file")
    module = importlib.util.module_from_spec(spec)
    linecache.checkcache(path)
    if name not in sys.modules:
        sys.modules[name] = module
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Error:
        raise
    except (Exception, SystemExit) as error:
        raise FileError(_failure(path, error)) from error
    return module


def _failure(path: str, error: BaseException) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    where = f"{path}:{line}" if line else path
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{where}: cannot be executed: {type(error).__name__}{': ' if said else ''}{said}"
