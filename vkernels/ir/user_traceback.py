"""Tracebacks without this package's frames: a user's mistake is never found in them."""

from __future__ import annotations

import linecache
import os
from types import TracebackType

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
