"""Groups of calls in a worker process: what ends or stops the process is a failure of its call, and the group's other
calls are made without it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..generated.children import Child

COMMAND = (sys.executable, "-m", f"{__package__}.worker")
FATAL = 4
"""Calls of a group that may end a process; what is left of it then is left out."""


NOTHING: dict[str, Any] = {"codes": [], "worst": {}, "compiles": 0, "seconds": 0.0, "loose": 0.0}
"""What a worker that ended has to say."""


class Worker:
    """One worker process at a time, started when it is needed."""

    def __init__(self, patience: float, command: tuple[str, ...] = COMMAND):
        self._child = Child(patience, command)

    def run(self, seed: int, without: Sequence[int] = ()) -> dict[str, Any]:
        """What came of a seed's calls, but for those `without`."""
        fatal: list[dict[str, Any]] = []
        while True:
            answer = self._child.run(seed, *without, *(failure["call"] for failure in fatal))
            if "compiles" in answer:
                break
            (ended,) = answer["failures"]
            if not ended["where"]:  # it did not come as far as a call
                raise RuntimeError(f"a worker failed at seed {seed}: {ended['message']}")
            fatal.append(_fatal(seed, ended))
            if len(fatal) == FATAL:
                answer = dict(NOTHING, counts={}, failures=[])
                break
        for failure in fatal:
            key = f"{failure['function']}: {failure['kind']}"
            answer["counts"][key] = answer["counts"].get(key, 0) + 1
        answer["failures"] += fatal
        for failure in answer["failures"]:
            failure["repeat"] = repeat(failure["seed"], failure["call"])
        return answer

    def close(self) -> None:
        self._child.close()


def repeat(seed: int, call: int) -> str:
    """The command that repeats one call."""
    return f"python -m tests.differential --seed {seed} --call {call}"


def _fatal(seed: int, ended: dict[str, Any]) -> dict[str, Any]:
    """What ended a process, as a failure of the call that it had told of last."""
    _, call, where = ended["where"].split(" ", 2)
    kind = "hung" if ended["message"].startswith("no answer") else "crashed"
    function = where.partition("(")[0]
    return {"seed": seed, "call": int(call), "function": function, "kind": kind, "where": where,
            "message": ended["message"][-600:], "worst": 0.0}  # fmt: skip
