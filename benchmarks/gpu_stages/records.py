"""What came of each case, a line of JSON each, on disk before the next begins."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def is_case(record: Record) -> bool:
    """Whether a record is of a case, and not of a run."""
    return "case" in record


class Records:
    """The records of a file and those that are added; may be used by several threads."""

    def __init__(self, path: Path):
        from common import json_lines  # needs packages that may come from wheels

        self.path = path
        self.all: list[Record] = list(json_lines(path))
        self._lock = threading.Lock()
        if path.exists() and not path.read_bytes().endswith(b"\n"):
            with path.open("a") as file:
                file.write("\n")  # behind a line that was cut off

    def add(self, record: Record) -> None:
        with self._lock, self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
            self.all.append(record)

    def of(self, part: str) -> dict[str, Record]:
        """The last record of each case of a part."""
        return {each["case"]: each for each in self.all if is_case(each) and each["part"] == part}

    def runs(self) -> list[Record]:
        """What is known of each run: machine, versions, command."""
        return [each for each in self.all if "run" in each and not is_case(each)]

    def cases(self) -> Iterable[Record]:
        """The last record of each case, in the order in which they were first run."""
        return {(each["part"], each["case"]): each for each in self.all if is_case(each)}.values()
