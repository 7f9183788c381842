"""Errors of a lowering, at the author's line where it is known."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from ...errors import SourceRange, UnsupportedError


def unsupported(operation: Operation, reason: str) -> UnsupportedError:
    """An error that names the operation and, where the author's line is known, shows it."""
    location = operation.location
    place = None
    if isinstance(location, FileLineColLoc):
        column = location.column.data
        place = SourceRange(location.filename.data, location.line.data, column, column + 1)
    return UnsupportedError(f"{operation.name}: {reason}", place)
