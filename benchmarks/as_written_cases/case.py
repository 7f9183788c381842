"""What a comparison is made of: a kernel as a newcomer writes it, its arguments, and torch's ways to do the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from library_cases.case import Case, Run, Way, bytes_of

from vkernels.language.kernel import Kernel

Sizes = Mapping[str, int]
Dtypes = Mapping[str, str]
Random = np.random.Generator
Arrays = dict[str, np.ndarray[Any, Any]]
TINY, USUAL, ODD = "tiny", "usual", "odd"
SIZES = (TINY, USUAL, ODD)


@dataclass(frozen=True)
class WrittenCase:
    """A kernel and its arguments in order. `results`: those that it writes.

    `ways`: torch's, by name, of the arguments that are not results alone; the first gives the exact result in float64.
    `repeats`: calls, each of which reads what the one before wrote: the first argument and the first result are
    exchanged between them. `zeroed`: results are set to 0 first.
    """

    name: str
    size: str
    shape: str
    kernel: Kernel
    arguments: Sequence[Any]
    results: Sequence[str]
    ways: Mapping[str, Way]
    repeats: int = 1
    zeroed: bool = False
    tolerance: float = 1e-4

    @property
    def sizes(self) -> dict[str, int]:
        """The kernel's sizes by name."""
        tensors = [(p, v) for p, v in zip(self.kernel.parameters, self.arguments, strict=True) if p.kind == "tensor"]
        pairs = (pair for p, value in tensors for pair in zip(p.dimensions, value.shape, strict=True))
        return {name: int(size) for name, size in pairs if isinstance(name, str)}

    @property
    def dtypes(self) -> dict[str, str]:
        """The dtype of each tensor."""
        return {n: str(v.dtype).removeprefix("torch.") for n, v in self._named if isinstance(v, torch.Tensor)}

    @property
    def inputs(self) -> list[Any]:
        """The arguments that torch's ways take: those that are no results, and a result that is read, too."""
        return [value for name, value in self._named if name not in self.results or self._is_in_place]

    @property
    def _named(self) -> list[tuple[str, Any]]:
        return [(p.name, value) for p, value in zip(self.kernel.parameters, self.arguments, strict=True)]

    @property
    def _is_in_place(self) -> bool:
        return list(self.results) == [self.kernel.parameters[0].name]

    def as_case(self) -> Case:
        """For what the benchmarks share: its function gives the kernel memory for results that is there already."""
        taken = self.inputs
        moved = bytes_of(*(value for _, value in self._named))
        return Case(self.name, self.size, self.shape, taken, self._run, self.ways, moved, tolerance=self.tolerance)

    def _run(self, *inputs: Any) -> tuple[torch.Tensor, ...]:
        given = iter(inputs)
        values = [
            next(given) if name not in self.results or self._is_in_place else value for name, value in self._named
        ]
        places = [number for number, (name, _) in enumerate(self._named) if name in self.results]
        for place in places if self.zeroed else ():
            values[place].zero_()
        for turn in range(self.repeats):
            self.kernel(*values)
            if turn < self.repeats - 1:
                if turn == 0:  # the input is not overwritten
                    values[0] = torch.empty_like(values[0])
                values[0], values[places[0]] = values[places[0]], values[0]
        return tuple(values[place] for place in places)


@dataclass
class WrittenCases:
    """Cases of one family, of some sizes (all if empty); `add` fills them."""

    sizes: Sequence[str] = ()
    found: list[WrittenCase] = field(default_factory=list)

    def chosen(self, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The rows that begin with one of the sizes."""
        return [row for row in rows if not self.sizes or row[0] in self.sizes]

    def add(
        self, name: str, size: str, kernel: Kernel, arguments: Sequence[Any], ways: Mapping[str, Way | Run],
        results: Sequence[str] = ("out",), **more: Any,
    ) -> None:  # fmt: skip
        """The shape is that of the first argument."""
        shape = "×".join(map(str, arguments[0].shape))
        all_ways = {name: way if isinstance(way, Way) else Way(way) for name, way in ways.items()}
        self.found.append(WrittenCase(name, size, shape, kernel, arguments, results, all_ways, **more))
