"""A call of an author's function while it is built: names, values of syntax nodes, errors that point into its text."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc

from vkernels.ir.errors import SourceError, SourceRange, UnknownNameError, UnsupportedError
from vkernels.ir.numpy_numbers import as_python

from ..operation import Mistake
from ..source import FunctionSource
from .builder import KernelBuilder

_MAX_CALL_CHAIN = 4
"""Calls that an error lists; of a longer chain, the innermost calls and the outermost one."""

Handler = Callable[["CallFrame", Any], Any]
"""Builds one kind of syntax node: returns an expression's value, or `Returned` for a statement that returns."""


@dataclass(frozen=True)
class NoValue:
    """A name whose value is not available after a loop or branch; `why` explains it to the author."""

    why: str


@dataclass(frozen=True)
class Returned:
    """The value of a `return` that has been built; statements after it are not reached."""

    value: Any


class CallFrame:
    """The state of one call.

    `names`: its variables. `callers`: where it was called from, outermost first. `open`: the open loops and branches
    that run, as opposed to those decided while building. `sites`: the frame and syntax node of each IR location, shared
    by all calls of a kernel.
    """

    def __init__(
        self,
        builder: KernelBuilder,
        handlers: Mapping[type[ast.AST], Handler],
        source: FunctionSource,
        function: Callable[..., Any],
        names: dict[str, Any],
    ):
        self.builder, self.source, self.names = builder, source, names
        self.callers: tuple[SourceRange, ...] = ()
        self.open: list[str] = []
        self.sites: dict[FileLineColLoc, tuple[CallFrame, ast.AST]] = {}
        self._handlers = handlers
        self._globals = function.__globals__
        self._closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def helper(
        self, node: ast.AST, source: FunctionSource, function: Callable[..., Any], names: dict[str, Any]
    ) -> CallFrame:
        """The frame of a helper function that is called at a node."""
        inner = CallFrame(self.builder, self._handlers, source, function, names)
        inner.callers, inner.sites = (*self.callers, self.source.place(node)), self.sites
        return inner

    def evaluate(self, node: ast.AST) -> Any:
        """Build an expression or statement. Raises the author's mistakes."""
        handler = self._handlers.get(type(node))
        if handler is None:
            raise self.error(
                node,
                UnsupportedError,
                f"this {'statement' if isinstance(node, ast.stmt) else 'expression'} ({type(node).__name__})"
                " cannot be used in a kernel",
            )
        return as_python(handler(self, node))

    def execute(self, statements: Sequence[ast.stmt]) -> Returned | None:
        """Build statements in order, up to a `return`."""
        for statement in statements:
            returned: Returned | None = self.evaluate(statement)
            if returned is not None:
                return returned
        return None

    def lookup(self, node: ast.Name) -> Any:
        """The value of a variable, or of a name outside the function by Python's own rules."""
        name = node.id
        if name in self.names:
            value = self.names[name]
            if isinstance(value, NoValue):
                raise self.error(node, UnknownNameError, f"`{name}` has no value here", value.why)
            return value
        if name in self._closure:
            return self._closure[name].cell_contents
        if name in self._globals:
            return self._globals[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        if why := self._assigned_elsewhere(node):
            raise self.error(node, UnknownNameError, f"`{name}` has no value here", why)
        known = [*self.names, *self._closure, *self._globals]
        raise self.error(node, UnknownNameError, f"`{name}` does not exist", did_you_mean(name, known))

    def _assigned_elsewhere(self, node: ast.Name) -> str:
        """Which statement of the function, not built so far, gives a variable its value; empty if there is none."""
        inside = self.source.definition
        lines = [name.lineno for name in _names(inside) if _is_stored(name, node.id)]
        if not lines:
            return ""
        line = lines[0]
        if line < node.lineno and any(
            isinstance(each, ast.If) and _assigns(each, node.id) for each in ast.walk(inside)
        ):
            return f"Line {line} assigns it, in a branch that these arguments do not take. Give it a value before."
        return f"Line {line} assigns it, which has not run before. Give it a value first."

    def error(self, node: ast.AST, kind: type[SourceError], message: str, help: str = "") -> SourceError:
        """An error at a node, with the chain of calls that led here."""
        chain = [f"called from {p.file}:{p.line}:{p.column + 1}" for p in reversed(self.callers)]
        if len(chain) > _MAX_CALL_CHAIN:
            chain = [*chain[:-1][:_MAX_CALL_CHAIN], "…", chain[-1]]
        return kind(message, self.source.place(node), "\n".join(filter(None, (help, *chain))))

    @contextmanager
    def at(self, node: ast.AST, arguments: Sequence[tuple[ast.AST, Any]] = ()) -> Iterator[None]:
        """Build at a node's location, and report mistakes at the node or at the argument at fault."""
        builder = self.builder
        before = builder.location
        builder.location = self.source.location(node)
        self.sites[builder.location] = self, node
        try:
            yield
        except Mistake as mistake:
            raise self.error(
                next((n for n, value in arguments if value is mistake.culprit), node),
                mistake.kind,
                mistake.message,
                mistake.help,
            ) from None
        finally:
            builder.location = before


def _names(inside: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(inside) if isinstance(each, ast.Name))


def _assigns(statement: ast.AST, name: str) -> bool:
    return any(_is_stored(each, name) for each in _names(statement))


def _is_stored(node: ast.Name, name: str) -> bool:
    return node.id == name and isinstance(node.ctx, ast.Store)


def did_you_mean(name: str, known: Sequence[str], prefix: str = "") -> str:
    """`Did you mean …?` with the closest known name; empty if none is close."""
    close = get_close_matches(name, [k for k in known if not k.startswith("__")], 1)
    return f"Did you mean `{prefix}{close[0]}`?" if close else ""
