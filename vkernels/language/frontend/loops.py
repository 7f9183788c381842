"""Loops: `for` over `vk.range` becomes `vk.range` in the IR, other `for` loops are unrolled, `while` is `scf.while`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue

from vkernels.ir.dialect import RangeOp, YieldOp
from vkernels.ir.errors import AxisError, TypeMismatchError, UnsupportedError

from ..dtypes import int64
from ..values import Axis, ComplexTile, Range, Tile
from .branches import is_decided
from .describe import describe
from .frame import CallFrame, NoValue, Returned
from .unify import VariableShape, in_parts, is_same, joined_parts, shape_of, shaped, unify

Shapes = dict[str, VariableShape]
"""The shapes of the variables that a loop carries, by name."""

_ATTEMPTS = 8
"""How often a body is built, at most: each time some variables get more axes or another dtype."""

_MAX_UNROLLED = 4096


def for_loop(frame: CallFrame, node: ast.For) -> Returned | None:
    """Build a `for`: over `vk.range` a loop in the kernel, over values known while building unrolled."""
    if node.orelse:
        raise frame.error(node, UnsupportedError, "`else` of a loop cannot be used in a kernel")
    iterable = frame.evaluate(node.iter)
    if isinstance(iterable, Range):
        _range(frame, node, iterable)
        return None
    if isinstance(iterable, tuple | range | str):
        return _unrolled(frame, node, iterable)
    help = 'A sequential loop is `for k in vk.range("K")`.'
    if isinstance(iterable, Axis):
        help = f"A tile holds every position of `{iterable.name}` at once. {help}"
    raise frame.error(node.iter, TypeMismatchError, f"expected a range, found {describe(iterable)}", help)


def _unrolled(frame: CallFrame, node: ast.For, values: Sequence[Any]) -> Returned | None:
    if len(values) > _MAX_UNROLLED:
        raise frame.error(
            node.iter,
            UnsupportedError,
            f"{len(values)} steps are too many to unroll",
            "Use `vk.range` for a loop that runs in the kernel.",
        )
    for value in values:
        bind(frame, node.target, value)
        returned = frame.execute(node.body)
        if returned is not None:
            return returned
    return None


def bind(frame: CallFrame, target: ast.expr, value: Any) -> None:
    """Give the variables of an unrolled loop their values."""
    if isinstance(target, ast.Name):
        frame.names[target.id] = value
        return
    names = list(_target_names(target))
    if not isinstance(value, tuple) or len(names) != len(value):
        raise frame.error(target, TypeMismatchError, f"expected {len(names)} values, found {describe(value)}")
    frame.names.update(zip(names, value, strict=True))


def _range(frame: CallFrame, node: ast.For, range_: Range) -> None:
    if not isinstance(node.target, ast.Name):
        raise frame.error(node.target, UnsupportedError, "the variable of `vk.range` is one name")
    name = node.target.id
    if name in frame.builder.labels:
        raise frame.error(node.target, AxisError, f"`{name}` already names an axis or a scratchpad", "Choose another.")
    start, stop = range_.start, range_.stop
    axes = stop.axes

    def build(shapes: Shapes) -> tuple[Block, Block]:
        block = Block(arg_types=[stop.ssa.type, *(shape.type for shape in shapes.values())])
        block.args[0].name_hint = name
        frame.names[name] = Tile(block.args[0], int64, axes, not axes, covers=range_.covers)
        _assign(frame, shapes, block.args[1:])
        return block, block

    with _opened(frame, node):
        block, _, shapes, initial = _settle(frame, node, build, YieldOp, axes)
        with frame.at(node):
            op = RangeOp(name, start.ssa, stop.ssa, initial, Region(block))
            frame.builder.insert(op)
    _assign(frame, shapes, op.results)
    frame.names[name] = NoValue(f"It counted the loop in line {node.lineno}, which has ended.")


def while_loop(frame: CallFrame, node: ast.While) -> None:
    """Build a `while` on a scalar condition."""
    if node.orelse:
        raise frame.error(node, UnsupportedError, "`else` of a loop cannot be used in a kernel")
    builder = frame.builder

    def build(shapes: Shapes) -> tuple[Block, Block]:
        types = [shape.type for shape in shapes.values()]
        before, after = Block(arg_types=types), Block(arg_types=types)
        _assign(frame, shapes, before.args)
        with builder.inside(before):
            test = frame.evaluate(node.test)
            if is_decided(frame, node.test, test):
                raise frame.error(
                    node.test,
                    UnsupportedError,
                    "the condition does not change in the loop",
                    "A condition known when building never changes: use `if`, or `for` over a range.",
                )
            with frame.at(node.test):
                builder.insert(scf.ConditionOp(builder.condition(test).ssa, *before.args))
        _assign(frame, shapes, after.args)
        return before, after

    with _opened(frame, node):
        before, after, shapes, initial = _settle(frame, node, build, lambda values: scf.YieldOp(*values), ())
        with frame.at(node):
            types = [shape.type for shape in shapes.values()]
            op = scf.WhileOp(initial, types, Region(before), Region(after))
            builder.insert(op)
    _assign(frame, shapes, op.results)


@contextmanager
def _opened(frame: CallFrame, node: ast.For | ast.While) -> Iterator[None]:
    """Build a loop's body; names that it assigns and does not carry have no value after it, as it may not run."""
    before = dict(frame.names)
    frame.open.append("`while`" if isinstance(node, ast.While) else "`for`")
    yield
    frame.open.pop()
    why = f"It is assigned only in the loop in line {node.lineno}, which may make no step. Give it a value before."
    inner, frame.names = frame.names, before
    for name, value in inner.items():
        if name not in before or not is_same(before[name], value):
            frame.names[name] = NoValue(why)


