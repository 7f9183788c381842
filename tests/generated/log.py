"""What came of each seed, a line of JSON each in a file; and what it comes to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Log:
    """Seeds done, those of the file among them."""

    def __init__(self, path: Path | None):
        self.seeds: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.plans: set[str] = set()
        self.codes: set[str] = set()
        self.failures: list[dict[str, Any]] = []
        self._path = path
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))

    def add(self, seed: int, outcome: Mapping[str, Any]) -> None:
        entry = {"seed": seed, **outcome}
        self._take(entry)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def _take(self, entry: Mapping[str, Any]) -> None:
        self.seeds.add(entry["seed"])
        self.counts.update(entry["counts"])
        self.plans.update(entry["plans"])
        self.codes.update(entry["codes"])
        self.failures += entry["failures"]

    def __str__(self) -> str:
        counts = self.counts
        ways = ", ".join(f"{counts[way]} {way}" for way in ("interpreted", "native", "TTIR"))
        return (
            f"{counts['cases']} cases ({ways}) of {len(self.seeds)} kernels: {len(self.plans)} different plans,"
            f" {len(self.codes)} codes; {len(self.failures)} failures"
        )

    def report(self) -> str:
        """The same, all counts, and which seeds failed."""
        counts = [f"  {name}: {number}" for name, number in sorted(self.counts.items())]
        failures = [f"  seed {failure['seed']} failed: {failure['where'][:200]}" for failure in self.failures]
        return "\n".join([str(self), *counts, *failures])
