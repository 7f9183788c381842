"""A request to compile a kernel, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.targets.deterministic import deterministic_limits

from .arguments import CPU, Arguments, Same
from .protocols import Constant, KernelLike

if TYPE_CHECKING:
    from .compile_cpu import CompiledCpu
    from .compile_gpu import CompiledGpu

    Code: TypeAlias = CompiledCpu | CompiledGpu
    """Native code, or a GPU's binaries."""


@dataclass(frozen=True)
class CompileTarget:
    """A device to compile for. `architecture`: `cpu`, `sm_90`, `gfx942`; `slice`: its name in events and messages."""

    limits: Limits
    architecture: str
    slice: str

    @property
    def on_gpu(self) -> bool:
        return self.architecture != CPU


@dataclass(frozen=True)
class CompileRequest:
    """A kernel and the arguments of a call, to be compiled for a target.

    `same`: parameters that have the same tensor. `left_open`: constants that the call does not give; the arguments have
    any value of those that are tunable. `plan`: replaces the kernel's own. `keep_stages`: keep the text of every stage,
    and compile again. `wants_deterministic`: as calls of all kernels are set to be; see `is_deterministic`.
    `judge`: how many plans are compiled to choose one by its binaries, on a GPU; None: as many as the session says.
    """

    kernel: KernelLike
    arguments: Arguments
    target: CompileTarget
    same: Same = ()
    left_open: Sequence[str] = ()
    plan: Plan | None = None
    keep_stages: bool = False
    wants_deterministic: bool = False
    judge: int | None = None

    @property
    def is_deterministic(self) -> bool:
        """Whether its calls give the same bits in every run, since the kernel or all calls are set to."""
        return self.wants_deterministic or self.kernel.deterministic

    @property
    def limits(self) -> Limits:
        """The limits to plan for."""
        return deterministic_limits(self.target.limits) if self.is_deterministic else self.target.limits

    def with_constants(self, constants: Mapping[str, Constant]) -> CompileRequest:
        """The request with other values of these constants."""
        return replace(self, arguments=replace(self.arguments, constants={**self.arguments.constants, **constants}))


@dataclass(frozen=True)
class Executable:
    """What calls like a request run. `rung`: the last of the ladder that the plan stands on."""

    plan: Plan
    rung: str
    code: Code = field(repr=False)
