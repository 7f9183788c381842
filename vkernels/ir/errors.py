"""The exceptions of vkernels: a class for each kind of mistake, all subclasses of `Error`; and its warnings."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """A copy of a traceback that keeps only the frames of other files."""
    if trace is None:
        return None
    rest = without_our_frames(trace.tb_next)
    if _is_ours(trace):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def calling_line(trace: TracebackType | None) -> list[str]:
    """Return `["file:line: in function: source"]` for the last frame before this package's first; [] without one."""
    found: list[str] = []
    while trace is not None and not _is_ours(trace):
        code = trace.tb_frame.f_code
        source = linecache.getline(code.co_filename, trace.tb_lineno, trace.tb_frame.f_globals).strip()
        found = [": ".join(filter(None, (f"{code.co_filename}:{trace.tb_lineno}", f"in {code.co_name}", source)))]
        trace = trace.tb_next
    return found


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def warn_caller(warning: Warning) -> None:
    """Give a warning about the line that called into this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


class Error(Exception):
    """A mistake that a user of vkernels can fix. Bugs of vkernels raise other exceptions."""

    def shortened(self) -> Self:
        """Drop this package's frames from the traceback; use as `raise error.shortened() from error.__cause__`."""
        return self.with_traceback(without_our_frames(self.__traceback__))

    def _render_traceback_(self) -> list[str]:
        """Show the calling line and the message in notebooks (IPython calls this in place of its own traceback)."""
        located = getattr(self, "place", None) is not None
        message = str(self) if located else f"{type(self).__name__}: {self}"
        return [*calling_line(self.__traceback__), *message.splitlines(), *getattr(self, "__notes__", ())]


class ArgumentError(Error):
    """An argument of a kernel call has the wrong rank, dtype, size, device or type."""


class IRError(Error):
    """IR text does not parse or verify."""


class FileError(Error):
    """A file is missing, unreadable or malformed."""


class BundleError(FileError):
    """A bundle is damaged, or of a format or kind that is not read here."""


class UntrustedError(BundleError):
    """A bundle is not signed by a known key, and loading it was not asked for all the same."""


class NotInBundleError(Error):
    """A frozen call needs code that its bundle does not have."""


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
    """An option does not exist, or does not have this value."""


class SetupError(Error):
    """A problem of the environment: a missing or unsupported library, an absent device, no memory."""


class ResourceError(SetupError):
    """The system has run out of disk space, threads, processes or open files."""


class OutOfMemoryError(SetupError):
    """A device has too little free memory."""


class KernelWarning(UserWarning):
    """What a user of vkernels should know, though it is no mistake. Python's warnings filters silence it."""


class SlowPlanWarning(KernelWarning):
    """The plan that a call runs by is modelled to be far from what the device can do, or is but a plain one."""


class OverLimitWarning(KernelWarning):
    """An operation ran with more device memory than `vkernels.memory.limit` was given: it needs that much at once."""


@dataclass(frozen=True)
class SourceRange:
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


def at_place(place: SourceRange | None, message: str, help: str = "", kind: str = "error") -> str:
    """A message about a place: `file:line:column: error: message`, the line with a caret, and help."""
    if place is None:
        return "\n".join(filter(None, (message, help)))
    where = f"{place.file}:{place.line}:{place.column + 1}"
    return "\n".join(filter(None, (f"{where}: {kind}: {message}", place.pointed(), help)))


class PlanError(Error):
    """A plan cannot be applied to this kernel; names the line of the kernel that is the cause, if any."""

    # `about`: the axis, value, scratchpad or tensor that it is about, whose line is the cause where no place is given.

    def __init__(self, message: str, place: SourceRange | None = None, about: str | None = None, help: str = ""):
        self.message, self.place, self.about, self.help = message, place, about, help
        super().__init__(at_place(place, message, help))


class SourceError(Error):
    """A mistake in a kernel's source: `file:line:column: error: message`, the line with a caret, and a hint."""

    def __init__(self, message: str, place: SourceRange | None = None, help: str = ""):
        self.message, self.place, self.help = message, place, help
        super().__init__(at_place(place, message, help))


class UnknownNameError(SourceError):
    """A name does not exist."""


class UnsupportedError(SourceError):
    """Kernels do not support this statement, expression or value."""


class TypeMismatchError(SourceError):
    """Dtypes or kinds of values do not match."""


class AxisError(SourceError):
    """An axis, rank or extent does not match."""


class RaceError(SourceError):
    """Several positions of an axis update one element, or programs access each other's elements."""


class BudgetError(SourceError):
    """No plan, or not the author's plan, fits the author's budget."""


class CheckError(SourceError):
    """A checked or interpreted run failed: index out of range, uninitialised memory, failed assertion."""
