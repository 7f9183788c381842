"""Exit codes, and how commands end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import NoReturn

from vkernels.ir.errors import Error, SetupError
from vkernels.ir.optional_packages import missing_package
from vkernels.ir.system_resources import scarcity_of

from .formatting import printable


class Code(IntEnum):
    """A command's exit code.

    `FINDING`: the command worked, and its answer is negative (results differ, something does not fit). `MISTAKE`: a
    user's mistake. `ENVIRONMENT`: the machine or an installed library is at fault. `BUG`: a bug of vkernels, shown
    with a traceback.
    """

    OK = 0
    FINDING = 1
    MISTAKE = 2
    ENVIRONMENT = 3
    BUG = 70
    INTERRUPTED = 130


def exit_with_code(command: Callable[[], object]) -> NoReturn:
    """Run a command and exit with its code; print a mistake as one message on standard error."""
    code: int | str | None = Code.OK
    try:
        code = _code_of(command)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed it
        _close_output()
    except SetupError as error:
        _leave(Code.ENVIRONMENT, str(error))
    except Error as error:
        _leave(Code.MISTAKE, str(error))
    except KeyboardInterrupt:
        _leave(Code.INTERRUPTED, "interrupted")
    except Exception as error:
        missing = missing_package(error) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None:
            _leave(Code.ENVIRONMENT, str(missing))
        scarce = scarcity_of(error)
        if scarce is None:
            traceback.print_exc()
            sys.exit(Code.BUG)
        _close_output()
        _leave(Code.ENVIRONMENT, str(scarce))
    sys.exit(code)


def _code_of(command: Callable[[], object]) -> int | str | None:
    try:
        command()
    except SystemExit as exit:
        return exit.code
    return Code.OK


def _close_output() -> None:
    # Keeps Python from flushing unwritable output again at exit.
    with suppress(OSError, ValueError):
        output = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, output)
        os.close(null)


def _leave(code: Code, message: str) -> NoReturn:
    said = printable(message, newlines=True)  # it may quote what strangers wrote
    print(f"error: {said}" if code != Code.INTERRUPTED else said, file=sys.stderr)
    sys.exit(code)
