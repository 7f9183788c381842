"""Parse what a kernel is specialised for: sizes, dtypes and constants, and signatures of plain Triton kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkernels.compiler.arguments import strides_in_order
from vkernels.compiler.default_dtypes import default_dtype
from vkernels.compiler.protocols import Constant, ParameterLike, with_bytes
from vkernels.ir.did_you_mean import did_you_mean
from vkernels.ir.errors import OptionError
from vkernels.language.annotations import Parameter
from vkernels.language.samples import SampleInputs

from .cases import JitSignature, KernelCase, KernelSource, Value
from .task import Task, sizes_of

NUMBERS = (
    "fp8e4nv", "fp8e4b8", "fp8e4b15", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64", "i1", "i8", "i16", "i32",
    "i64", "u1", "u8", "u16", "u32", "u64",
)  # fmt: skip
"""Triton's types."""

_TYPE = re.compile(rf"(?:\*k?)?(?:{'|'.join(NUMBERS)})")
_DESCRIPTOR = re.compile(rf"tensordesc<(?:{'|'.join(NUMBERS)})\[[1-9][0-9]*(?:,[1-9][0-9]*){{0,4}}\]>")
_INTEGER = re.compile(r"[+-]?\d+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORDS: Mapping[str, Value] = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class TritonParameter:
    """A parameter of a plain Triton kernel. `constant`: declared `tl.constexpr`; `optional`: it has a default."""

    name: str
    constant: bool
    optional: bool = False


def parse_value(text: str) -> Value:
    """Parse a constant in Python's syntax: True, None, 128, 1e-5; other texts stand for themselves, without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    quoted = re.fullmatch(r"'([^']*)'|\"([^\"]*)\"", text)
    return text if quoted is None else quoted[1] or quoted[2] or ""


def parse_assignments(text: str, option: str) -> dict[str, str]:
    """Parse `M=1024,N=64`. Raises `OptionError` for anything else, and for duplicate names."""
    given: dict[str, str] = {}
    for entry in split_at_commas(text):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not _NAME.fullmatch(name) or not equals or not value:
            raise OptionError(f"{option}: expected NAME=VALUE, got {entry!r}")
        if name in given:
            raise OptionError(f"{option}: {name} is given twice")
        given[name] = value
    return given


def split_at_commas(text: str) -> list[str]:
    """Split at commas outside brackets and quotes, and strip blanks."""
    entries, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        depth += 0 if quote else (letter in "<[(") - (letter in ">])")
        if letter == "," and depth == 0 and not quote:
            entries.append("")
        else:
            entries[-1] += letter
    return [entry.strip() for entry in entries]


def parse_signature(text: str, parameters: Sequence[TritonParameter], constants: Mapping[str, Value]) -> JitSignature:
    """Parse a signature: an entry for each parameter in order; constant parameters may be left out.

    An entry is a type (`*fp16`, `i32`, `tensordesc<fp16[64,32]>`), followed by `:16` for a multiple of 16 or `:1` for
    a 1; or the value of a constant parameter. `constants`: values by name. Raises `OptionError`.
    """
    names = [parameter.name for parameter in parameters]
    for name in constants:
        if name not in names:
            raise OptionError(f"--constants: the kernel has no parameter {name}; it has {', '.join(names)}")
    types: dict[str, str] = {}
    values: dict[str, Value] = {}
    divisible: list[str] = []
    for parameter, entry in _described(text, parameters, constants):
        kind, _, hint = (part.strip() for part in entry.partition(":"))
        if parameter.constant or _INTEGER.fullmatch(entry):
            values[parameter.name] = parse_value(entry)
        elif parameter.name not in constants:
            kind = _checked(parameter.name, entry, kind.replace(" ", ""), hint)
            if hint == "1":
                values[parameter.name] = 1
                continue
            types[parameter.name] = kind
            divisible += [parameter.name] if hint else []
    return JitSignature(tuple(types.items()), tuple({**values, **constants}.items()), tuple(divisible))


def _described(
    text: str, parameters: Sequence[TritonParameter], constants: Mapping[str, Value]
) -> list[tuple[TritonParameter, str]]:
    entries = split_at_commas(text) if text.strip() else []
    plain = [p for p in parameters if not p.constant]
    passed = [p for p in plain if p.name not in constants]
    for described in (passed, plain, parameters):
        if len(described) == len(entries):
            return list(zip(described, entries, strict=True))
    names = ", ".join(p.name for p in passed) or "no parameter"
    raise OptionError(
        f"--signature has {len(entries)} entries; expected {len(passed)}, for {names}, "
        f"or one for each of the {len(parameters)} parameters"
    )


def _checked(name: str, entry: str, kind: str, hint: str) -> str:
    if not _TYPE.fullmatch(kind) and not _DESCRIPTOR.fullmatch(kind):
        raise OptionError(f"--signature: {name} is {entry!r}; expected a type such as *fp16:16, i32 or fp32")
    is_one = hint == "1" and re.fullmatch(r"[iu]\d+", kind)
    if hint not in ("", "16") and not is_one:
        raise OptionError(f"--signature: {name} is {entry!r}; expected :16, for a multiple of 16, or i32:1")
    return kind


SHORT = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip


KINDS = {bool: "i1", int: "i64", float: "f64"}


@dataclass(frozen=True)
class SpecialisationRequest:
    """A user's request: one dtype, or dtypes by tensor; sizes; constants; orders of dimensions in memory by tensor."""

    dtype: str | None = None
    dtypes: Mapping[str, str] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = {**self.shape, **self.dtypes, **self.constants, **self.layouts} | (
            {"dtype": self.dtype} if self.dtype else {}
        )
        return ", ".join(f"{name}={value}" for name, value in parts.items())


def parse_specialisation(
    dtype: str | None, shape: str | None, constants: str | None, layouts: str | None = None
) -> SpecialisationRequest:
    """Parse the options into a request. Raises `OptionError`."""
    by_tensor = dtype is not None and "=" in dtype
    given = parse_assignments(dtype, "--dtype") if dtype is not None and by_tensor else {}
    return SpecialisationRequest(
        None if dtype is None or by_tensor else dtype_named(dtype),
        {tensor: dtype_named(name) for tensor, name in given.items()},
        {name: _size(name, text) for name, text in parse_assignments(shape, "--shape").items()} if shape else {},
        {n: parse_value(v) for n, v in parse_assignments(constants, "--constants").items()} if constants else {},
        parse_assignments(layouts, "--layout") if layouts else {},
    )


def dtype_named(name: str) -> str:
    """Torch's name of a dtype. Raises `OptionError` with the nearest name for an unknown one."""
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
    """Raise `OptionError` for a requested size, tensor or constant that none of the kernels has."""
    parameters = [parameter for kernel in kernels for parameter in kernel]
    known: dict[str, tuple[Mapping[str, object], Sequence[str]]] = {
        "size": (request.shape, sizes_of(parameters)),
        "tensor": ({**request.dtypes, **request.layouts}, [p.name for p in parameters if p.kind == "tensor"]),
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
    on_gpu: bool = False,
) -> Task:
    """The task of a kernel. `shape`, `dtype` and `computed`: defaults, as in a catalogue entry. `on_gpu`: with the
    constants of calls on GPUs.

    Raises `OptionError` for an unsupported dtype, contradictory sizes, and a missing size or constant.
    """
    tensors = [p for p in parameters if p.kind == "tensor"]
    chosen = request.dtype or dtype
    dtypes = {p.name: _dtype_of(source, p, chosen, request.dtypes.get(p.name), p.name in computed) for p in tensors}
    if request.dtype is not None and request.dtype not in dtypes.values():
        takes = "; ".join(f"{p.name} takes {', '.join(p.dtypes)}" for p in tensors)
        raise OptionError(f"{source.shown}: no tensor can be {request.dtype}: {takes}")
    sizes, constants = _sizes_and_constants(source, parameters, request, {**shape, **request.shape}, samples, on_gpu)
    return Task(source.reference, sizes, dtypes, constants)


def kernel_case(
    task: Task, parameters: Sequence[ParameterLike], request: SpecialisationRequest, usual: str | None = None,
    strides: Mapping[str, tuple[int, ...]] = NOTHING,
) -> KernelCase:  # fmt: skip
    """A task as `check` and `explain` take it. `usual`: the default dtype. `strides`: of tensors that the request says
    nothing of, where they are not row-major. Raises `OptionError` for a layout that cannot be."""
    own = {parameter.name for parameter in parameters}
    layouts = {name: order for name, order in request.layouts.items() if name in own}
    laid = strides_in_order(task.source.shown, parameters, task.shape, layouts)
    constants = {p.name: task.constants.get(p.name, p.default) for p in parameters if p.kind == "constant"}
    return KernelCase(
        task.source,
        _shown_dtype(task.dtypes, request.dtype or usual, request),
        task.shape,
        task.dtypes,
        {p.name: KINDS.get(type(p.default), p.dtypes[0]) for p in parameters if p.kind == "scalar"},
        constants,
        left_open=tuple(name for name in constants if name not in task.constants),
        strides={**strides, **laid},
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
    given: Mapping[str, int], samples: SampleInputs, on_gpu: bool,
) -> tuple[dict[str, int], dict[str, Constant]]:  # fmt: skip
    sizes = {name: size for name, size in given.items() if name not in samples.sizes}
    of_gpus = samples.gpu_constants(sizes) if on_gpu and samples.gpu_constants is not None else {}
    constants = {**of_gpus, **request.constants}
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
    sizes = with_bytes(sizes, names)
    missing = [name for name in names if name not in sizes]
    if missing:
        raise OptionError(f"{source.shown}: sizes must be given: {', '.join(missing)}, as in {missing[0]}=1024")
    declared = {p.name for p in parameters if p.kind == "constant"}
    return {name: sizes[name] for name in names}, {n: value for n, value in constants.items() if n in declared}


def _shown_dtype(dtypes: Mapping[str, str], chosen: str | None, request: SpecialisationRequest) -> str:
    if not request.dtypes and chosen is not None and chosen in dtypes.values():
        return chosen
    kinds = set(dtypes.values())
    return kinds.pop() if len(kinds) == 1 else ",".join(f"{name}={dtype}" for name, dtype in dtypes.items())
