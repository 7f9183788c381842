"""Where the author wrote what became an operation."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from .errors import SourceRange


def place_of(op: Operation) -> SourceRange | None:
    """Where the author wrote what became the operation, if it is known; of inlined code, its own line."""
    location: Attribute = op.location
    while True:
        match location:
            case FileLineColLoc():
                column = max(0, location.column.data - 1)
                return SourceRange(location.filename.data, location.line.data, column, column + 1)
            case CallSiteLoc():
                location = location.callee
            case NameLoc():
                location = location.location
            case FusedLoc(locations=ArrayAttr(data=(first, *_))):
                location = first
            case _:
                return None
