"""The code of one kernel for one GPU: for sizes that are named. No GPU is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vkernels.compiler.arguments import Arguments, Same, example_arguments
from vkernels.compiler.array_layout import is_aligned
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.compile_gpu import CompiledGpu
from vkernels.compiler.protocols import Constant
from vkernels.compiler.request import CompileRequest, CompileTarget
from vkernels.compiler.session import CompilerSession
from vkernels.ir.errors import OptionError
from vkernels.ir.launch_arguments import LaunchParameter
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.runtime.gpu.loading import hidden_parameters
from vkernels.targets import known_targets, limits_of
from vkernels.targets.slices import target_or_slice

from .build_cpu import assumptions
from .build_request import BuildOptions, BuildRequest
from .manifest import Assumptions, GpuCode, GpuLaunch, GpuParameter

_SHOWN = ("registers", "shared", "threads", "multiprocessors", "cache", "memory")
"""Limits that a manifest states, where they are numbers."""


@dataclass(frozen=True)
class GpuTarget:
    """A GPU, or a slice of one, to build for."""

    name: str
    architecture: str
    limits: Limits

    @property
    def limits_shown(self) -> dict[str, int]:
        """The sizes of the limits."""
        return {name: value for name in _SHOWN if isinstance(value := getattr(self.limits, name, None), int)}


@dataclass(frozen=True)
class GpuPiece:
    """Code for calls of a shape. `binaries`: by the names that the launches of `code` give them."""

    code: GpuCode
    binaries: Mapping[str, bytes] = field(repr=False)
    plan: Plan
    rung: str
    assumes: Assumptions
    same: Same = ()
    tuned: Mapping[str, Constant] = field(default_factory=dict)


def gpu_target(name: str) -> GpuTarget:
    """The target of a name: `h100-sxm5-80`, `mi300x`, or a slice, `h100-sxm5-80:1g.10gb`. Raises `OptionError`."""
    found = target_or_slice(name, known_targets())
    if found.vendor == "cpu":
        raise OptionError(f"--targets: {name}: this is no GPU")
    return GpuTarget(name, found.architecture, limits_of(found))


def gpu_pieces(
    request: BuildRequest, shape: Mapping[str, int], strides: Mapping[str, Sequence[int]], target: GpuTarget,
    options: BuildOptions, session: CompilerSession, same: Sequence[Same],
) -> Iterator[GpuPiece]:  # fmt: skip
    """The code of a kernel for a shape: for calls in which the tensors of each of `same` are one; for tensors at
    aligned addresses, which nearly all are, and for tensors at any.

    Raises what compiling raises.
    """
    arguments = example_arguments(request.kernel, request.signature, shape, strides)
    compilation = session.compile(
        CompileRequest(
            request.kernel, arguments, CompileTarget(target.limits, target.architecture, target.name),
            left_open=request.left_open, wants_deterministic=options.deterministic,
        )
    )  # fmt: skip
    for pairs in same:
        yield _piece(compilation.given(arguments, pairs), arguments, pairs)
        if any(map(is_aligned, arguments.tensors.values())):
            yield _piece(compilation.given(_anywhere(arguments), pairs), arguments, pairs)


def _anywhere(arguments: Arguments) -> Arguments:
    """The same with addresses that are aligned to elements only."""
    tensors = {
        name: replace(view, address=view.address + view.itemsize) if is_aligned(view) else view
        for name, view in arguments.tensors.items()
    }
    return replace(arguments, tensors=tensors)


def _piece(compilation: Compilation, arguments: Arguments, same: Same) -> GpuPiece:
    made = compilation.executable()
    assert isinstance(made.code, CompiledGpu), "a GPU's"
    prepared = made.code.lowered.prepare(arguments.sizes)
    launches, binaries = [], {}
    for number, (launch, binary) in enumerate(made.code.launches):
        file = f"gpu/{number}"
        binaries[file] = binary.code
        launches.append(
            GpuLaunch(
                file, binary.name, binary.threads, binary.shared, binary.global_scratch,
                launch.swap_bytes + prepared.more_swap(number), prepared.programs[number],
                made.code.plan.resident_programs or 0, launch.is_persistent,
                hidden_parameters(binary, len(launch.parameters)), tuple(map(_parameter, launch.parameters)),
            )
        )  # fmt: skip
    code = GpuCode((*launches,), prepared.buffer_bytes)
    return GpuPiece(
        code, binaries, made.plan, made.rung, assumptions(made.code.facts), same, dict(compilation.tuned)
    )  # fmt: skip


def _parameter(parameter: LaunchParameter) -> GpuParameter:
    return GpuParameter(parameter.kind.value, parameter.name, parameter.number, parameter.type)  # type: ignore[arg-type]
