"""What a `@vk.kernel` is specialised for: sizes, dtypes and constants as requested, the rest as it declares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkernels.compiler.default_dtypes import default_dtype
from vkernels.compiler.protocols import Constant, ParameterLike
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.language.annotations import Parameter
from vkernels.language.samples import SampleInputs

from .cases import KernelCase, KernelSource
from .signatures import parse_assignments, parse_value
from .task import Task, sizes_of

SHORT = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip


@dataclass(frozen=True)
class SpecialisationRequest:
    """What a user asks for: one dtype, or some by tensor; sizes; constants."""

    dtype: str | None = None
    dtypes: Mapping[str, str] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = {**self.shape, **self.dtypes, **self.constants} | ({"dtype": self.dtype} if self.dtype else {})
        return ", ".join(f"{name}={value}" for name, value in parts.items())


def parse_specialisation(dtype: str | None, shape: str | None, constants: str | None) -> SpecialisationRequest:
    """The request that the texts of the options make. Raises `OptionError`."""
    by_tensor = dtype is not None and "=" in dtype
    given = parse_assignments(dtype, "--dtype") if dtype is not None and by_tensor else {}
    return SpecialisationRequest(
        None if dtype is None or by_tensor else dtype_named(dtype),
        {tensor: dtype_named(name) for tensor, name in given.items()},
        {name: _size(name, text) for name, text in parse_assignments(shape, "--shape").items()} if shape else {},
        {n: parse_value(v) for n, v in parse_assignments(constants, "--constants").items()} if constants else {},
    )


def dtype_named(name: str) -> str:
    """Torch's name of a dtype. Raises `OptionError`, with the nearest name, for what is none."""
    from vkernels.language.dtypes import DTYPES

    found = SHORT.get(name, name)
    if found not in DTYPES:
        raise OptionError(f"--dtype: there is no dtype {name!r}; {did_you_mean(name, [*DTYPES, *SHORT])}")
    return found


def _size(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise OptionError(f"--shape: {name} is {text!r}; expected a positive whole number")
    return int(text)


NO_SAMPLES = SampleInputs()
NOTHING: Mapping[str, Any] = {}


def refuse_unknown(request: SpecialisationRequest, kernels: Sequence[Sequence[ParameterLike]], what: str) -> None:
    """Raise `OptionError` for a size, tensor or constant that none of the kernels has."""
    parameters = [parameter for kernel in kernels for parameter in kernel]
    known: dict[str, tuple[Mapping[str, object], Sequence[str]]] = {
        "size": (request.shape, sizes_of(parameters)),
        "tensor": (request.dtypes, [p.name for p in parameters if p.kind == "tensor"]),
        "constant": (request.constants, [p.name for p in parameters if p.kind == "constant"]),
    }
    for kind, (given, names) in known.items():
        for name in given:
            if name not in names:
                hint = did_you_mean(name, list(dict.fromkeys(names))) if names else "it has none"
                raise OptionError(f"{what} has no {kind} {name!r}; {hint}")


def specialise(
    source: KernelSource,
    parameters: Sequence[ParameterLike],
    request: SpecialisationRequest,
    shape: Mapping[str, int] = NOTHING,
    dtype: str | None = None,
    computed: Sequence[str] = (),
    samples: SampleInputs = NO_SAMPLES,
) -> Task:
    """The task of a kernel. `shape`, `dtype` and `computed`: what is usual, as a catalogue entry says it.

    Raises `OptionError` for a dtype that a tensor cannot have, for sizes that contradict each other, and for a size or
    constant that has no value.
    """
    tensors = [p for p in parameters if p.kind == "tensor"]
    chosen = request.dtype or dtype
    dtypes = {p.name: _dtype_of(source, p, chosen, request.dtypes.get(p.name), p.name in computed) for p in tensors}
    if request.dtype is not None and request.dtype not in dtypes.values():
        takes = "; ".join(f"{p.name} takes {', '.join(p.dtypes)}" for p in tensors)
        raise OptionError(f"{source.shown}: no tensor can be {request.dtype}: {takes}")
    sizes, constants = _sizes_and_constants(source, parameters, request, {**shape, **request.shape}, samples)
    return Task(source.reference, sizes, dtypes, constants)


def kernel_case(
    task: Task, parameters: Sequence[ParameterLike], request: SpecialisationRequest, usual: str | None = None,
    strides: Mapping[str, tuple[int, ...]] = NOTHING,
) -> KernelCase:  # fmt: skip
    """A task as `check` and `explain` take it. `usual`: the dtype where the request gives none."""
    constants = {p.name: task.constants.get(p.name, p.default) for p in parameters if p.kind == "constant"}
    return KernelCase(
        task.source,
        _shown_dtype(task.dtypes, request.dtype or usual, request),
        task.shape,
        task.dtypes,
        {p.name: _scalar_kind(p) for p in parameters if p.kind == "scalar"},
        constants,
        left_open=tuple(name for name in constants if name not in task.constants),
        strides=strides,
    )


def _dtype_of(
    source: KernelSource, parameter: ParameterLike, usual: str | None, given: str | None, computed: bool
) -> str:
    if given is None:
        return default_dtype(parameter.dtypes, usual, computed)
    if given not in parameter.dtypes:
        raise OptionError(f"{source.shown}: {parameter.name} cannot be {given}; it takes {', '.join(parameter.dtypes)}")
    return given


def _sizes_and_constants(
    source: KernelSource, parameters: Sequence[ParameterLike], request: SpecialisationRequest,
    given: Mapping[str, int], samples: SampleInputs,
) -> tuple[dict[str, int], dict[str, Constant]]:  # fmt: skip
    """All sizes, and the constants that do not have their defaults."""
    sizes = {name: size for name, size in given.items() if name not in samples.sizes}
    constants = {**samples.constants(sizes), **request.constants}
    every_constant = {p.name: p.default for p in parameters if p.kind == "constant"} | constants
    without = [name for name, value in every_constant.items() if value is Parameter.MISSING]
    if without:
        raise OptionError(f"{source.shown}: no value for {without[0]}; give it with --constants {without[0]}=…")
    for name, follows in samples.sizes.items():
        sizes[name] = follows(sizes, every_constant)
        if request.shape.get(name, sizes[name]) != sizes[name]:
            raise OptionError(
                f"{source.shown}: {name}={request.shape[name]} does not go with the other sizes: it follows from "
                f"them, as {sizes[name]}"
            )
    names = sizes_of(parameters)
    missing = [name for name in names if name not in sizes]
    if missing:
        raise OptionError(f"{source.shown}: sizes must be given: {', '.join(missing)}, as in {missing[0]}=1024")
    declared = {p.name for p in parameters if p.kind == "constant"}
    return {name: sizes[name] for name in names}, {n: value for n, value in constants.items() if n in declared}


def _shown_dtype(dtypes: Mapping[str, str], chosen: str | None, request: SpecialisationRequest) -> str:
    """One dtype where one was chosen for all, else that of each tensor."""
    if not request.dtypes and chosen is not None and chosen in dtypes.values():
        return chosen
    kinds = set(dtypes.values())
    return kinds.pop() if len(kinds) == 1 else ",".join(f"{name}={dtype}" for name, dtype in dtypes.items())


def _scalar_kind(parameter: ParameterLike) -> str:
    kinds = {bool: "i1", int: "i64", float: "f64"}
    return kinds.get(type(parameter.default), parameter.dtypes[0])
