"""What is to be checked: a kernel and what it is specialised for. Everything is plain data, as children prepare it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vkernels.compiler.protocols import Constant

from .signatures import JitSignature, Value


@dataclass(frozen=True)
class KernelSource:
    """Where a kernel is: its name in a module of Python's path, or in a file, which is executed to get it."""

    name: str
    module: str = ""
    file: str = ""

    @property
    def shown(self) -> str:
        """As people name it: NAME, or FILE.py:NAME."""
        return f"{self.file}:{self.name}" if self.file else self.name

    @property
    def reference(self) -> str:
        """MODULE:NAME, or FILE.py:NAME."""
        return f"{self.file or self.module}:{self.name}"


@dataclass(frozen=True)
class KernelCase:
    """A `@vk.kernel` for certain arguments, tensors dense and row after row, but for those that have `strides`.

    `shape`: sizes by name. `dtypes`: of each tensor; `dtype`: what to call them all. `scalars`: f64, i64 or i1.
    `fixed`: the plan, as JSON, for all targets. `left_open`: constants that nobody gave, with the author's values.
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

    @property
    def configuration(self) -> Mapping[str, Any]:
        """Nothing: how it is compiled is up to the plan."""
        return {}

    def as_request(self) -> dict[str, Any]:
        """As `preparing` takes it."""
        return {
            "kind": "kernel", "source": vars(self.source), "shape": dict(self.shape), "dtypes": dict(self.dtypes),
            "scalars": dict(self.scalars), "constants": dict(self.constants), "fixed": self.fixed,
            "left_open": list(self.left_open),
            "strides": {name: list(strides) for name, strides in self.strides.items()},
        }  # fmt: skip


@dataclass(frozen=True)
class JitCase:
    """A plain Triton kernel for a signature, in one of its configurations.

    `number`: of the autotune configuration. `configuration`: what that holds, and options given beside; options:
    `warps` and `stages` in place of the configuration's.
    """

    source: KernelSource
    signature: JitSignature
    number: int = 0
    configuration: Mapping[str, Value] = field(default_factory=dict)
    warps: int | None = None
    stages: int | None = None

    @property
    def dtype(self) -> str:
        """The types of all that is passed."""
        return ",".join(kind for _, kind in self.signature.types)

    @property
    def shape(self) -> Mapping[str, int]:
        """None: the sizes of a plain Triton kernel are values of its parameters."""
        return {}

    def as_request(self) -> dict[str, Any]:
        """As `preparing` takes it."""
        return {
            "kind": "jit", "source": vars(self.source), "types": dict(self.signature.types),
            "constants": dict(self.signature.constants), "divisible": list(self.signature.divisible),
            "number": self.number, "warps": self.warps, "stages": self.stages,
        }  # fmt: skip


Case = KernelCase | JitCase
