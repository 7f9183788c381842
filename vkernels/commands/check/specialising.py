"""What a `@vk.kernel` is checked for: dtypes and sizes as given, the rest as it declares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkernels.ir.errors import OptionError
from vkernels.ir.nearest import meant
from vkernels.runtime.checking.cases import KernelCase, Source
from vkernels.runtime.checking.signatures import parse_assignments, parse_value
from vkernels.runtime.protocols import size_name
from vkernels.runtime.usual import usual_dtype

SHORT = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
}  # fmt: skip


@dataclass(frozen=True)
class Declared:
    """A parameter as its author declared it; see `vkernels.runtime.protocols.ParameterLike`."""

    name: str
    kind: str
    dimensions: tuple[str | int, ...]
    dtypes: tuple[str, ...]
    optional: bool
    default: Any


@dataclass(frozen=True)
class Wanted:
    """What the command line says: one dtype, or some by tensor; sizes; constants."""

    dtype: str | None = None
    dtypes: Mapping[str, str] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)


def wanted_from(dtype: str | None, shape: str | None, constants: str | None) -> Wanted:
    """The options' texts, understood. Raises `OptionError`."""
    by_tensor = dtype is not None and "=" in dtype
    given = parse_assignments(dtype, "--dtype") if dtype is not None and by_tensor else {}
    return Wanted(
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
        raise OptionError(f"--dtype: there is no dtype {name!r}; {meant(name, [*DTYPES, *SHORT])}")
    return found


def _size(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise OptionError(f"--shape: {name} is {text!r}; expected a number above 0")
    return int(text)


def refuse_unknown(wanted: Wanted, kernels: Sequence[Sequence[Declared]], what: str) -> None:
    """Raise `OptionError` for a size, tensor or constant that none of the kernels has."""
    parameters = [parameter for kernel in kernels for parameter in kernel]
    known = {
        "--shape": (wanted.shape, [name for p in parameters for name in _sizes_of(p)]),
        "--dtype": (wanted.dtypes, [p.name for p in parameters if p.kind == "tensor"]),
        "--constants": (wanted.constants, [p.name for p in parameters if p.kind == "constant"]),
    }
    for option, (given, names) in known.items():
        for name in given:
            if name not in names:
                there = meant(name, list(dict.fromkeys(names))) if names else "it has none"
                raise OptionError(f"{option}: {what} has no {name!r}; {there}")


def kernel_case(
    source: Source,
    parameters: Sequence[Declared],
    wanted: Wanted,
    shape: Mapping[str, int],
    dtype: str | None = None,
    computed: Sequence[str] = (),
) -> KernelCase:
    """A kernel for what is wanted; `shape`, `dtype` and `computed` say the usual, as the catalogue does.

    Raises `OptionError` for a dtype that does not go, a size or a constant that nobody gives.
    """
    tensors = [p for p in parameters if p.kind == "tensor"]
    chosen = wanted.dtype or dtype
    dtypes = {p.name: _dtype(p, chosen, wanted.dtypes.get(p.name), p.name in computed) for p in tensors}
    if wanted.dtype is not None and wanted.dtype not in dtypes.values():
        takes = "; ".join(f"{p.name} takes {', '.join(p.dtypes)}" for p in tensors)
        raise OptionError(f"--dtype: no tensor of {source.shown} can be {wanted.dtype}: {takes}")
    names = [name for parameter in tensors for name in _sizes_of(parameter)]
    sizes = {name: {**shape, **wanted.shape}.get(name) for name in dict.fromkeys(names)}
    missing = [name for name, size in sizes.items() if size is None]
    if missing:
        raise OptionError(f"{source.shown}: --shape must give {', '.join(missing)}, as in {missing[0]}=1024")
    return KernelCase(
        source,
        _shown(dtypes, chosen, wanted),
        {name: size for name, size in sizes.items() if size is not None},
        dtypes,
        {p.name: _scalar_kind(p) for p in parameters if p.kind == "scalar"},
        {p.name: _constant(source, p, wanted.constants) for p in parameters if p.kind == "constant"},
        left_open=tuple(p.name for p in parameters if p.kind == "constant" and p.name not in wanted.constants),
    )


def _sizes_of(parameter: Declared) -> list[str]:
    """The names of the sizes of a tensor's dimensions."""
    named = (size_name(parameter.name, number, d) for number, d in enumerate(parameter.dimensions))
    return [name for name in named if isinstance(name, str)]


def _dtype(parameter: Declared, chosen: str | None, given: str | None, computed: bool) -> str:
    if given is not None:
        if given not in parameter.dtypes:
            raise OptionError(f"--dtype: {parameter.name} cannot be {given}; it takes {', '.join(parameter.dtypes)}")
        return given
    return usual_dtype(parameter.dtypes, chosen, computed)


def _shown(dtypes: Mapping[str, str], chosen: str | None, wanted: Wanted) -> str:
    """One dtype where one was chosen for all, else that of each tensor."""
    if not wanted.dtypes and chosen is not None and chosen in dtypes.values():
        return chosen
    kinds = set(dtypes.values())
    return kinds.pop() if len(kinds) == 1 else ",".join(f"{name}={dtype}" for name, dtype in dtypes.items())


def _scalar_kind(parameter: Declared) -> str:
    kinds = {bool: "i1", int: "i64", float: "f64"}
    return kinds.get(type(parameter.default), parameter.dtypes[0]) if parameter.optional else parameter.dtypes[0]


def _constant(source: Source, parameter: Declared, given: Mapping[str, Any]) -> Any:
    if parameter.name in given:
        return given[parameter.name]
    if not parameter.optional:
        raise OptionError(f"{source.shown}: no value for {parameter.name}; give it with --constants {parameter.name}=…")
    return parameter.default
