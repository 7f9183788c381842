"""One call of an author's function while it is built: its names, and errors that point into its text."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import SourceError, SourceRange, UnknownNameError

from ..current import Mistake
from ..source import FunctionSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .builder import KernelBuilder


_MAX_CALL_CHAIN = 4
"""Calls that an error names; of more, these and the outermost."""


@dataclass(frozen=True)
class Gone:
    """What a name stands for once the loop or branch that gave it its value has ended."""

    why: str


class CallFrame:
    """The names of one call and where they come from. `names` holds the variables; `loops` counts the open loops and
    branches that run, as opposed to those decided while building."""

    def __init__(
        self,
        builder: KernelBuilder,
        source: FunctionSource,
        function: Callable[..., Any],
        names: dict[str, Any],
        callers: tuple[SourceRange, ...] = (),
    ):
        self.builder, self.source, self.names, self.callers = builder, source, names, callers
        self.open: list[str] = []
        self._globals = function.__globals__
        self._closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def lookup(self, node: ast.Name) -> Any:
        """What a name stands for: a variable, or what Python's own rules find outside of the function."""
        name = node.id
        if name in self.names:
            value = self.names[name]
            if isinstance(value, Gone):
                raise self.error(node, UnknownNameError, f"`{name}` has no value here", value.why)
            return value
        if name in self._closure:
            return self._closure[name].cell_contents
        if name in self._globals:
            return self._globals[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        known = [*self.names, *self._closure, *self._globals]
        raise self.error(node, UnknownNameError, f"`{name}` does not exist", did_you_mean(name, known))

    def place(self, node: ast.AST) -> SourceRange:
        return self.source.place(node)

    def error(self, node: ast.AST, kind: type[SourceError], message: str, help: str = "") -> SourceError:
        """An error at a node, with the chain of calls that led here."""
        chain = [f"called from {p.file}:{p.line}:{p.column + 1}" for p in reversed(self.callers)]
        if len(chain) > _MAX_CALL_CHAIN:
            chain = [*chain[:-1][:_MAX_CALL_CHAIN], "…", chain[-1]]
        return kind(message, self.place(node), "\n".join(filter(None, (help, *chain))))

    @contextmanager
    def at(self, node: ast.AST, arguments: Sequence[tuple[ast.AST, Any]] = ()) -> Iterator[None]:
        """Build with a node's location, and point mistakes at it, or at the argument that is at fault."""
        builder = self.builder
        before = builder.location
        builder.location = self.source.location(node)
        builder.sites[builder.location] = self, node
        try:
            yield
        except Mistake as mistake:
            culprit = next((n for n, value in arguments if value is mistake.culprit), node)
            raise self.error(culprit, mistake.kind, mistake.message, mistake.help) from None
        finally:
            builder.location = before


def did_you_mean(name: str, known: Sequence[str], prefix: str = "") -> str:
    """`Did you mean …?`, or nothing where no known name is close."""
    close = get_close_matches(name, [k for k in known if not k.startswith("__")], 1)
    return f"Did you mean `{prefix}{close[0]}`?" if close else ""
