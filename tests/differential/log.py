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
        self.codes: set[str] = set()
        self.worst: dict[str, float] = {}
        self.failures: list[dict[str, Any]] = []
        self.compiles, self.seconds, self.loose = 0, 0.0, 0.0
        self._path = path
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))

    @property
    def calls(self) -> int:
        return self.counts.total()

    def add(self, seed: int, outcome: Mapping[str, Any]) -> None:
        entry = {"position": seed, **outcome}
        self._take(entry)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def _take(self, entry: Mapping[str, Any]) -> None:
        self.seeds.add(entry["position"])
        self.counts.update(entry["counts"])
        self.codes.update(entry["codes"])
        self.failures += entry["failures"]
        self.compiles += entry["compiles"]
        self.seconds += entry["seconds"]
        self.loose += entry["loose"]
        for name, value in entry["worst"].items():
            self.worst[name] = max(self.worst.get(name, 0.0), value)

    def __str__(self) -> str:
        return (
            f"{self.calls} calls of {len(self.seeds)} seeds, {len(self.codes)} distinct specialisations"
            f" ({self.compiles} compiled), {len(self.failures)} failures, {self.seconds:.0f} s of workers;"
            f" {100 * self.loose / max(1, self.calls):.1f}% of results left open by steps that overflow"
        )

    def report(self) -> str:
        """A row a function: how many calls came to what, and the largest error of right ones in units of its bound."""
        functions = sorted({key.partition(": ")[0] for key in self.counts})
        lines = [str(self)]
        for function in functions:
            kinds = {key.partition(": ")[2]: n for key, n in self.counts.items() if key.startswith(f"{function}: ")}
            said = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
            lines.append(f"  {function}: {said}; worst error {self.worst.get(function, 0.0):.3f} of its bound")
        return "\n".join(lines)
