"""What a worker that compiles ahead does: it makes code as calls would have it, without making arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vkernels.compiler.arguments import CPU
from vkernels.inspect.task import Task, task_from_json
from vkernels.runtime.present_target import present_target
from vkernels.runtime.threads import set_threads

from ..arguments import scalars
from .candidate_code import code_of
from .classify_failure import classified
from .lock import lock_names, locked_one
from .outcomes import Candidate, Failed, FailureReason


@dataclass(frozen=True)
class PrecompileTask:
    """Compiles candidates of a task for this machine's CPU; the code stays on disk, where who measures finds it.
    `numbers`: the scalars of its calls; `tell`: takes notes of what comes next."""

    task: Task
    numbers: Mapping[str, bool | int | float]
    cores: tuple[int, ...]
    locks: Path | None
    patience: float
    tell: Callable[[str], None]

    @staticmethod
    def start(
        request: dict[str, Any], cores: Sequence[int], answer: Callable[[dict[str, Any]], None]
    ) -> PrecompileTask:
        """As calls on so many threads as the request says. Raises what is wrong with the task."""

        def note(what: str) -> None:
            answer({"note": what, "of": 0})

        set_threads(request["threads"])
        folder = None if request["locks"] is None else Path(request["locks"])
        task = task_from_json(request["task"])
        return PrecompileTask(task, scalars(task), tuple(cores), folder, request["patience"], note)

    def compile(self, candidate: Candidate) -> Failed | None:
        """Compile a candidate; what is wrong with it, if there is anything."""
        names = lock_names(CPU, self.cores)
        with locked_one(names, self.patience, self.locks, lambda: self.tell("waiting")):
            self.tell("compiling")
            with classified(FailureReason.COMPILE_ERROR) as told:
                code_of(self.task, candidate, self.numbers, present_target(CPU))
                return None
        return told.failure
