"""What a comparison is made of: a function of the library, its arguments, and torch's ways to compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

Run = Callable[..., Any]
"""Takes tensors, returns a tensor or several."""


@dataclass(frozen=True)
class Way:
    """One of torch's formulations: `run` of `arguments`, those of the case unless given; `compiled`: also tried with
    torch.compile, which is left out where it has nothing to compile (sparse tensors, lists of unlike parts)."""

    run: Run
    arguments: Sequence[Any] | None = None
    compiled: bool = True


@dataclass(frozen=True)
class Case:
    """`function`: the library's; `size`: small, medium or large; `shape`: for people.

    `ours` takes `arguments`. `ways`: torch's, by name, the first of which gives the exact result from arguments in
    float64, unless `exact` does. `bytes`: that must move, each input once and each result once; `operations`: additions
    and multiplications. `tolerance`: greatest error, as a part of the greatest magnitude of a result.
    `compares_integers`: results of integers too, which are places of elements that others may equal in a narrow dtype.
    """

    function: str
    size: str
    shape: str
    arguments: Sequence[Any]
    ours: Run
    ways: Mapping[str, Way]
    bytes: int
    operations: int = 0
    exact: Run | None = None
    tolerance: float = 1e-4
    compares_integers: bool = True

    def exact_results(self) -> tuple[torch.Tensor, ...]:
        """In float64."""
        way = next(iter(self.ways.values()))
        run = way.run if self.exact is None else self.exact
        given = self.arguments if way.arguments is None or self.exact is not None else way.arguments
        return as_tuple(run(*(in_double(value) for value in given)))


TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}
"""Greatest error, as a part of the greatest magnitude: a few roundings of the results' dtype."""


def in_dtype(case: Case, dtype: torch.dtype) -> Case:
    """The case with its tensors of float32 in another dtype: ours and torch's. Shapes name the dtype."""
    if dtype == torch.float32:
        return case
    arguments = [_cast(value, dtype) for value in case.arguments]
    ways = {
        name: way if way.arguments is None else replace(way, arguments=[_cast(value, dtype) for value in way.arguments])
        for name, way in case.ways.items()
    }
    moved = case.bytes * bytes_of(*arguments) // max(1, bytes_of(*case.arguments))
    shape = f"{case.shape}, {str(dtype).removeprefix('torch.')}"
    return replace(
        case, shape=shape, arguments=arguments, ways=ways, bytes=moved,
        tolerance=max(case.tolerance, TOLERANCES[dtype]), compares_integers=False,
    )  # fmt: skip


def _cast(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value


@dataclass
class Cases:
    """Cases of one family; `add` fills them."""

    found: list[Case] = field(default_factory=list)

    def add(
        self, function: str, size: str, shape: str, arguments: Sequence[Any], ours: Run, ways: Mapping[str, Way | Run],
        moved: int | None = None, operations: int = 0, **more: Any,
    ) -> None:  # fmt: skip
        """`moved`: bytes; those of all tensors among the arguments and as many as the first has, unless given."""
        if moved is None:
            moved = sum(bytes_of(value) for value in arguments) + bytes_of(arguments[0])
        all_ways = {name: way if isinstance(way, Way) else Way(way) for name, way in ways.items()}
        self.found.append(Case(function, size, shape, arguments, ours, all_ways, moved, operations, **more))


def bytes_of(*values: Any) -> int:
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))


def in_double(value: Any) -> Any:
    """A tensor of floats in float64, of complex numbers in complex128, copied; all else as it is."""
    if isinstance(value, torch.Tensor) and value.is_complex():
        return value.to(torch.complex128)
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def as_tuple(results: Any) -> tuple[torch.Tensor, ...]:
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)