def _settle(
    frame: CallFrame,
    node: ast.For | ast.While,
    build: Callable[[Shapes], tuple[Block, Block]],
    yield_: Callable[[list[SSAValue]], Operation],
    axes: tuple[Axis, ...],
) -> tuple[Block, Block, Shapes, list[SSAValue]]:
    """Build a loop's body until its variables have the same shapes at the beginning and the end.

    `build` makes the loop's first block and the block of its body. `axes`: axes that every carried variable must have.
    Returns these blocks, the shapes, and the variables' initial values in these shapes.
    """
    before = dict(frame.names)
    assigned = [name for name in _assigned_names(node.body) if name in before]
    owners = [name for name in assigned if not isinstance(before[name], NoValue)]
    carried = in_parts({name: before[name] for name in owners})
    found = {name: shape_of(frame.builder, value) for name, value in carried.items()}
    shapes = {name: _with_axes(shape, axes) for name, shape in found.items() if shape is not None}
    for _ in range(_ATTEMPTS):
        frame.names = dict(before)
        first, body = build(shapes)
        with frame.builder.inside(body):
            frame.execute(node.body)
            ends = in_parts({name: frame.names[name] for name in owners})
            _check_parts(frame, node, before, owners)
            _check_fixed(frame, node, {n: v for n, v in carried.items() if n not in shapes}, ends)
            grown = {name: _grown(frame, node, name, shapes[name], ends[name]) for name in shapes}
            if grown == shapes:
                with frame.at(node):
                    values = [shaped(frame.builder, ends[name], shape).ssa for name, shape in shapes.items()]
                    frame.builder.insert(yield_(values))
                break
        for block in {first, body}:
            block.drop_all_references()
        shapes = grown
    else:
        raise frame.error(node, UnsupportedError, "the types of the loop's variables do not settle")
    with frame.at(node):
        initial = [shaped(frame.builder, carried[name], shape).ssa for name, shape in shapes.items()]
    return first, body, shapes, initial


def _check_parts(frame: CallFrame, node: ast.For | ast.While, before: Mapping[str, Any], owners: Sequence[str]) -> None:
    """Raise for a real variable that becomes complex in a loop, or the reverse."""
    for name in owners:
        first, last = before[name], frame.names[name]
        if isinstance(first, ComplexTile) != isinstance(last, ComplexTile):
            raise frame.error(
                _assignment(node, name),
                TypeMismatchError,
                f"`{name}` changes its type in the loop: it begins as {describe(first)}, and becomes {describe(last)}",
                f"Begin with that type, as in `{name} = vk.zeros(…, vk.complex64)`.",
            )


def _with_axes(shape: VariableShape, axes: tuple[Axis, ...]) -> VariableShape:
    missing = tuple(axis for axis in axes if axis not in shape.axes)
    if not missing:
        return shape
    return VariableShape(shape.dtype, (*axes, *(a for a in shape.axes if a not in axes)), shape.weak)


def _grown(frame: CallFrame, node: ast.For | ast.While, name: str, shape: VariableShape, end: Any) -> VariableShape:
    """The shape that holds a variable's values at the beginning and at the end of a step."""
    last = shape_of(frame.builder, end)
    grown = None if last is None else unify(shape, last)
    if grown is None:
        found = describe(end) if last is None else str(last)
        raise frame.error(
            _assignment(node, name),
            TypeMismatchError,
            f"`{name}` changes its type in the loop: it begins as {shape}, and becomes {found}",
            f"Begin with that type, as in `{name} = vk.zeros(…)`, or convert in the loop: `.to({shape.dtype!r})`.",
        )
    return VariableShape(grown.dtype, shape.axes, grown.weak) if set(grown.axes) == set(shape.axes) else grown


def _check_fixed(frame: CallFrame, node: ast.For | ast.While, fixed: dict[str, Any], ends: dict[str, Any]) -> None:
    for name, value in fixed.items():
        if not is_same(value, ends[name]):
            raise frame.error(
                _assignment(node, name),
                TypeMismatchError,
                f"`{name}` is {describe(value)} before the loop, and becomes {describe(ends[name])}",
                "Only numbers and tiles change in a loop. Choose another name.",
            )


def _assignment(node: ast.For | ast.While, name: str) -> ast.AST:
    found: ast.AST = node
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assign | ast.AugAssign | ast.AnnAssign) and name in _assigned_names([inner]):
            found = inner
    return found


def _assign(frame: CallFrame, shapes: Shapes, values: Iterable[SSAValue]) -> None:
    found = {}
    for (name, shape), value in zip(shapes.items(), values, strict=True):
        value.name_hint = name.replace(".", "_")
        found[name] = shape.tile(value)
    frame.names.update(joined_parts(found))


def _assigned_names(statements: Iterable[ast.stmt]) -> list[str]:
    """The names that statements assign, in order and without repetition, without the variables of `for`."""
    names: dict[str, None] = {}
    for statement in statements:
        names.update(dict.fromkeys(_assigned(statement)))
    return list(names)


def _assigned(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _target_names(target)
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        yield from _target_names(statement.target)
    elif isinstance(statement, ast.For | ast.While | ast.If):
        yield from _assigned_names(statement.body)
        yield from _assigned_names(statement.orelse)


def _target_names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _target_names(element)
