"""Random arguments of calls, and what those must give."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.ir.interpret.ttir.library import numbers, rounded

Array = np.ndarray[Any, Any]
DTYPES = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}
"""uint16 holds bf16."""
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 61, 64, 65, 97, 100, 127, 128, 129, 251, 256, 257, 1000)
EMPTY = 0.03
"""How often a length is 0."""
LONG = (*LENGTHS, 1021, 1024, 2047, 3001, 4096, 6007)


@dataclass
class Draw:
    """What a call's arguments are made of. `room`: the most elements of a tile with all axes.

    `sizes`: that must be these; `multiples`: that must be of these numbers.
    """

    choose: random.Random
    dtype: str
    computed: str
    room: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = np.random.default_rng(self.choose.getrandbits(32))
        self.left = max(1, self.room)

    def size(self, name: str, least: int = 0, most: int = 1 << 62) -> int:
        """A length for an axis."""
        found = self.sizes.get(name)
        if found is None:
            step = self.multiples.get(name, 1)
            fits = [n * step for n in LONG if least <= n * step <= min(most, self.left)]
            found = self.choose.choice(fits or [-(-max(1, least) // step) * step])
            found = 0 if least == 0 and self.choose.random() < EMPTY else found
        self.left = max(1, self.left // max(1, found))
        return found

    def normal(self, *shape: int, computed: bool = False, scale: float = 1.0) -> Array:
        """Normal numbers as a dtype holds them; now and then the same along a dimension."""
        values = scale * self.numbers.normal(size=shape)
        if shape and self.choose.random() < 0.1:
            number = self.choose.randrange(len(shape))
            values = np.repeat(values.take([0], number), shape[number], number) if shape[number] else values
        return rounded(values, DTYPES[self.computed if computed else self.dtype])

    def with_specials(self, values: Array) -> Array:
        """Now and then with infinities and NaN among the numbers, or all of a row -inf, or all far from 0."""
        what = self.choose.randint(0, 11)
        wide = numbers(values)
        if what == 0 and values.size:
            flat = wide.reshape(-1)
            flat[self.numbers.integers(0, flat.size, 3)] = self.choose.choice([np.nan, np.inf, -np.inf])
        elif what == 1 and values.size:
            wide[self.numbers.integers(0, len(wide))] = -np.inf
        elif what == 2:
            wide += self.choose.choice([-700, 700])
        return rounded(wide, values.dtype.type)

    def rounded(self, values: Array, computed: bool = False) -> Array:
        """Numbers in the dtype."""
        return rounded(values, DTYPES[self.computed if computed else self.dtype])

    def indices(self, below: int, *shape: int) -> Array:
        return self.numbers.integers(0, max(1, below), shape).astype(np.int32)

    def starts(self, rows: int) -> Array:
        lengths = self.choose.choices([0, 0, 1, 2, 3, 7, 31, 32, 33, 64, 70], k=rows)
        return np.cumsum([0, *lengths]).astype(np.int32)


@dataclass(frozen=True)
class Drawn:
    """Arguments but for outputs, and what those must be.

    `roundings`: how far off, in roundings of the dtype that the kernel computes in, beside two of the output's, of
    numbers as large as what is expected but no smaller than `floor`. `inner`: values inside are rounded to the dtype.
    `allowed`: of each output the roundings as absolute numbers, in place of these.
    """

    arguments: dict[str, Any]
    expected: dict[str, Array]
    roundings: float = 32.0
    floor: float | Array = 1.0
    inner: bool = False
    allowed: Mapping[str, Array] | None = None
