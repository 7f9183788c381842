"""How every command ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import NoReturn

from vkernels.ir.errors import Error, SetupError
from vkernels.ir.scarcity import scarcity_of


class Code(IntEnum):
    """A command's exit code.

    `FINDING`: the command did its work, and the answer is bad news (categories differ, something does not
    fit). `MISTAKE`: the caller's. `ENVIRONMENT`: the machine's or an installed library's. `BUG`: ours, with
    a traceback.
    """

    WELL = 0
    FINDING = 1
    MISTAKE = 2
    ENVIRONMENT = 3
    BUG = 70
    INTERRUPTED = 130


def exit_with_code(command: Callable[[], object]) -> NoReturn:
    """Run a command and leave the process with its code; mistakes are one message on standard error."""
    code: int | str | None = Code.WELL
    try:
        code = _code_of(command)
        sys.stdout.flush()
    except BrokenPipeError:  # who read our output has enough of it
        _close_output()
    except SetupError as error:
        _leave(Code.ENVIRONMENT, str(error))
    except Error as error:
        _leave(Code.MISTAKE, str(error))
    except KeyboardInterrupt:
        _leave(Code.INTERRUPTED, "interrupted")
    except Exception as error:
        scarce = scarcity_of(error)
        if scarce is None:
            traceback.print_exc()
            sys.exit(Code.BUG)
        _close_output()
        _leave(Code.ENVIRONMENT, str(scarce))
    sys.exit(code)


def _code_of(command: Callable[[], object]) -> int | str | None:
    """The code that a command leaves with; its output is still to be written."""
    try:
        command()
    except SystemExit as left:
        return left.code
    return Code.WELL


def _close_output() -> None:
    """Let Python, as it ends, not try once more to write what cannot be written."""
    with suppress(OSError, ValueError):
        output = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)


def _leave(code: Code, message: str) -> NoReturn:
    print(f"error: {message}" if code != Code.INTERRUPTED else message, file=sys.stderr)
    sys.exit(code)
