"""A file that keeps the trials of one tuning run, so that the same run continues later."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from vkernels.compiler.protocols import Constant
from vkernels.ir.errors import Error, FileError
from vkernels.ir.plan import Plan

from .history import MAX_EARLIER, History, TaskHistory
from .measure import Candidate, Failed, Measurement, Outcome
from .measure.measures import candidate_from_json, candidate_to_json, outcome_from_json, outcome_to_json
from .plan_space import PlanSpace
from .space import Point

FORMAT, VERSION = "vkernels study", 2


@dataclass(frozen=True)
class StudyRow:
    """`candidate`: its plan has canonical names. `judged`: the value that is minimised, as an outcome; `measured`: what
    was measured. `final`: it was selected."""

    candidate: Candidate
    judged: Outcome
    measured: Outcome
    final: bool = False


class Study(AbstractContextManager["Study"]):
    """A study's file: a line that says what is tuned, and one for each trial. One process may use it at a time."""

    def __init__(self, path: Path, about: Mapping[str, Any]):
        """Open or create a study. `about`: what is tuned. Raises `FileError` if it is of something else, in use or
        damaged."""
        self.path = path
        wanted = json.loads(json.dumps({"format": FORMAT, "version": VERSION, **about}))
        try:
            self._file: IO[str] = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            self.rows = self._opened(wanted)
        except BaseException:
            self._file.close()
            raise

    def add(self, row: StudyRow) -> None:
        """Keep a trial, at once."""
        self._write({
            "candidate": candidate_to_json(row.candidate), "judged": outcome_to_json(row.judged),
            "measured": outcome_to_json(row.measured), "final": row.final,
        })  # fmt: skip

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def _opened(self, wanted: Mapping[str, Any]) -> list[StudyRow]:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FileError(f"{self.path}: another process uses this study") from error
        self._file.seek(0)
        try:
            text = self._file.read()
        except UnicodeDecodeError as error:
            raise FileError(f"{self.path}: is no study: {error}") from error
        whole = text[: text.rfind("\n") + 1]
        if len(whole) < len(text) and (whole or not text.startswith("{")):
            if not whole:
                raise FileError(f"{self.path}: is no study of vkernels")
            self._file.truncate(len(whole.encode()))  # a line that a process did not finish
        if not whole:
            self._file.truncate(0)
            self._write(wanted)
            return []
        first, *lines = whole.splitlines()
        self._check(self._parsed(first, 1), wanted)
        return [self._row(line, number) for number, line in enumerate(lines, 2)]

    def _check(self, found: Any, wanted: Mapping[str, Any]) -> None:
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise FileError(f"{self.path}: is no study of vkernels")
        for name, value in wanted.items():
            if found.get(name) != value:
                raise FileError(
                    f"{self.path}: is a study with {name} {found.get(name)!r}, this run has {value!r}; "
                    "name another file"
                )

    def _row(self, line: str, number: int) -> StudyRow:
        data = self._parsed(line, number)
        try:
            return StudyRow(
                candidate_from_json(data["candidate"]), outcome_from_json(data["judged"]),
                outcome_from_json(data["measured"]), bool(data["final"]),
            )  # fmt: skip
        except (Error, KeyError, TypeError) as error:
            raise FileError(f"{self.path}:{number}: is damaged: {error}") from error

    def _parsed(self, line: str, number: int) -> Any:
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileError(f"{self.path}:{number}: is damaged: {error}") from error

    def _write(self, data: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(data) + "\n")
        self._file.flush()


@dataclass
class StudyHistory(History):
    """A history that keeps trials in a study, too. `measured`: by candidate, what was measured."""

    study: Study | None = None
    measured: dict[Hashable, Outcome] = field(default_factory=dict)

    def best_plans(self, constants: Mapping[str, Constant]) -> list[Plan]:
        """The fastest plans of the database, and of the study."""
        rows = [] if self.study is None else self.study.rows
        timed = [(row, row.judged) for row in rows if isinstance(row.judged, Measurement)]
        timed.sort(key=lambda each: (not each[0].final, each[1].high))
        own = [row.candidate for row, _ in timed if dict(row.candidate.constants) == dict(constants)]
        plans = (self._names(constants).to_author(each.plan) for each in own[:MAX_EARLIER])
        return [*super().best_plans(constants), *(plan for plan in plans if plan is not None)]

    def before(self, space: PlanSpace, timeout: float = 0.0) -> list[TaskHistory]:
        """Trials of the database, and of the study."""
        found: dict[Point, TaskHistory] = {each.point: each for each in super().before(space, timeout)}
        for row in [] if self.study is None else self.study.rows:
            point = self._point(space, row.candidate.plan, row.candidate.constants or None)
            if point is not None:
                candidate = Candidate(space.plan(point), row.candidate.constants)
                self.measured[candidate.key] = row.measured
                found[point] = TaskHistory(point, candidate, row.judged, row.final)
        return list(found.values())

    def add(
        self, candidate: Candidate, outcome: Outcome, trial: int, seconds: float = 0.0, origin: str = "measured",
        final: bool = False, default: bool = False,
    ) -> None:  # fmt: skip
        """Store the outcome of a trial in the database and the study."""
        super().add(candidate, outcome, trial, seconds, origin, final, default)
        if self.study is not None:
            measured = outcome if isinstance(outcome, Failed) else self.measured.get(candidate.key, outcome)
            canonical = Candidate(self._names(candidate.constants).to_canonical(candidate.plan), candidate.constants)
            self.study.add(StudyRow(canonical, outcome, measured, final))
