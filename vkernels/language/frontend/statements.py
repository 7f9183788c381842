"""Assignments, `return`, `assert` and expression statements in a kernel's text."""

from __future__ import annotations

import ast
from typing import Any

from vkernels.ir.errors import SourceError, TypeMismatchError, UnsupportedError

from ..operation import operation_names
from ..values import AddressableValue, ComplexTile, Operand, Tile
from .calls import call
from .describe import describe
from .expressions import binary
from .frame import CallFrame, Returned
from .subscripts import index_nodes, stored_place


def assign(frame: CallFrame, node: ast.Assign) -> None:
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
        value = call(frame, node, target.id if isinstance(target, ast.Name) else None)
        if value is None:
            _refuse_nothing(frame, node)
        return value
    return frame.evaluate(node)


def _refuse_nothing(frame: CallFrame, node: ast.Call) -> None:
    """Raise for the result of a call of an operation that gives none."""
    name = ast.unparse(node.func)
    if name.rsplit(".")[-1] not in operation_names() or name.rsplit(".")[-1] == name:
        return
    raise frame.error(node, TypeMismatchError, f"`{name}` gives no value")


def _set(frame: CallFrame, target: ast.expr, value: Any, source: ast.expr) -> None:
    if isinstance(target, ast.Name):
        _set_variable(frame, target.id, value)
    elif isinstance(target, ast.Subscript):
        reference = stored_place(frame, target)
        with frame.at(target, [*index_nodes(target, reference), (source, value)]):
            frame.builder.store(reference, value)
    elif isinstance(target, ast.Tuple | ast.List):
        if starred := [element for element in target.elts if isinstance(element, ast.Starred)]:
            raise frame.error(starred[0], UnsupportedError, "`*` cannot be used in a kernel")
        if not isinstance(value, tuple) or len(value) != len(target.elts):
            found = f"{len(value)}" if isinstance(value, tuple) else describe(value)
            raise frame.error(source, TypeMismatchError, f"expected {len(target.elts)} values, found {found}")
        for element, one in zip(target.elts, value, strict=True):
            _set(frame, element, one, source)
    else:
        raise frame.error(target, UnsupportedError, "this cannot be assigned to in a kernel", "Assign to a variable.")


def _set_variable(frame: CallFrame, name: str, value: Any) -> None:
    """Set a variable; an IR value gets the name of the first variable that it is assigned to."""
    if isinstance(value, Tile) and value.ssa.name_hint is None and name.isascii():
        value.ssa.name_hint = name
    if isinstance(value, ComplexTile):
        for part, label in zip(value.parts, ("real", "imag"), strict=True):
            if isinstance(part, Tile) and part.ssa.name_hint is None and name.isascii():
                part.ssa.name_hint = f"{name}_{label}"
    frame.names[name] = value


def augmented_assign(frame: CallFrame, node: ast.AugAssign) -> None:
    if isinstance(node.target, ast.Name):
        old: Any = frame.lookup(node.target)
        new = frame.evaluate(node.value)
        _set_variable(frame, node.target.id, binary(frame, node, node.op, (node.target, old), (node.value, new)))
        return
    if not isinstance(node.target, ast.Subscript):
        raise frame.error(node.target, UnsupportedError, "this cannot be assigned to in a kernel")
    reference = stored_place(frame, node.target)
    arguments = index_nodes(node.target, reference)
    with frame.at(node.target, arguments):
        old = frame.builder.load(reference)
    new = frame.evaluate(node.value)
    value = binary(frame, node, node.op, (node.target, old), (node.value, new))
    with frame.at(node.target, [*arguments, (node.value, value)]):
        frame.builder.store(reference, value)


def annotated_assign(frame: CallFrame, node: ast.AnnAssign) -> None:
    if node.value is None:
        raise frame.error(node, UnsupportedError, "a variable needs a value in a kernel")
    _set(frame, node.target, _value(frame, node.value, node.target), node.value)


def return_statement(frame: CallFrame, node: ast.Return) -> Returned:
    if frame.open:
        raise frame.error(
            node,
            UnsupportedError,
            f"`return` cannot stand in {frame.open[-1]} that runs",
            "Assign to a variable there, and return it at the end.",
        )
    if node.value is not None and not frame.callers:
        raise frame.error(
            node,
            UnsupportedError,
            "a kernel returns nothing",
            "It stores its results into tensors that it is given: `out[i, j] = …`.",
        )
    return Returned(None if node.value is None else frame.evaluate(node.value))


def expression_statement(frame: CallFrame, node: ast.Expr) -> None:
    frame.builder.statement = node.value
    frame.evaluate(node.value)


def assert_statement(frame: CallFrame, node: ast.Assert) -> None:
    test = frame.evaluate(node.test)
    if isinstance(test, Operand | AddressableValue):
        raise frame.error(
            node,
            UnsupportedError,
            "`assert` works on what is known when building",
            "Values computed while the kernel runs are checked with `vk.device_assert(condition, message)`.",
        )
    if not test:
        text = "" if node.msg is None else f": {frame.evaluate(node.msg)}"
        raise frame.error(node, SourceError, f"the assertion does not hold{text}")
