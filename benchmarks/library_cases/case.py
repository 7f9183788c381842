"""What a comparison is made of: a function of the library, its arguments, and torch's ways to compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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

    def exact_results(self) -> tuple[torch.Tensor, ...]:
        """In float64."""
        way = next(iter(self.ways.values()))
        run = way.run if self.exact is None else self.exact
        given = self.arguments if way.arguments is None or self.exact is not None else way.arguments
        return as_tuple(run(*(in_double(value) for value in given)))


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
    """A tensor of floats in float64, copied; all else as it is."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def as_tuple(results: Any) -> tuple[torch.Tensor, ...]:
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)
