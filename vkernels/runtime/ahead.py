"""Code that is made ahead of calls: for shapes and devices that need not be here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import ArgumentError, Error, OptionError
from vkernels.ir.nearest import meant
from vkernels.ir.plan import Plan
from vkernels.ir.planning.shortage import Taken

from .arguments import Arguments, Scalar
from .arrays import CPU
from .checking.prepare_kernel import dense_tensors
from .compile.architectures import refuse_unless_compiles
from .compile.resources import read_taken
from .compiling import Compiled
from .launch import launcher_of
from .making import Where, here
from .protocols import KernelLike, Signature, size_name
from .settling import tuned_ahead
from .slices import target_or_slice
from .targets import CpuSizes, Target, known_targets, limits_of
from .targets.present import present_cpu

if TYPE_CHECKING:
    from .compile.triton_adapter import Binary
    from .making import Code

_EXAMPLES: Mapping[str, Scalar] = {"f64": 1.0, "i64": 1, "i1": True}
"""A scalar of each kind; code depends on no value."""


@dataclass(frozen=True)
class Ahead:
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
        return () if isinstance(self.code, Compiled) else self.code.binaries

    @property
    def resources(self) -> tuple[Taken, ...]:
        """What each binary takes, as its own tables say. Raises `FileError` where they cannot be read."""
        return tuple(map(read_taken, self.binaries))


def compile_ahead(
    kernel: KernelLike,
    signature: Signature,
    shapes: Mapping[str, int] | Sequence[Mapping[str, int]],
    targets: str | Target | Sequence[str | Target],
    left_open: Sequence[str] = (),
) -> tuple[Ahead, ...]:
    """A kernel's code for each shape on each target, as a call with tensors of their own, row after row, would have it.

    `left_open`: constants that those calls do not give, so that tuned values are taken where there are any.
    Plans, binaries and native code are kept on disk, where calls like these find them. Raises `OptionError`
    for a target or a size that does not exist, `SetupError` for a target that the installed Triton has no compiler for,
    and what a call would raise, with a note of the shape and target.
    """
    wanted = [shapes] if isinstance(shapes, Mapping) else list(shapes)
    places = [_where(each) for each in ([targets] if isinstance(targets, str | Target) else targets)]
    arguments = [_arguments(kernel, signature, shape) for shape in wanted]
    made = []
    for shape, asked in zip(wanted, arguments, strict=True):
        for key, where in places:
            try:
                plan, rung, code = launcher_of(kernel).ahead(_settled(kernel, asked, where, left_open), where)
            except Error as error:
                error.add_note(f"compiling {kernel.name} for {key}, {', '.join(f'{n}={s}' for n, s in shape.items())}")
                raise
            made.append(Ahead(kernel.name, key, dict(shape), plan, rung, code))
    return tuple(made)


def _settled(kernel: KernelLike, arguments: Arguments, where: Where, left_open: Sequence[str]) -> Arguments:
    """The arguments with the constants as a call there that leaves these open would have them."""
    strides = {name: view.strides for name, view in arguments.tensors.items()}
    found = tuned_ahead(kernel, arguments.signature, left_open, arguments.sizes, where.limits, strides)
    return replace(arguments, constants={**arguments.constants, **found})


def _where(asked: str | Target) -> tuple[str, Where]:
    if asked == CPU:
        return CPU, here(CPU)
    target = target_or_slice(asked, {**known_targets(), CPU: present_cpu()}) if isinstance(asked, str) else asked
    if isinstance(target.sizes, CpuSizes):
        return target.key, Where(limits_of(target), CPU, target.key)
    import triton

    refuse_unless_compiles(target.architecture, triton.__version__)
    return target.key, Where(limits_of(target), target.architecture, target.key)


def _arguments(kernel: KernelLike, signature: Signature, shape: Mapping[str, int]) -> Arguments:
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
            raise OptionError(f"{kernel.name} has no size {name!r}; {meant(name, names or ['none'])}")
        if type(size) is not int or size < 0:
            raise OptionError(f"{kernel.name}: the size {name}: expected a whole number of at least 0, got {size!r}")
    _refuse_what_is_missing(kernel, signature)
    tensors = dense_tensors(kernel, shape, dict(signature.tensors))
    scalars = {name: _EXAMPLES[kind] for name, kind in signature.scalars}
    return Arguments(tensors, scalars, dict(signature.constants), dict(shape))


def _refuse_what_is_missing(kernel: KernelLike, signature: Signature) -> None:
    given: dict[str, Any] = {**dict(signature.tensors), **dict(signature.scalars), **dict(signature.constants)}
    for parameter in kernel.parameters:
        name, what = parameter.name, f"{kernel.name}: `{parameter.name}`"
        if name not in given:
            kind = {"tensor": "a dtype", "scalar": "float, int or bool", "constant": "a value"}[parameter.kind]
            raise ArgumentError(f"{what} is missing: {kind}, as in `{name}=…`")
        if parameter.kind == "tensor" and given[name] not in parameter.dtypes:
            raise ArgumentError(f"{what} cannot be {given[name]!r}; it takes {', '.join(parameter.dtypes)}")
        if parameter.kind == "scalar" and given[name] not in _EXAMPLES:
            raise ArgumentError(f"{what}: expected float, int or bool, got {given[name]!r}")
