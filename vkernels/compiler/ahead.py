"""Compile ahead of calls, for shapes and devices that need not be here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import ArgumentError, Error, OptionError
from vkernels.ir.plan import Plan
from vkernels.ir.planning.resources import BinaryResources
from vkernels.targets import CpuSizes, Target, known_targets, limits_of
from vkernels.targets.present import present_cpu
from vkernels.targets.slices import target_or_slice

from .arguments import CPU, EXAMPLE_SCALARS, Arguments, example_arguments, strides_in_order
from .backends.architectures import refuse_unless_compiles
from .backends.resources import read_taken
from .compile_cpu import CompiledCpu
from .protocols import KernelLike, Signature, size_name, with_bytes
from .request import CompileRequest, CompileTarget
from .session import CompilerSession

if TYPE_CHECKING:
    from .backends.triton_adapter import Binary
    from .request import Code


@dataclass(frozen=True)
class AheadResult:
    """What calls of one shape will run on one target.

    `target`: its key, a slice's as `KEY:SLICE`. `rung`: the last of the ladder that the plan stands on.
    """

    kernel: str
    target: str
    shape: Mapping[str, int]
    plan: Plan
    rung: str
    code: Code = field(repr=False)

    @property
    def binaries(self) -> tuple[Binary, ...]:
        """A GPU's, of each launch; none for a CPU, whose code is native."""
        return () if isinstance(self.code, CompiledCpu) else self.code.binaries

    @property
    def resources(self) -> tuple[BinaryResources, ...]:
        """What each binary takes, as its own tables say. Raises `FileError` where they cannot be read."""
        return tuple(map(read_taken, self.binaries))


def compile_ahead(
    kernel: KernelLike,
    signature: Signature,
    shapes: Mapping[str, int] | Sequence[Mapping[str, int]],
    targets: str | Target | Sequence[str | Target],
    cpu: CompileTarget,
    session: CompilerSession,
    left_open: Sequence[str] = (),
    is_deterministic: bool = False,
    layouts: Mapping[str, str] | None = None,
    judge: int | None = None,
) -> tuple[AheadResult, ...]:
    """A kernel's code for each shape on each target, as a call with tensors of their own would have it: row after row,
    or as `layouts` says (`strides_in_order`).

    `cpu`: the target called so. `left_open`: constants that those calls do not give, so that tuned values are taken
    where there are any. `is_deterministic`: calls are set to be. `judge`: see `CompileRequest`. The session
    stores plans, binaries and native code, and calls like these find them. Raises `OptionError` for a target, a size or
    a layout that does not exist, `SetupError` for a target that the installed Triton has no compiler for, and what a
    call would raise, with a note of the shape and target.
    """
    listed_shapes = [shapes] if isinstance(shapes, Mapping) else list(shapes)
    listed_targets = [targets] if isinstance(targets, str | Target) else list(targets)
    compile_targets = [(CPU, cpu) if target == CPU else _compile_target(target) for target in listed_targets]
    arguments = [shaped_arguments(kernel, signature, shape, layouts or {}) for shape in listed_shapes]
    results = []
    for shape, example in zip(listed_shapes, arguments, strict=True):
        for key, target in compile_targets:
            try:
                request = CompileRequest(
                    kernel, example, target, left_open=left_open, wants_deterministic=is_deterministic, judge=judge
                )
                made = session.compile(request).executable()
            except Error as error:
                error.add_note(f"compiling {kernel.name} for {key}, {', '.join(f'{n}={s}' for n, s in shape.items())}")
                raise
            results.append(AheadResult(kernel.name, key, dict(shape), made.plan, made.rung, made.code))
    return tuple(results)


def _compile_target(named: str | Target) -> tuple[str, CompileTarget]:
    """A target by its key or as it is, and its key."""
    target = target_or_slice(named, {**known_targets(), CPU: present_cpu()}) if isinstance(named, str) else named
    if isinstance(target.sizes, CpuSizes):
        return target.key, CompileTarget(limits_of(target), CPU, target.key)
    import triton

    refuse_unless_compiles(target.architecture, triton.__version__)
    return target.key, CompileTarget(limits_of(target), target.architecture, target.key)


def shaped_arguments(
    kernel: KernelLike, signature: Signature, shape: Mapping[str, int], layouts: Mapping[str, str]
) -> Arguments:
    """Arguments as a call would have them, but for their memory."""
    declared = [
        size_name(parameter.name, number, dimension)
        for parameter in kernel.parameters
        if parameter.kind == "tensor"
        for number, dimension in enumerate(parameter.dimensions)
    ]
    names = [name for name in dict.fromkeys(declared) if isinstance(name, str)]
    for name, size in shape.items():
        if name not in names:
            raise OptionError(f"{kernel.name} has no size {name!r}; {did_you_mean(name, names or ['none'])}")
        if type(size) is not int or size < 0:
            raise OptionError(f"{kernel.name}: the size {name}: expected a whole number of at least 0, got {size!r}")
    _refuse_missing(kernel, signature)
    shape = with_bytes(shape, names)
    strides = strides_in_order(kernel.name, kernel.parameters, shape, layouts)
    return example_arguments(kernel, signature, shape, strides)


def _refuse_missing(kernel: KernelLike, signature: Signature) -> None:
    given: dict[str, Any] = {**dict(signature.tensors), **dict(signature.scalars), **dict(signature.constants)}
    for parameter in kernel.parameters:
        name, what = parameter.name, f"{kernel.name}: `{parameter.name}`"
        if name not in given:
            kind = {"tensor": "a dtype", "scalar": "float, int or bool", "constant": "a value"}[parameter.kind]
            raise ArgumentError(f"{what} is missing: {kind}, as in `{name}=…`")
        if parameter.kind == "tensor" and given[name] not in parameter.dtypes:
            raise ArgumentError(f"{what} cannot be {given[name]!r}; it takes {', '.join(parameter.dtypes)}")
        if parameter.kind == "scalar" and given[name] not in EXAMPLE_SCALARS:
            raise ArgumentError(f"{what}: expected float, int or bool, got {given[name]!r}")
