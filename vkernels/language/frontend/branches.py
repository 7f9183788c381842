"""`if`: decided while building if the condition is known then, else `scf.if` on a scalar."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Region

from vkernels.ir.errors import TypeMismatchError

from ..values import AddressableValue, Operand, Tile
from .describe import describe
from .frame import CallFrame, NoValue, Returned
from .unify import VariableShape, in_parts, is_same, joined_parts, shape_of, shaped, unify


def is_decided(frame: CallFrame, node: ast.expr, value: Any) -> bool:
    """Whether a condition is known while building. Raises if it is neither known nor a scalar."""
    if isinstance(value, Tile) and not value.axes:
        return False
    if isinstance(value, Operand):
        raise frame.error(
            node,
            TypeMismatchError,
            f"a condition of `if` and `while` is one scalar, found {describe(value)}",
            "Every position decides for itself: `vk.where(condition, a, b)`.",
        )
    if isinstance(value, AddressableValue):
        raise frame.error(node, TypeMismatchError, f"expected a condition, found {describe(value)}")
    return True


def conditional(frame: CallFrame, node: ast.IfExp) -> Any:
    """The value of `a if test else b`."""
    test = frame.evaluate(node.test)
    if is_decided(frame, node.test, test):
        return frame.evaluate(node.body if test else node.orelse)
    blocks = Block(), Block()
    values = []
    for block, branch in zip(blocks, (node.body, node.orelse), strict=True):
        with frame.builder.inside(block):
            values.append(frame.evaluate(branch))
    parts = [in_parts({"": value}) for value in values]
    shapes = [_common(frame, *pair) for pair in zip(*(part.values() for part in parts))]  # noqa: B905 (checked below)
    known = [shape for shape in shapes if shape is not None]
    if parts[0].keys() != parts[1].keys() or len(known) < len(parts[0]):
        raise frame.error(
            node,
            TypeMismatchError,
            f"the two values do not go together: {describe(values[0])}, {describe(values[1])}",
            "Convert one: `.to(…)`.",
        )
    tiles = _emit(frame, node, test, blocks, known, [[*part.values()] for part in parts])
    return joined_parts(dict(zip(parts[0], tiles, strict=True)))[""]


def if_statement(frame: CallFrame, node: ast.If) -> Returned | None:
    """Build one branch if the condition is known, else both; variables take their values from the one that runs."""
    test = frame.evaluate(node.test)
    if is_decided(frame, node.test, test):
        return frame.execute(node.body if test else node.orelse)
    before = frame.names
    blocks, names = (Block(), Block()), []
    frame.open.append("`if`")
    for block, body in zip(blocks, (node.body, node.orelse), strict=True):
        frame.names = dict(before)
        with frame.builder.inside(block):
            frame.execute(body)
        names.append(frame.names)
    frame.open.pop()
    frame.names = before
    results: dict[str, VariableShape] = {}
    changed = [name for name in dict.fromkeys([*names[0], *names[1]]) if not _is_kept(name, before, names)]
    parts = [in_parts({name: each[name] for name in changed if name in each}) for each in names]
    for name in dict.fromkeys([*parts[0], *parts[1]]):
        outcome = _merged(frame, node, name, parts)
        if isinstance(outcome, VariableShape):
            results[name] = outcome
        else:
            frame.names[name.partition(".")[0]] = outcome
    values = [[branch_parts[name] for name in results] for branch_parts in parts]
    tiles = dict(zip(results, _emit(frame, node, test, blocks, list(results.values()), values), strict=True))
    for name, tile in tiles.items():
        tile.ssa.name_hint = name.replace(".", "_")
    frame.names.update(joined_parts(tiles))
    return None


def _is_kept(name: str, before: Mapping[str, Any], names: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a variable is in both branches what it was before."""
    return name in before and all(each.get(name) is before[name] for each in names)


def _merged(frame: CallFrame, node: ast.If, name: str, names: list[dict[str, Any]]) -> Any:
    """A variable after both branches: a shape to compute, or the value that both agree on."""
    for branch_names in names:
        if name not in branch_names or isinstance(branch_names[name], NoValue):
            return NoValue(f"Only one branch of the `if` in line {node.lineno} assigns it; give it a value before.")
    first, second = names[0][name], names[1][name]
    shape = _common(frame, first, second)
    if shape is not None:
        return shape
    if not isinstance(first, Operand) and is_same(first, second):
        return first
    raise frame.error(
        node.test,
        TypeMismatchError,
        f"`{name}` differs between the branches: {describe(first)}, {describe(second)}",
        "A variable has one type, whichever branch runs.",
    )


def _common(frame: CallFrame, first: Any, second: Any) -> VariableShape | None:
    a, b = shape_of(frame.builder, first), shape_of(frame.builder, second)
    return None if a is None or b is None else unify(a, b)


def _emit(
    frame: CallFrame,
    node: ast.AST,
    test: Tile,
    blocks: tuple[Block, Block],
    shapes: list[VariableShape],
    values: list[list[Any]],
) -> list[Tile]:
    builder = frame.builder
    with frame.at(node):
        for block, results in zip(blocks, values, strict=True):
            with builder.inside(block):
                yielded = [shaped(builder, value, shape).ssa for value, shape in zip(results, shapes, strict=True)]
                builder.insert(scf.YieldOp(*yielded))
        condition = builder.condition(test).ssa
        op = scf.IfOp(condition, [shape.type for shape in shapes], Region(blocks[0]), Region(blocks[1]))
        builder.insert(op)
    return [shape.tile(ssa) for ssa, shape in zip(op.results, shapes, strict=True)]
