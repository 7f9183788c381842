"""How every command ends."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import NoReturn

from vkernels.ir.errors import Error, SetupError


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
    try:
        command()
    except SetupError as error:
        _leave(Code.ENVIRONMENT, str(error))
    except Error as error:
        _leave(Code.MISTAKE, str(error))
    except MemoryError as error:
        _leave(Code.ENVIRONMENT, f"not enough memory: {error}" if str(error) else "not enough memory")
    except KeyboardInterrupt:
        _leave(Code.INTERRUPTED, "interrupted")
    except Exception:
        traceback.print_exc()
        sys.exit(Code.BUG)
    sys.exit(Code.WELL)


def _leave(code: Code, message: str) -> NoReturn:
    print(f"error: {message}" if code != Code.INTERRUPTED else message, file=sys.stderr)
    sys.exit(code)
