"""The code of one kernel for one GPU: for sizes that are named, for others, and for any layout. No GPU is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from vkernels.compiler.arguments import Arguments, Same, example_arguments
from vkernels.compiler.array_layout import is_aligned
from vkernels.compiler.compilation import Compilation
from vkernels.compiler.compile_gpu import CompiledGpu
from vkernels.compiler.protocols import Constant
from vkernels.compiler.request import CompileRequest, CompileTarget, Executable
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.size_classes import LEVELS_ON_GPU, SizeClass, class_at
from vkernels.ir.errors import Error, OptionError
from vkernels.ir.launch_arguments import LaunchParameter
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.runtime.gpu import device as gpus
from vkernels.runtime.gpu.loading import hidden_parameters
from vkernels.targets import known_targets, limits_of
from vkernels.targets.slices import target_or_slice

from .build_cpu import MAX_SIZE, assumptions, may_be_of_class
from .build_request import BuildOptions, BuildRequest
from .manifest import Assumptions, GpuCode, GpuLaunch, GpuParameter
from .record_host import recorded_host

Role = Literal["shape", "class", "plain"]

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
    """Code for one role; see `Code` of the manifest. `binaries`: by the names that the launches of `code` give them."""

    role: Role
    code: GpuCode
    binaries: Mapping[str, bytes] = field(repr=False)
    plan: Plan
    rung: str
    assumes: Assumptions
    same: Same = ()
    tuned: Mapping[str, Constant] = field(default_factory=dict)


def gpu_target(name: str) -> GpuTarget:
    """The target of a name: `h100-sxm5-80`, `mi300x`, a GPU of this machine, `nvidia:0`, or a slice of one of them,
    `h100-sxm5-80:1g.10gb`.

    Raises `OptionError` for other names, and `SetupError` where the GPU is not here.
    """
    if here := re.fullmatch(r"((?:nvidia|amd):(\d+))(:.+)?", name):
        device, number, part = here.groups("")
        target = gpus.present_gpu(f"cuda:{number}").target
        if target.vendor != device.partition(":")[0]:
            raise OptionError(f"--targets: {device}: this is {target.name}")
        found = target_or_slice(f"{device}{part}", {device: target})
        return GpuTarget(f"{target.like or device}{part}", found.architecture, limits_of(found))
    found = target_or_slice(name, known_targets())
    if found.vendor == "cpu":
        raise OptionError(f"--targets: {name}: this is no GPU")
    return GpuTarget(name, found.architecture, limits_of(found))


def gpu_pieces(
    request: BuildRequest, shape: Mapping[str, int], strides: Mapping[str, Sequence[int]], target: GpuTarget,
    options: BuildOptions, session: CompilerSession, same: Sequence[Same], for_others: bool,
) -> Iterator[GpuPiece]:  # fmt: skip
    """The code of a kernel for a shape: for calls in which the tensors of each of `same` are one; for tensors at
    aligned addresses, which nearly all are, and for tensors at any. Then that for other sizes, if `for_others`.

    Raises what compiling for the shape raises. Where there is no code for other sizes, there is none.
    """

    def compilation(arguments: Arguments) -> Compilation:
        return session.compile(
            CompileRequest(
                request.kernel, arguments, CompileTarget(target.limits, target.architecture, target.name),
                left_open=request.left_open, wants_deterministic=options.deterministic,
            )
        )  # fmt: skip

    arguments = example_arguments(request.kernel, request.signature, shape, strides)
    exact = compilation(arguments)
    for pairs in same:
        for placed in _placements(arguments):
            yield _piece("shape", exact.given(placed, pairs), pairs)
    if not (options.plain and for_others):
        return
    if may_be_of_class(exact):
        sizes = {name: max(2, size) for name, size in shape.items()}
        changing = replace(class_at(LEVELS_ON_GPU[-1], sizes, True), wide=frozenset())
        for placed in _placements(arguments):
            yield from _for_others("class", exact.given(placed, ()).of_class(changing))
    apart = {name: tuple(2 * max(1, each) for each in view.strides) for name, view in arguments.tensors.items()}
    loose = _anywhere(example_arguments(request.kernel, request.signature, shape, apart))
    any_sizes = SizeClass({name: max(size, MAX_SIZE) for name, size in shape.items()})
    yield from _for_others("plain", compilation(loose).of_class(any_sizes))


def _placements(arguments: Arguments) -> Iterator[Arguments]:
    """Arguments at aligned addresses, and at others."""
    yield arguments
    if any(map(is_aligned, arguments.tensors.values())):
        yield _anywhere(arguments)


def _for_others(role: Literal["class", "plain"], compilation: Compilation) -> Iterator[GpuPiece]:
    with suppress(Error):  # as for a scratchpad that is too large for the class
        yield _piece(role, compilation)


def _anywhere(arguments: Arguments) -> Arguments:
    """The same with addresses that are aligned to elements only."""
    tensors = {
        name: replace(view, address=view.address + view.itemsize) if is_aligned(view) else view
        for name, view in arguments.tensors.items()
    }
    return replace(arguments, tensors=tensors)


def _made(role: str, compilation: Compilation) -> Executable:
    """The plan, its rung and its code; of plain code the bottom rung's."""
    if role != "plain":
        return compilation.executable()
    plan, rung = list(compilation.plans.plain())[-1]
    return Executable(plan, rung, compilation.fitting_code(plan))


def _piece(role: Role, compilation: Compilation, same: Same = ()) -> GpuPiece:
    made = _made(role, compilation)
    assert isinstance(made.code, CompiledGpu), "a GPU's"
    is_exact = role == "shape"
    prepared = made.code.lowered.prepare(compilation.request.arguments.sizes)
    launches, binaries = [], {}
    for number, (launch, binary) in enumerate(made.code.launches):
        file = f"gpu/{number}"
        binaries[file] = binary.code
        launches.append(
            GpuLaunch(
                file, binary.name, binary.threads, binary.shared, binary.global_scratch,
                launch.swap_bytes + (prepared.more_swap(number) if is_exact else 0),
                prepared.programs[number] if is_exact else 0,
                made.code.plan.resident_programs or 0, launch.is_persistent,
                hidden_parameters(binary, len(launch.parameters)), tuple(map(_parameter, launch.parameters)),
            )
        )  # fmt: skip
    host = None if is_exact else recorded_host(made.code.lowered.host)
    code = GpuCode((*launches,), prepared.buffer_bytes if is_exact else (), host)
    return GpuPiece(
        role, code, binaries, made.plan, made.rung, assumptions(made.code.facts), same, dict(compilation.tuned)
    )  # fmt: skip


def _parameter(parameter: LaunchParameter) -> GpuParameter:
    return GpuParameter(parameter.kind.value, parameter.name, parameter.number, parameter.type)  # type: ignore[arg-type]
