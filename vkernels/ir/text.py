"""Modules from text and back: the one place where text from outside becomes IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import pairwise

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException, ParseError

from .dialect import context
from .errors import IRError

_MALFORMED = (NotImplementedError, OverflowError, ValueError)
"""What xDSL raises for some malformed text beside its own exceptions: resources, numbers too large, bytes not UTF-8."""


_LINE = 200
"""Characters of an operation that a message shows."""


@contextmanager
def well_formed(name: str) -> Iterator[None]:
    """Parse and verify text within: what xDSL lets through for malformed text is raised as `IRError`.

    `ParseError` and `DiagnosticException`, which say what is wrong, pass.
    """
    try:
        yield
    except RecursionError as error:
        raise IRError(f"{name}: nested too deeply") from error
    except _MALFORMED as error:
        raise IRError(f"{name}: malformed: {str(error) or type(error).__name__}") from error


def parse_module(text: str | bytes, name: str = "<text>", dialects: Sequence[Dialect] = ()) -> ModuleOp:
    """The verified module that MLIR text, custom or generic, describes. `name` is the file's, for messages.

    Raises `IRError` for anything that is not a valid module of vk, arith, math, scf and the other `dialects`.
    """
    known = context()
    for dialect in dialects:
        known.load_dialect(dialect)
    try:
        with well_formed(name):
            module = Parser(known, text, name).parse_module()
            module.verify()
    except ParseError as error:
        raise IRError(str(error)) from error
    except DiagnosticException as error:
        raise IRError(f"{name}: {described(error)}") from error
    return module


def described(error: DiagnosticException) -> str:
    """What the verifier or a pass says is wrong, and under it the operation that it says it of."""
    lines = "\n".join(getattr(error, "__notes__", ())).splitlines()
    for line, next_ in pairwise(lines):
        if next_.strip().startswith("^^"):
            return f"{error}\n  in {line.strip()[:_LINE]}"
    return str(error)


def print_module(module: ModuleOp, generic: bool = False, locations: bool = False) -> str:
    """MLIR text of a module, ending with a newline; `parse_module` of it gives the same module.

    `generic` prints every operation in MLIR's generic form, which any MLIR reads; `locations` adds
    `loc(...)` to every operation and block argument.
    """
    stream = StringIO()
    Printer(stream, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"
