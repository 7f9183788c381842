"""Kernels and compiled code as the compiler and the runtime see them, so that neither imports the language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from vkernels.ir.budget import Budget
    from vkernels.ir.limits import Limits
    from vkernels.ir.pin import Pin
    from vkernels.ir.plan import Plan

Constant = bool | int | float | str | None
"""The values that a constant parameter can have."""


def size_name(tensor: str, number: int, declared: str | int) -> str | int:
    """The size of a dimension in IR: as declared, or, where that is `_`, a name that no author can give."""
    return f"_{tensor}_{number}" if declared == "_" else declared


def bytes_name(values: str) -> str:
    """The size that counts the bytes of `values` values, two in each, by a name that no author can give."""
    return f"_{values}_bytes"


def packed_sizes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of names of sizes, those that count bytes of packed values: each with the name of the number of values."""
    for name in names:
        if name.startswith("_") and name.endswith("_bytes"):
            yield name, name[1 : -len("_bytes")]


def with_bytes(sizes: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    """Sizes with those of `names` that follow from them: the bytes that hold so many packed values."""
    found = {name: (sizes[values] + 1) // 2 for name, values in packed_sizes(names) if values in sizes}
    return {**found, **sizes}


class TunableLike(Protocol):
    """The values of a constant that tuning may choose. `values`: the first is the default."""

    @property
    def values(self) -> Sequence[Constant]: ...

    def holds(self, known: Mapping[str, Any]) -> bool:
        """Whether its author's constraint holds of constants and sizes by name; may raise anything."""
        ...


class ParameterLike(Protocol):
    """One parameter of a kernel, as its author declared it.

    `kind`: "tensor", "scalar" or "constant". Of a tensor, `dimensions` holds a size's name, a number or, for a
    dimension that nothing is said of, `_` for each dimension, and `dtypes` the dtypes it may have.
    `default`: what an omitted scalar or constant is, `inspect.Parameter.empty` where it must be given. `tunable`: what
    else a constant may be.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def dimensions(self) -> Sequence[str | int]: ...
    @property
    def dtypes(self) -> Sequence[str]: ...
    @property
    def default(self) -> Any: ...
    @property
    def tunable(self) -> TunableLike | None: ...


@dataclass(frozen=True)
class Signature:
    """What a kernel's IR depends on: of each tensor its dtype (`float32`, `bfloat16`, …), of each scalar its kind
    (`f64`, `i64` or `i1`), of each constant its value."""

    tensors: tuple[tuple[str, str], ...]
    scalars: tuple[tuple[str, str], ...] = ()
    constants: tuple[tuple[str, Constant], ...] = ()


class KernelLike(Protocol):
    """A kernel as its author wrote it."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Sequence[ParameterLike]: ...

    @property
    def pin(self) -> Pin | None:
        """The parts of any plan that the author pinned."""
        ...

    @property
    def budget(self) -> Budget | None:
        """The bounds that no plan may exceed."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether all its calls give the same bits in every run."""
        ...

    def build(self, signature: Signature) -> ModuleOp:
        """A module with one `vk.kernel`, new at each call."""
        ...

    def plan_for(self, sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan | None:
        """The plan that the author's own function gives, None where there is none."""
        ...


def file_of(kernel: KernelLike) -> str:
    """The file that a kernel's function stands in; empty where that is none."""
    code = getattr(getattr(kernel, "function", None), "__code__", None)
    return str(getattr(code, "co_filename", ""))


def line_of(kernel: KernelLike) -> int:
    """The line on which a kernel's function begins; 0 where there is none."""
    code = getattr(getattr(kernel, "function", None), "__code__", None)
    return int(getattr(code, "co_firstlineno", 0))
