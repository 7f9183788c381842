"""How a script ends that does not catch a `vk.Error`: with its own line, the message and the exit code, as commands do.

Python's traceback would show the inside of this package, where no author's mistake is to be found.
"""

from __future__ import annotations

import builtins
import linecache
import os
import sys
import threading
import traceback
from types import TracebackType

from vkernels.ir.errors import Error, SetupError, SourceError

from .commands.exits import Code

PACKAGE = os.path.dirname(__file__) + os.sep


def install() -> None:
    """Show `vk.Error`s that nobody catches as one message; others go to the hooks that were there before.

    The process exits with 2, or 3 where the environment is at fault. In threads the message is all: a thread that
    fails does not end the process. Sessions at a prompt keep Python's tracebacks, and so does every bug of ours.
    `sys.excepthook = sys.__excepthook__` takes it back.
    """
    others, others_in_threads = sys.excepthook, threading.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, Error) or _at_prompt():
            others(kind, error, trace)
            return
        print(describe(error, trace), file=sys.stderr)
        raise SystemExit(int(Code.ENVIRONMENT if isinstance(error, SetupError) else Code.MISTAKE))

    def show_in_thread(args: threading.ExceptHookArgs) -> None:
        if not isinstance(args.exc_value, Error) or _at_prompt():
            others_in_threads(args)
            return
        name = args.thread.name if args.thread else "a thread"
        print(f"in {name}:\n{describe(args.exc_value, args.exc_traceback)}", file=sys.stderr)

    sys.excepthook, threading.excepthook = show, show_in_thread


def describe(error: Error, trace: TracebackType | None) -> str:
    """The author's line that led here, where there is one, and the message."""
    located = isinstance(error, SourceError) and error.place is not None
    message = str(error) if located else f"error: {error}"
    return "\n".join([*_author_line(trace), message, *getattr(error, "__notes__", ())])


def _author_line(trace: TracebackType | None) -> list[str]:
    """`file:line: in caller: source` of the last call before this package's first: beyond it may be ours too."""
    found: list[str] = []
    for frame, line in traceback.walk_tb(trace):
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE):
            break
        source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
        found = [": ".join(filter(None, (f"{code.co_filename}:{line}", f"in {code.co_name}", source)))]
    return found


def _at_prompt() -> bool:
    return bool(sys.flags.interactive) or hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")
