"""Statements: each kind of syntax node, built in order."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vkernels.ir.errors import SourceError, TypeMismatchError, UnsupportedError

from ..values import AddressableValue, Operand, SubscriptReference, Tile
from .branches import branch, is_decided
from .calls import call
from .describe import describe
from .expressions import binary, evaluate, index_arguments
from .frame import CallFrame
from .loops import for_loop, while_loop


@dataclass(frozen=True)
class Returned:
    """A `return` has been built, with this value: what follows it is not reached."""

    value: Any


def execute(frame: CallFrame, statements: Sequence[ast.stmt]) -> Returned | None:
    """Build statements in order, up to a `return`."""
    for statement in statements:
        handler = _HANDLERS.get(type(statement))
        if handler is None:
            kind, help = _UNSUPPORTED.get(type(statement), (f"this statement ({type(statement).__name__})", ""))
            raise frame.error(statement, UnsupportedError, f"{kind} cannot be used in a kernel", help)
        signal = handler(frame, statement)
        if signal is not None:
            return signal
    return None


# Assignments.


def _assign(frame: CallFrame, node: ast.Assign) -> None:
    only = node.targets[0] if len(node.targets) == 1 else None
    if isinstance(only, ast.Tuple) and isinstance(node.value, ast.Tuple) and len(only.elts) == len(node.value.elts):
        values = [_value(frame, v, t) for t, v in zip(only.elts, node.value.elts, strict=True)]
        for target, source, value in zip(only.elts, node.value.elts, values, strict=True):
            _set(frame, target, value, source)
        return
    value = _value(frame, node.value, node.targets[0])
    for target in node.targets:
        _set(frame, target, value, node.value)


def _value(frame: CallFrame, node: ast.expr, target: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        return call(frame, node, target.id if isinstance(target, ast.Name) else None)
    return evaluate(frame, node)


def _set(frame: CallFrame, target: ast.expr, value: Any, source: ast.expr) -> None:
    if isinstance(target, ast.Name):
        _name(frame, target.id, value)
    elif isinstance(target, ast.Subscript):
        reference = _place(frame, target)
        with frame.at(target, [*index_arguments(target, _index(reference)), (source, value)]):
            frame.builder.store(reference, value)
    elif isinstance(target, ast.Tuple | ast.List):
        if starred := [element for element in target.elts if isinstance(element, ast.Starred)]:
            raise frame.error(starred[0], UnsupportedError, "`*` cannot be used in a kernel")
        if not isinstance(value, tuple) or len(value) != len(target.elts):
            found = f"{len(value)}" if isinstance(value, tuple) else describe(value)
            message = f"expected {len(target.elts)} values, found {found}"
            raise frame.error(source, TypeMismatchError, message)
        for element, one in zip(target.elts, value, strict=True):
            _set(frame, element, one, source)
    else:
        raise frame.error(target, UnsupportedError, "this cannot be assigned to in a kernel", "Assign to a variable.")


def _name(frame: CallFrame, name: str, value: Any) -> None:
    """Give a variable its value; values in the IR are named after the first variable that they are assigned to."""
    if isinstance(value, Tile) and value.ssa.name_hint is None and name.isascii():
        value.ssa.name_hint = name
    frame.names[name] = value


def _place(frame: CallFrame, target: ast.Subscript) -> SubscriptReference:
    base = evaluate(frame, target.value)
    if not isinstance(base, AddressableValue):
        help = "A tile is not changed in place: `vk.where` makes a new one." if isinstance(base, Operand) else ""
        message = f"expected a tensor or a scratchpad to store into, found {describe(base)}"
        raise frame.error(target.value, TypeMismatchError, message, help)
    index = evaluate(frame, target.slice)
    return SubscriptReference(base, index if isinstance(index, tuple) else (index,))


def _index(reference: SubscriptReference) -> Any:
    return reference.index if len(reference.index) > 1 else reference.index[0] if reference.index else ()


def _augmented(frame: CallFrame, node: ast.AugAssign) -> None:
    if isinstance(node.target, ast.Name):
        old: Any = frame.lookup(node.target)
        new = evaluate(frame, node.value)
        _name(frame, node.target.id, binary(frame, node, node.op, (node.target, old), (node.value, new)))
        return
    if not isinstance(node.target, ast.Subscript):
        raise frame.error(node.target, UnsupportedError, "this cannot be assigned to in a kernel")
    reference = _place(frame, node.target)
    arguments = index_arguments(node.target, _index(reference))
    with frame.at(node.target, arguments):
        old = frame.builder.load(reference)
    new = evaluate(frame, node.value)
    value = binary(frame, node, node.op, (node.target, old), (node.value, new))
    with frame.at(node.target, [*arguments, (node.value, value)]):
        frame.builder.store(reference, value)


def _annotated(frame: CallFrame, node: ast.AnnAssign) -> None:
    if node.value is None:
        raise frame.error(node, UnsupportedError, "a variable needs a value in a kernel")
    _set(frame, node.target, _value(frame, node.value, node.target), node.value)


# Control.


def _if(frame: CallFrame, node: ast.If) -> Returned | None:
    test = evaluate(frame, node.test)
    if is_decided(frame, node.test, test):
        return execute(frame, node.body if test else node.orelse)
    branch(frame, node, test, lambda body: _run(frame, body))
    return None


def _for(frame: CallFrame, node: ast.For) -> Returned | None:
    result: Returned | None = for_loop(frame, node, lambda body: execute(frame, body))
    return result


def _while(frame: CallFrame, node: ast.While) -> None:
    while_loop(frame, node, lambda body: execute(frame, body))


def _run(frame: CallFrame, body: list[ast.stmt]) -> None:
    execute(frame, body)


def _return(frame: CallFrame, node: ast.Return) -> Returned:
    if frame.open:
        help = "Assign to a variable there, and return it at the end."
        raise frame.error(node, UnsupportedError, f"`return` cannot stand in {frame.open[-1]} that runs", help)
    if node.value is not None and not frame.callers:
        help = "It stores its results into tensors that it is given: `out[i, j] = …`."
        raise frame.error(node, UnsupportedError, "a kernel returns nothing", help)
    return Returned(None if node.value is None else evaluate(frame, node.value))


def _expression(frame: CallFrame, node: ast.Expr) -> None:
    evaluate(frame, node.value)


def _assert(frame: CallFrame, node: ast.Assert) -> None:
    test = evaluate(frame, node.test)
    if isinstance(test, Operand | AddressableValue):
        help = "What is computed while the kernel runs is checked with `vk.device_assert(condition, message)`."
        raise frame.error(node, UnsupportedError, "`assert` works on what is known when building", help)
    if not test:
        text = "" if node.msg is None else f": {evaluate(frame, node.msg)}"
        raise frame.error(node, SourceError, f"the assertion does not hold{text}")


def _pass(frame: CallFrame, node: ast.Pass) -> None:
    """Nothing."""


_HANDLERS: dict[type[ast.stmt], Callable[[CallFrame, Any], Returned | None]] = {
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.AnnAssign: _annotated,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.Return: _return,
    ast.Expr: _expression,
    ast.Assert: _assert,
    ast.Pass: _pass,
}

_HELPER = "Write a helper function outside, with `@vk.function`."

_UNSUPPORTED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.FunctionDef: ("a function definition", _HELPER),
    ast.AsyncFunctionDef: ("a function definition", _HELPER),
    ast.ClassDef: ("a class definition", "Define it outside."),
    ast.With: ("`with`", ""),
    ast.Try: ("`try`", "A kernel raises nothing while it runs."),
    ast.Raise: ("`raise`", "What must hold is checked with `vk.device_assert(condition, message)`."),
    ast.Delete: ("`del`", "A variable needs no end."),
    ast.Global: ("`global`", "A kernel changes nothing outside but the tensors that it is given."),
    ast.Nonlocal: ("`nonlocal`", "A kernel changes nothing outside but the tensors that it is given."),
    ast.Import: ("`import`", "Import at the top of the file."),
    ast.ImportFrom: ("`import`", "Import at the top of the file."),
    ast.Break: ("`break`", "Put the condition into a `while`, or skip the work with `vk.where`."),
    ast.Continue: ("`continue`", "Put what follows into an `if`."),
    ast.Match: ("`match`", "Use `if` and `elif`."),
}
