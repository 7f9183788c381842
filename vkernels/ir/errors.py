"""The exceptions of vkernels: one class a kind of mistake, all under `Error`. Tell them apart by class, not by text."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


class Error(Exception):
    """Anything that a user of vkernels can put right. A bug of ours is never one of these."""


class ArgumentError(Error):
    """A kernel was called with an argument of the wrong rank, dtype, size, device or kind."""


class IRError(Error):
    """IR text that does not parse or verify."""


class FileError(Error):
    """A file that is missing, unreadable or not in the form it should have."""


class TraceError(Error):
    """A trace whose tensors and operations contradict each other, or a program whose iterations do not repeat.

    `at`: where in the trace, as `("tensors", 3, "size")`; empty where it is about all of it.
    """

    def __init__(self, message: str, at: tuple[str | int, ...] = ()):
        self.message, self.at = message, at
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at).lstrip(".")
        super().__init__(f"{where}: {message}" if where else message)


class MemoryPlanError(Error):
    """A schedule of device memory that cannot be kept, or a capacity with which none could be.

    `operation`: the one that has too little; `least`: bytes of device memory that would do, where that is known.
    """

    def __init__(self, message: str, operation: int | None = None, least: int | None = None):
        self.message, self.operation, self.least = message, operation, least
        super().__init__(message)


class OptionError(Error):
    """A command's option or an effort setting that does not exist or has no such value."""


class SetupError(Error):
    """The environment's fault: a missing or unknown version of a library, no such device, no memory."""


class ResourceError(SetupError):
    """The system has no more of something: space on a disk, threads, processes, open files."""


class OutOfMemoryError(SetupError):
    """A device has less memory left than is asked for."""


@dataclass(frozen=True)
class Place:
    """A place in an author's source: 1-based line, 0-based columns, `end` exclusive."""

    file: str
    line: int
    column: int
    end: int

    def pointed(self) -> str:
        """The source line with a caret under the place; empty where the source cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text.strip():
            return ""
        carets = "^" * max(1, min(self.end, len(text)) - self.column)
        return f"{text}\n{' ' * self.column}{carets}"


def _at(place: Place | None, message: str, help: str = "") -> str:
    """A message at a place in the author's text, if that is known, and what would help."""
    if place is None:
        return "\n".join(filter(None, (message, help)))
    where = f"{place.file}:{place.line}:{place.column + 1}"
    return "\n".join(filter(None, (f"{where}: error: {message}", place.pointed(), help)))


class PlanError(Error):
    """A plan that cannot be applied to this kernel; where a line of the kernel's text is the cause, with the line."""

    def __init__(self, message: str, place: Place | None = None):
        self.message, self.place = message, place
        super().__init__(_at(place, message))


class SourceError(Error):
    """A mistake in a kernel's text: `file:line:column: error: message`, the line with a caret, and what would help."""

    def __init__(self, message: str, place: Place | None = None, help: str = ""):
        self.message, self.place, self.help = message, place, help
        super().__init__(_at(place, message, help))


class UnknownNameError(SourceError):
    """A name that does not exist where it is used."""


class UnsupportedError(SourceError):
    """A statement, expression or value that kernels cannot have."""


class TypeMismatchError(SourceError):
    """Dtypes or kinds of values that do not go together."""


class AxisError(SourceError):
    """An axis, rank or extent that does not fit."""


class RaceError(SourceError):
    """Positions of an axis that update one element of memory, so that all but one update would be lost, or programs
    that would meet in memory."""


class BudgetError(SourceError):
    """A plan takes more than the author's budget allows: the leanest that there is, or the author's own."""


class CheckError(SourceError):
    """Found while running checked or interpreted: an index out of range, memory read before it was written, a failed
    assertion."""
