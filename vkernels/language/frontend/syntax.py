"""Which kinds of syntax nodes a kernel may have, what builds each, and messages for the kinds that it may not have."""

from __future__ import annotations

import ast
from typing import Any

from vkernels.ir.errors import UnsupportedError

from .branches import conditional, if_statement
from .calls import call
from .expressions import attribute, binary_expression, compare, logical, unary
from .frame import CallFrame, Handler
from .loops import for_loop, while_loop
from .statements import (
    annotated_assign,
    assert_statement,
    assign,
    augmented_assign,
    expression_statement,
    return_statement,
)
from .subscripts import subscript


def _unsupported(kind: str, help: str = "") -> Handler:
    def refuse(frame: CallFrame, node: Any) -> Any:
        raise frame.error(node, UnsupportedError, f"{kind} cannot be used in a kernel", help)

    return refuse


def _tuple(frame: CallFrame, node: ast.Tuple | ast.List) -> tuple[Any, ...]:
    return tuple(frame.evaluate(element) for element in node.elts)


_HELPER = "Write a helper function outside, with `@vk.function`."
_OUTSIDE = "A kernel changes nothing outside but the tensors that it is given."
_IMPORT = "Import at the top of the file."
_LOOP = "A tile operation works on every position at once; a sequential loop is `for k in vk.range(…)`."

HANDLERS: dict[type[ast.AST], Handler] = {
    ast.Constant: lambda frame, node: node.value,
    ast.Name: CallFrame.lookup,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.BinOp: binary_expression,
    ast.UnaryOp: unary,
    ast.Compare: compare,
    ast.BoolOp: logical,
    ast.IfExp: conditional,
    ast.Subscript: subscript,
    ast.Slice: lambda frame, node: slice(None),
    ast.Attribute: attribute,
    ast.Call: call,
    ast.ListComp: _unsupported("a list comprehension", _LOOP),
    ast.SetComp: _unsupported("a set comprehension"),
    ast.DictComp: _unsupported("a dict comprehension"),
    ast.GeneratorExp: _unsupported("a generator expression", _LOOP),
    ast.Lambda: _unsupported("`lambda`", "Write a helper function with `@vk.function`."),
    ast.JoinedStr: _unsupported("an f-string", '`vk.print` takes several values: `vk.print("x =", x)`.'),
    ast.Dict: _unsupported("a dict"),
    ast.Set: _unsupported("a set"),
    ast.NamedExpr: _unsupported("`:=`", "Assign on a line of its own."),
    ast.Await: _unsupported("`await`"),
    ast.Yield: _unsupported("`yield`"),
    ast.YieldFrom: _unsupported("`yield from`"),
    ast.Starred: _unsupported("`*`"),
    ast.Assign: assign,
    ast.AugAssign: augmented_assign,
    ast.AnnAssign: annotated_assign,
    ast.If: if_statement,
    ast.For: for_loop,
    ast.While: while_loop,
    ast.Return: return_statement,
    ast.Expr: expression_statement,
    ast.Assert: assert_statement,
    ast.Pass: lambda frame, node: None,
    ast.FunctionDef: _unsupported("a function definition", _HELPER),
    ast.AsyncFunctionDef: _unsupported("a function definition", _HELPER),
    ast.ClassDef: _unsupported("a class definition", "Define it outside."),
    ast.With: _unsupported("`with`"),
    ast.Try: _unsupported("`try`", "A kernel raises nothing while it runs."),
    ast.Raise: _unsupported("`raise`", "Conditions are checked with `vk.device_assert(condition, message)`."),
    ast.Delete: _unsupported("`del`", "A variable needs no end."),
    ast.Global: _unsupported("`global`", _OUTSIDE),
    ast.Nonlocal: _unsupported("`nonlocal`", _OUTSIDE),
    ast.Import: _unsupported("`import`", _IMPORT),
    ast.ImportFrom: _unsupported("`import`", _IMPORT),
    ast.Break: _unsupported("`break`", "Put the condition into a `while`, or skip the work with `vk.where`."),
    ast.Continue: _unsupported("`continue`", "Put what follows into an `if`."),
    ast.Match: _unsupported("`match`", "Use `if` and `elif`."),
}
"""What builds each kind of syntax node; kinds that are not listed are refused too."""
