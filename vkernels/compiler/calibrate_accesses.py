"""Measure what a core's accesses take where elements or lines are not side by side, in cycles; docs/slices.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from vkernels.ir.core_costs import CoreCosts
from vkernels.ir.cost_model.cpu_rows import MOST_ROWS, PAGE
from vkernels.ir.cost_model.loops import LINE

from .calibration_accesses import BESIDE, CHAINS, ROW
from .calibration_loops import LOADED_VECTORS, Loops

SEED = 0
ELEMENTS = 4096
"""Elements that are found or updated in a pass."""
FOLLOWED = (16, 8)
"""Rows beside one another that prefetchers may follow; half as many as the last, if not those."""
LOSSES, LOST = 0.5, 0.1
"""Cycles a line by which `MOST_ROWS` rows are told from one, and the part of these up to which none are lost."""
AGAIN = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
"""Parts of level 2 that are read again and again, from one of which all is found to one of which hardly any is."""
STREAMED, CHUNKS = 0.125, 4
"""Part of level 2 that streams by each time, and how often until the same again: then level 2 has lost it."""
TOLD_APART = 1.2
"""How much longer lines from beyond level 2 take, at least, where what is lost is told by it."""
BEGUN = 8
"""Rows that begin at once."""
FEW_PAGES, MOST_PAGES = 256, 1 << 14
NO_PLACE = 2.0
"""How much longer a line takes, at least, on a page whose place a core does not know."""

MeasureCycles = Callable[[Callable[..., None], tuple[Any, ...]], float]
"""Cycles that a step of a loop takes, with these arguments before the number of steps."""


@dataclass(frozen=True)
class AccessMeasurement:
    """Measures on one core, with vectors of `width` bytes. `near`, `middle`, `far`: arrays that the nearest cache
    holds, that level 3 holds and level 2 does not, and that no cache holds. `shared`: bytes of level 2."""

    code: Loops
    cycles: MeasureCycles
    width: int
    near: Any
    middle: Any
    far: Any
    shared: int

    def costs(self) -> dict[str, float]:
        """Costs of `CoreCosts`, by their names there."""
        return {**self._of_vectors(), **self._of_found(), **self._of_lines(), **self._of_streaming()}

    def _of_vectors(self) -> dict[str, float]:
        code, lanes, size = self.code, self.width // 4, self.near.nbytes // 4
        rows = (size - ROW * lanes) // BESIDE
        blocks = size // (BESIDE * lanes)
        apart, store_apart = (
            self.cycles(loop, (self.near, rows)) / (rows * BESIDE * lanes) for loop in (code.apart, code.store_apart)
        )
        narrow_rows = (self.near.nbytes // 2 - ROW * lanes) // BESIDE
        apart_narrow, store_apart_narrow = (
            self.cycles(loop, (self.near, narrow_rows)) / (narrow_rows * BESIDE * lanes)
            for loop in (code.apart_narrow, code.store_apart_narrow)
        )
        alone = self._without_arithmetic(apart * BESIDE * lanes, rows)
        whole, masked = (self.cycles(loop, (self.near, blocks)) for loop in (code.whole, code.masked))
        reductions = size // (CHAINS * lanes)
        across = self.cycles(code.across, (self.near, reductions)) / (reductions * CHAINS * log2(lanes))
        masked = max(0.0, masked - whole) / (2 * blocks * BESIDE)
        return {
            "apart": apart, "store_apart": store_apart, "apart_narrow": apart_narrow,
            "store_apart_narrow": store_apart_narrow, "apart_alone": alone, "masked": masked, "across": across,
        }  # fmt: skip

    def _without_arithmetic(self, apart: float, rows: int) -> float:
        """The part of the cycles of a block of elements apart in which no arithmetic is done."""
        computed, both = (
            self.cycles(loop, (self.near, rows)) / rows for loop in (self.code.computed, self.code.apart_computed)
        )
        return min(1.0, max(0.0, (both - max(apart, computed)) / min(apart, computed)))

    def _of_found(self) -> dict[str, float]:
        """Of elements found by indices at random: in the nearest cache, and beyond level 2."""
        code, random = self.code, np.random.default_rng(SEED)
        near = random.integers(0, self.near.nbytes // 4 - 1, ELEMENTS, np.int32)
        middle = random.permutation(self.middle.nbytes // LINE).astype(np.int32) * (LINE // 4)
        once, twice = (
            self.cycles(loop, (self.near, near, ELEMENTS // (BESIDE * self.width // 4))) / ELEMENTS
            for loop in (code.found, code.found_twice)
        )
        found = min(once, max(0.0, twice - once))
        costs = {"found": found, "index": once - found}
        for name, loop in (("atomic", code.atomic), ("update", code.update)):
            costs[name] = self.cycles(loop, (self.near, near, near.size // BESIDE)) / near.size
            far = self.cycles(loop, (self.middle, middle, middle.size // BESIDE)) / middle.size
            costs[f"{name}_far"] = max(0.0, far - costs[name])
        return costs

    def _of_lines(self) -> dict[str, float]:
        """Of lines that are not side by side, beyond those of lines that are."""
        costs = {"pages": self._pages()}
        for memory, of in ((self.middle, "_3"), (self.far, "")):
            lines = memory.nbytes // LINE
            together = self._read(memory, np.arange(lines))
            costs[f"line{of}"] = max(0.0, self._read(memory, np.random.default_rng(SEED).permutation(lines)) - together)
            row = PAGE // LINE
            lost = max(0.0, self._beside(memory, MOST_ROWS) - together)
            costs[f"begun{of}"] = row * max(0.0, self._read(memory, self._begun(lines // row, row)) - together)
            costs[f"lost{of}"] = lost
            if not of:
                costs["streams"] = self._streams(memory, together, lost)
            if of:
                first = np.arange(0, lines, PAGE // LINE)
                costs["hop"] = max(0.0, self._read(memory, first) - together)
                stored = self._read(memory, np.arange(lines), self.code.scatter, BESIDE)
                costs["fetched_store"] = max(0.0, self._read(memory, first, self.code.scatter, BESIDE) - stored)
        for of in ("_3", ""):
            costs[f"lost{of}"] /= MOST_ROWS - costs["streams"]
        return costs

    def _of_streaming(self) -> dict[str, float]:
        """How much of level 2 data may take that are read again after others streamed by: where half of them are lost,
        and how gradually."""
        lines, chunk = self.shared // LINE, int(STREAMED * self.shared) // LINE
        found, lost = (self._read(self.middle, np.arange(part)) for part in (int(AGAIN[0] * lines), 2 * lines))
        if lost < TOLD_APART * found:
            return {"own": CoreCosts.own, "gradual": CoreCosts.gradual}
        others = np.arange(CHUNKS * chunk).reshape(CHUNKS, chunk) + int(AGAIN[-1] * lines)
        parts: list[float] = []
        for again in AGAIN:
            count = int(again * lines)
            places = np.concatenate((np.broadcast_to(np.arange(count), (CHUNKS, count)), others), axis=1)
            cycles = self._read(self.middle, places) * (count + chunk) - lost * chunk
            parts.append((cycles / count - found) / (lost - found))
        sooner, later = np.interp((0.25, 0.75), np.maximum.accumulate(parts), np.add(AGAIN, STREAMED))
        own = float(sooner + later) / 2
        return {"own": own, "gradual": float(later - sooner) / own}

    def _streams(self, memory: Any, together: float, lost: float) -> float:
        """Rows that prefetchers follow at once, by what a line of these costs more than one `together` with the others
        of its row, and one of `MOST_ROWS` rows, which is `lost`."""
        if lost < LOSSES:
            return CoreCosts.streams
        kept = (rows for rows in FOLLOWED if self._beside(memory, rows) - together <= LOST * lost)
        return float(next(kept, FOLLOWED[-1] // 2))

    def _beside(self, memory: Any, count: int) -> float:
        """Cycles of a line of so many rows, of a page each, that are read beside one another."""
        row = PAGE // LINE
        rows = memory.nbytes // (count * PAGE)
        return self._read(memory, np.arange(rows * count * row).reshape(-1, count, row).swapaxes(1, 2))

    def _begun(self, pages: int, row: int) -> Any:
        """Lines of some rows beside one another, of a page each, on pages in no order."""
        order = np.random.default_rng(SEED).permutation(pages)[: pages // BEGUN * BEGUN]
        return (order.reshape(-1, BEGUN, 1) * row + np.arange(row)).swapaxes(1, 2)

    def _pages(self) -> float:
        """Pages whose places a core knows without asking memory, of which level 2 holds a line each."""
        pages, usual = FEW_PAGES, 0.0
        while pages <= MOST_PAGES and pages * LINE <= self.shared // 2 and pages * (PAGE + LINE) <= self.far.nbytes:
            taken = self._read(self.far, np.arange(pages) * (PAGE // LINE + 1))
            usual = usual or taken
            if taken > NO_PLACE * usual:
                break
            pages *= 2
        return float(pages // 2)

    def _read(
        self, memory: Any, lines: Any, loop: Callable[..., None] | None = None, count: int = LOADED_VECTORS
    ) -> float:
        """Cycles of each line, of which the first vector is read, or stored by another loop, `count` a block."""
        places = (lines.ravel() * (LINE // self.width)).astype(np.int32)
        blocks = int(places.size) // count
        return self.cycles(loop or self.code.gather, (memory, places, blocks)) / (blocks * count)
