"""What is checked: a kernel and its specialisation, as plain data for worker processes; kernels from users' files."""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from vkernels.compiler.backends.triton_kernels import is_triton_kernel
from vkernels.compiler.protocols import Constant
from vkernels.ir.errors import Error, FileError, OptionError

_executing = threading.local()
_modules: dict[str, ModuleType] = {}

Value = bool | int | float | str | None
"""Values of constant parameters."""


@dataclass(frozen=True)
class KernelSource:
    """The name of a kernel, and its importable module or its file, which is executed."""

    name: str
    module: str = ""
    file: str = ""

    @property
    def shown(self) -> str:
        """The name for people: NAME, or FILE.py:NAME."""
        return f"{self.file}:{self.name}" if self.file else self.name

    @property
    def reference(self) -> str:
        """MODULE:NAME, or FILE.py:NAME."""
        return f"{self.file or self.module}:{self.name}"


@dataclass(frozen=True)
class KernelCase:
    """A `@vk.kernel` with specific arguments; tensors without `strides` are dense and row-major.

    `shape`: sizes by name. `dtypes`: of each tensor; `dtype`: a name for all of them. `scalars`: f64, i64 or i1.
    `fixed`: the plan for all targets, as JSON. `left_open`: constants that were not given, with the author's values.
    `deterministic`: calls are set to be. `on_gpus`: the case of GPUs, where calls there pass other constants.
    """

    source: KernelSource
    dtype: str
    shape: Mapping[str, int]
    dtypes: Mapping[str, str]
    scalars: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    fixed: Mapping[str, Any] | None = None
    left_open: tuple[str, ...] = ()
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    deterministic: bool = False
    on_gpus: KernelCase | None = None

    def on(self, is_gpu: bool) -> KernelCase:
        """The case of a target."""
        return self.on_gpus if is_gpu and self.on_gpus is not None else self

    @property
    def configuration(self) -> Mapping[str, Any]:
        """Empty: the plan decides how it is compiled."""
        return {}

    def as_request(self) -> dict[str, Any]:
        """The case as a worker takes it."""
        return {
            "kind": "kernel", "source": vars(self.source), "shape": dict(self.shape), "dtypes": dict(self.dtypes),
            "scalars": dict(self.scalars), "constants": dict(self.constants), "fixed": self.fixed,
            "left_open": list(self.left_open), "deterministic": self.deterministic,
            "strides": {name: list(strides) for name, strides in self.strides.items()},
        }  # fmt: skip


@dataclass(frozen=True)
class JitSignature:
    """The signature of a plain Triton kernel, by parameter.

    `types`: Triton's types of the parameters that a launch passes. `constants`: values of the others. `divisible`:
    those of `types` that are multiples of 16 (addresses in bytes, or integers).
    """

    types: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Value], ...] = ()
    divisible: tuple[str, ...] = ()


@dataclass(frozen=True)
class JitCase:
    """A plain Triton kernel with a signature and one of its configurations.

    `number`: of the autotune configuration. `configuration`: its values, and further options; `warps` and `stages`
    override it.
    """

    source: KernelSource
    signature: JitSignature
    number: int = 0
    configuration: Mapping[str, Value] = field(default_factory=dict)
    warps: int | None = None
    stages: int | None = None

    @property
    def dtype(self) -> str:
        """The types of the passed parameters."""
        return ",".join(kind for _, kind in self.signature.types)

    @property
    def shape(self) -> Mapping[str, int]:
        """Empty: the sizes of a plain Triton kernel are values of its parameters."""
        return {}

    def as_request(self) -> dict[str, Any]:
        """The case as a worker takes it."""
        return {
            "kind": "jit", "source": vars(self.source), "types": dict(self.signature.types),
            "constants": dict(self.signature.constants), "divisible": list(self.signature.divisible),
            "number": self.number, "warps": self.warps, "stages": self.stages,
        }  # fmt: skip


Case = KernelCase | JitCase


def as_deterministic(case: Case) -> Case:
    """A case for deterministic calls. Raises `OptionError` for a plain Triton kernel, whose order is its own."""
    if isinstance(case, JitCase):
        raise OptionError(f"--deterministic is about kernels with a plan; {case.source.shown} is a plain Triton kernel")
    of_gpus = None if case.on_gpus is None else replace(case.on_gpus, deterministic=True)
    return replace(case, deterministic=True, on_gpus=of_gpus)


def kernel_at(source: KernelSource) -> Any:
    """The `@vk.kernel` or plain Triton kernel that a source names.

    Raises `FileError` if the file cannot be executed, and `OptionError` with the known names if it lacks the kernel.
    """
    module = executed(source.file) if source.file else _import(source.module)
    found = getattr(module, source.name, None)
    if is_vk_kernel(found) or is_triton_kernel(found):
        return found
    kernels = [name for name, value in vars(module).items() if is_vk_kernel(value) or is_triton_kernel(value)]
    where = source.file or source.module
    what = f"{source.name} is no kernel" if hasattr(module, source.name) else f"there is no {source.name}"
    close = get_close_matches(source.name, kernels, 1)
    help_ = f"did you mean {close[0]}?" if close else f"kernels there: {', '.join(kernels) or 'none'}"
    raise OptionError(f"{where}: {what}; {help_}")


def _import(name: str) -> ModuleType:
    with _as_executing():
        return importlib.import_module(name)


def is_vk_kernel(value: object) -> bool:
    """Whether this is a `@vk.kernel`."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("build", "plan_for", "parameters"))


def is_executing() -> bool:
    """Whether a file or module is being executed to find its kernels, by this thread."""
    return bool(getattr(_executing, "depth", 0))


@contextmanager
def _as_executing() -> Iterator[None]:
    _executing.depth = getattr(_executing, "depth", 0) + 1
    try:
        yield
    finally:
        _executing.depth -= 1


def executed(path: str, afresh: bool = False) -> ModuleType:
    """The module of a file, which is executed unless it was, with its folder in the import path.

    The program that runs, and modules that it has imported, are not executed again, unless `afresh`. Raises
    `FileError` with the line if the file cannot be read or raises.
    """
    if afresh:
        return _executed(path)
    if path not in _modules:
        _modules[path] = _imported(os.path.realpath(path)) or _executed(path)
    return _modules[path]


def _imported(path: str) -> ModuleType | None:
    files = ((module, getattr(module, "__file__", None)) for module in list(sys.modules.values()))
    return next((module for module, file in files if isinstance(file, str) and os.path.realpath(file) == path), None)


def _executed(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise FileError(f"{path}: there is no such file")
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
        with _as_executing():
            spec.loader.exec_module(module)
    except BaseException as error:
        if sys.modules.get(name) is module:
            del sys.modules[name]
        if isinstance(error, Error) or not isinstance(error, Exception | SystemExit):
            raise
        raise FileError(_failure(path, error)) from error
    return module


def _failure(path: str, error: BaseException) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    where = f"{path}:{line}" if line else path
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{where}: cannot be executed: {type(error).__name__}{': ' if said else ''}{said}"
