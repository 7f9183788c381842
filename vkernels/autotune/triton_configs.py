"""Configurations of plain Triton kernels: those of an author's autotune list, or block sizes, warps and stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vkernels.inspect.cases import Value
from vkernels.ir.errors import OptionError

from .expressions import FUNCTIONS, Expression, parse_expression
from .space import Point, SearchSpace

BLOCK = "BLOCK"
"""How names of block sizes begin, in any case."""
MIN_BLOCK, MAX_BLOCK, STEPS = 16, 1024, 2
"""Limits of block sizes, and how many powers of two around the given one are tried on either side."""
WARPS, STAGES = (1, 2, 4, 8, 16), (1, 2, 3, 4, 5)
NUM_WARPS, NUM_STAGES = "num_warps", "num_stages"
USUAL_WARPS, USUAL_STAGES = 4, 3
"""What Triton takes where nothing is said."""


def ceiling(length: int, block: int) -> int:
    """How many blocks hold a length: `triton.cdiv`."""
    return -(-length // block)


@dataclass(frozen=True)
class TritonConfig:
    """A configuration. `constants`: by parameter; `settings`: other keyword arguments of `triton.Config`."""

    constants: Mapping[str, Value]
    warps: int = USUAL_WARPS
    stages: int = USUAL_STAGES
    settings: Mapping[str, Value] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((tuple(self.constants.items()), self.warps, self.stages, tuple(self.settings.items())))

    def __str__(self) -> str:
        """As Python writes it."""
        given = {name: value for name, value in self.settings.items() if value is not None}
        more = [f"{name}={value!r}" for name, value in given.items() if (name, value) != ("num_ctas", 1)]
        parts = [repr(dict(self.constants)), f"num_warps={self.warps}", f"num_stages={self.stages}", *more]
        return f"triton.Config({', '.join(parts)})"

    def to_triton(self) -> Any:
        """The configuration as a `triton.Config`, for `@triton.autotune`."""
        import triton

        given = {name: value for name, value in self.settings.items() if value is not None}
        return triton.Config(dict(self.constants), num_warps=self.warps, num_stages=self.stages, **given)

    def to_json(self) -> dict[str, Any]:
        """The configuration as JSON, by the names of `triton.Config`."""
        return {"kwargs": dict(self.constants), NUM_WARPS: self.warps, NUM_STAGES: self.stages, **self.settings}


@dataclass(frozen=True)
class ConfigSpace:
    """The configurations to try, as points of `space`. `given`: the author's first; `varied`: names that change."""

    space: SearchSpace
    configs: Mapping[Point, TritonConfig]
    given: Point
    varied: tuple[str, ...]


Bound = Callable[[Sequence[TritonConfig]], Iterator[float | str]]
"""Seconds of each configuration, or why there are none."""


class OutOfTimeError(Exception):
    """The time of a search ended before a configuration was compiled."""


@dataclass(frozen=True)
class Ahead:
    """Compiles configurations before their seconds are asked for.

    `begin`: gets those that are asked for next. `at_once`: how many are under way together now. `rolling`: whether
    another one begins as soon as the seconds of the oldest one are known, or all of them have to be done first.
    """

    begin: Callable[[Sequence[TritonConfig]], object]
    at_once: Callable[[], int]
    rolling: bool = False


def listed(configs: Sequence[TritonConfig]) -> ConfigSpace:
    """The space of an autotune list, in its order."""
    points: dict[Point, TritonConfig] = {(number,): config for number, config in enumerate(configs)}
    space = SearchSpace({"configuration": [number for (number,) in points]})
    return ConfigSpace(space, points, (0,), ())


def around(given: TritonConfig, names: Sequence[str]) -> ConfigSpace:
    """Powers of two around the given block sizes of these names, with warps and stages.

    Raises `OptionError` for a constant that is no power of two.
    """
    parameters: dict[str, list[Value]] = {}
    for name in names:
        value = given.constants.get(name)
        if not _is_block(value):
            raise OptionError(
                f"--vary: {name} is {value!r}; expected a constant that is a power of two, {MIN_BLOCK} or more"
            )
        assert isinstance(value, int), "it is a block size"
        sizes = (value << step if step >= 0 else value >> -step for step in range(-STEPS, STEPS + 1))
        parameters[name] = [size for size in sizes if MIN_BLOCK <= size <= MAX_BLOCK or size == value]
    parameters[NUM_WARPS] = [*sorted({*WARPS, given.warps})]
    parameters[NUM_STAGES] = [*sorted({*STAGES, given.stages})]
    space = SearchSpace(parameters)
    configs = {}
    for point in space:
        values = space.named(point)
        warps, stages = int(values.pop(NUM_WARPS) or 1), int(values.pop(NUM_STAGES) or 1)
        configs[point] = TritonConfig({**given.constants, **values}, warps, stages, given.settings)
    start = tuple(given.constants.get(name) for name in names)
    return ConfigSpace(space, configs, (*start, given.warps, given.stages), tuple(names))


def block_names(given: TritonConfig, grid: Expression | None) -> list[str]:
    """Constants that are block sizes: powers of two whose names begin with BLOCK, or which the grid divides by."""
    in_grid = () if grid is None else grid.names
    return [
        name
        for name, value in given.constants.items()
        if _is_block(value) and (name.upper().startswith(BLOCK) or name in in_grid)
    ]


def _is_block(value: object) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and value >= MIN_BLOCK and not value & (value - 1)  # type: ignore[operator]


def grid_from(text: str, option: str = "--grid") -> Expression:
    """The grid of a launch, `cdiv(M, BLOCK_M), cdiv(N, BLOCK_N)`: of constants and integers that a launch passes.

    Raises `OptionError` that names the `option` for anything else.
    """
    return parse_expression(text, option, "cdiv(M, BLOCK_M), cdiv(N, BLOCK_N)", {**FUNCTIONS, "cdiv": ceiling})


def grid_of(grid: Expression, known: Mapping[str, Any]) -> tuple[int, ...]:
    """The programs by axis. `known`: constants and integers by name. Raises `OptionError` for impossible values."""
    missing = [name for name in grid.names if name not in known]
    if missing:
        raise OptionError(f"--grid: {missing[0]} is no constant, and no size that --shapes gives")
    try:
        found = grid.value(known)
    except Exception as error:
        raise OptionError(f"--grid {grid.text!r}: {type(error).__name__}: {error}") from error
    sides = found if isinstance(found, tuple) else (found,)
    if not 1 <= len(sides) <= 3 or not all(isinstance(side, int) and side >= 1 for side in sides):
        raise OptionError(f"--grid {grid.text!r}: expected one to three whole numbers above 0, got {found!r}")
    return sides
