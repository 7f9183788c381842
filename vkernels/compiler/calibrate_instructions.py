"""Measure what a core takes for what code does between its loads and its arithmetic, in cycles; docs/slices.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from vkernels.ir.cost_model.cpu_rows import PAGE
from vkernels.ir.cost_model.loops import LINE

from .calibrate_accesses import MeasureCycles
from .calibration_accesses import BESIDE, CHAINS
from .calibration_instructions import ROW_BYTES, SHUFFLES, WORDS, instruction_loops
from .calibration_loops import LOADED_VECTORS, Loops, buffer, compiled_loops
from .calibration_matrix import APART, MATRIX_BYTES, MATRIX_LOOPS, PANELS, ROW, ROWS, SHAPE, TILES, matrix_loops, shapes

SEED = 0
DIVIDED = 1024
"""Divisions of a pass."""
BRANCHES = 1 << 16
"""Branches of a pass: more than predictors learn."""
PANEL = 2
"""Vectors of a row of a panel that is packed."""

BF16_HALVES = 0x3F003F003F003F00
"""Four bf16 of 0.5."""

Code = Mapping[str, Callable[..., None]]


@contextmanager
def more_loops(width: int, matrix: bool) -> Iterator[Code]:
    """The loops that `InstructionMeasurement` takes. `matrix`: this process may use a matrix unit."""
    text = instruction_loops(width) + (matrix_loops() if matrix else "")
    with compiled_loops(text, {**WORDS, **dict.fromkeys(MATRIX_LOOPS if matrix else (), 2)}) as code:
        yield code


@dataclass(frozen=True)
class InstructionMeasurement:
    """Measures on one core, with vectors of `width` bytes. `near`, `middle`, `out`: an array that the nearest cache
    holds, and two that level 3 holds and level 2 does not."""

    basic: Loops
    code: Code
    cycles: MeasureCycles
    width: int
    near: Any
    middle: Any
    out: Any

    def costs(self) -> dict[str, float]:
        """Costs of `CoreCosts`, by their names there."""
        return {**self._of_vectors(), **self._of_scalars(), **self._of_copies(), **self._of_matrices()}

    def _of_vectors(self) -> dict[str, float]:
        code, lanes, vectors = self.code, self.width // 4, self.near.nbytes // self.width
        scans = vectors // CHAINS
        blocks = vectors // BESIDE
        scanned = self.cycles(code["scanned"], (self.near, scans)) / (scans * CHAINS)
        plain, extended = (self.cycles(code[name], (self.near, blocks)) for name in ("multiplied", "extended"))
        return {
            "doubled": scanned / log2(lanes),
            "carried": self.cycles(code["carried"], (self.near, vectors)) / vectors,
            "widened": max(0.0, extended - plain) / (blocks * BESIDE),
            "crossed": self._crossed(),
            "shuffled": self.cycles(code["shuffled"], (self.near, vectors)) / (vectors * SHUFFLES),
        }

    def _of_scalars(self) -> dict[str, float]:
        code, random = self.code, np.random.default_rng(SEED)
        numbers = random.integers(1, 1 << 16, DIVIDED, np.int32)
        branches = random.integers(0, 1 << 16, BRANCHES, np.int32)
        known, unknown = (
            self.cycles(code["branched"], (self.near, each, BRANCHES)) / BRANCHES for each in (branches & -2, branches)
        )
        divided = self.cycles(code["divided"], (self.near, numbers, DIVIDED // BESIDE)) / DIVIDED
        return {"divided": divided, "mispredicted": 2 * max(0.0, unknown - known)}  # every other one

    def _crossed(self) -> float:
        blocks = self.near.nbytes // self.width // LOADED_VECTORS - 1
        half = self.near.ctypes.data + self.width // 2
        aligned, crossing = (self.cycles(self.basic.read, (at, blocks)) for at in (self.near, half))
        return float(max(0.0, crossing - aligned) / (blocks * LOADED_VECTORS) * LINE / self.width)

    def _of_copies(self) -> dict[str, float]:
        """Of elements that are packed, beyond what copying as many bytes side by side takes."""
        lanes, size = self.width // 4, min(self.middle.nbytes // 2, self.out.nbytes)
        row, rows = PAGE // self.width, size // PAGE
        blocks = size // self.width // LOADED_VECTORS
        copied = self.cycles(self.basic.copy, (self.middle, blocks)) / (blocks * LOADED_VECTORS)

        def beyond(name: str, places: Any, each: int, vectors: int) -> float:
            """Cycles of each element of 32 bits that is stored, `vectors` for `each` places."""
            steps = places.size // each
            values = (self.middle, places.ravel().astype(np.int32), self.out, steps)
            taken = self.cycles(self.code[name], values) / (steps * vectors)
            return float(max(0.0, taken - copied) / lanes)

        row_numbers, columns = np.arange(rows).reshape(-1, 1) * row, np.arange(row)
        panels = columns.reshape(-1, 1, PANEL) + row_numbers
        pairs = columns.reshape(-1, 1, 1) + row_numbers
        down = np.arange(size // (lanes * ROW_BYTES)).reshape(-1, 1) * (lanes * ROW_BYTES // self.width)
        return {
            "packed": beyond("packed", panels, BESIDE, BESIDE),
            "packed_turned": beyond("packed_turned", columns + down, 1, lanes),
            "worded": beyond("worded", pairs, 2, 2),
        }

    def _of_matrices(self) -> dict[str, float]:
        if "products" not in self.code:
            return {}
        memory = buffer(MATRIX_BYTES, BF16_HALVES)
        for number, rows in enumerate((ROWS, ROWS // 2)):
            memory[number * SHAPE // 8 :][: SHAPE // 8] = np.frombuffer(shapes(rows), np.int64)
        taken = {name: self.cycles(self.code[name], (memory,)) for name in MATRIX_LOOPS}
        staged = taken["staged"] / (TILES * ROWS)
        in_turn, together = (taken[f"staged_{how}"] / (TILES * ROWS) for how in ("in_turn", "together"))
        lines = PANELS * ROWS * APART // ROW
        return {
            "matrix_row": taken["products"] / (TILES * ROWS),
            "matrix_latency": taken["product_chain"] / TILES,
            "settled": taken["settled"],
            "given_back": taken["given_back"] / (TILES * ROWS),
            "staged": staged,
            "chunked": max(0.0, together - in_turn) / (staged * log2(TILES)),
            "passed": max(0.0, taken["rows_apart"] - taken["side_by_side"]) / lines,
            "reshaped": taken["reshaped"] / 2,
        }
