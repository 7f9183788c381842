"""Loops: `for` over a range is `vk.range`, over what is known when building unrolled; `while` is `scf.while`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Region

from vkernels.ir.dialect import RangeOp, YieldOp
from vkernels.ir.errors import AxisError, TypeMismatchError, UnsupportedError

from ..dtypes import int64
from ..values import Axis, Range, Tile
from .branches import is_decided
from .describe import describe
from .expressions import evaluate
from .frame import CallFrame, Gone
from .names import assigned_names, target_names
from .unify import VariableShape, is_same, shape_of, shaped, unify

Run = Callable[[list[ast.stmt]], Any]

_ATTEMPTS = 8
"""How often a body is built until its variables' shapes settle: each time some grow axes or take a dtype."""

_MAX_UNROLLED = 4096


def for_loop(frame: CallFrame, node: ast.For, run: Run) -> Any:
    """Build a `for`. `run` builds statements; what it returns ends an unrolled loop."""
    if node.orelse:
        raise frame.error(node, UnsupportedError, "`else` of a loop cannot be used in a kernel")
    iterable = evaluate(frame, node.iter)
    if isinstance(iterable, Range):
        return _range(frame, node, iterable, run)
    if isinstance(iterable, tuple | range | str):
        return _unrolled(frame, node, list(iterable), run)
    help = 'A sequential loop is `for k in vk.range("K")`.'
    if isinstance(iterable, Axis):
        help = f"A tile holds every position of `{iterable.name}` at once. {help}"
    raise frame.error(node.iter, TypeMismatchError, f"expected a range, found {describe(iterable)}", help)


def _unrolled(frame: CallFrame, node: ast.For, values: list[Any], run: Run) -> Any:
    if len(values) > _MAX_UNROLLED:
        help = "Use `vk.range` for a loop that runs in the kernel."
        raise frame.error(node.iter, UnsupportedError, f"{len(values)} steps are too many to unroll", help)
    for value in values:
        bind(frame, node.target, value)
        signal = run(node.body)
        if signal is not None:
            return signal
    return None


def bind(frame: CallFrame, target: ast.expr, value: Any) -> None:
    """Give a loop's variable, or several, a value known when building."""
    if isinstance(target, ast.Name):
        frame.names[target.id] = value
        return
    names = list(target_names(target))
    if not isinstance(value, tuple) or len(names) != len(value):
        raise frame.error(target, TypeMismatchError, f"expected {len(names)} values, found {describe(value)}")
    frame.names.update(zip(names, value, strict=True))


def _range(frame: CallFrame, node: ast.For, range_: Range, run: Run) -> None:
    if not isinstance(node.target, ast.Name):
        raise frame.error(node.target, UnsupportedError, "the variable of `vk.range` is one name")
    name = node.target.id
    if name in frame.builder.labels:
        raise frame.error(node.target, AxisError, f"`{name}` already names an axis or a scratchpad", "Choose another.")
    start, stop = range_.start, range_.stop
    axes = stop.axes

    def build(shapes: dict[str, VariableShape]) -> Block:
        block = Block(arg_types=[stop.ssa.type, *(shape.type for shape in shapes.values())])
        block.args[0].name_hint = name
        frame.names[name] = Tile(block.args[0], int64, axes, not axes, covers=range_.covers)
        _enter(frame, shapes, block.args[1:])
        return block

    def body(block: Block) -> None:
        run(node.body)

    with _opened(frame, node):
        block, shapes, initial = _settle(frame, node, build, body, YieldOp, axes)
        with frame.at(node):
            op = RangeOp(name, start.ssa, stop.ssa, [tile.ssa for tile in initial], Region(block))
            frame.builder.insert(op)
    _leave(frame, node, shapes, op.results)
    frame.names[name] = Gone(f"It counted the loop in line {node.lineno}, which has ended.")


def while_loop(frame: CallFrame, node: ast.While, run: Run) -> None:
    """Build a `while` on a scalar condition."""
    if node.orelse:
        raise frame.error(node, UnsupportedError, "`else` of a loop cannot be used in a kernel")
    builder = frame.builder
    after: list[Block] = []

    def build(shapes: dict[str, VariableShape]) -> Block:
        types = [shape.type for shape in shapes.values()]
        before = Block(arg_types=types)
        after[:] = [Block(arg_types=types)]
        _enter(frame, shapes, before.args)
        with builder.inside(before):
            test = evaluate(frame, node.test)
            if is_decided(frame, node.test, test):
                help = "A condition known when building never changes: use `if`, or `for` over a range."
                raise frame.error(node.test, UnsupportedError, "the condition does not change in the loop", help)
            with frame.at(node.test):
                condition = builder.condition(test).ssa
                assert condition.type == i1
                builder.insert(scf.ConditionOp(condition, *before.args))
        _enter(frame, shapes, after[0].args)
        return before

    def body(block: Block) -> None:
        run(node.body)

    with _opened(frame, node):
        before, shapes, initial = _settle(frame, node, build, body, lambda values: scf.YieldOp(*values), (), after)
        with frame.at(node):
            types = [shape.type for shape in shapes.values()]
            op = scf.WhileOp([tile.ssa for tile in initial], types, Region(before), Region(after[0]))
            builder.insert(op)
    _leave(frame, node, shapes, op.results)


@contextmanager
def _opened(frame: CallFrame, node: ast.For | ast.While) -> Iterator[None]:
    """Statements inside belong to a loop; what they do to names is undone afterwards."""
    before = dict(frame.names)
    frame.open.append("`while`" if isinstance(node, ast.While) else "`for`")
    yield
    frame.open.pop()
    _forget(frame, node, before)


def _settle(
    frame: CallFrame,
    node: ast.For | ast.While,
    build: Callable[[dict[str, VariableShape]], Block],
    body: Callable[[Block], None],
    yield_: Callable[[list[Any]], Any],
    axes: tuple[Axis, ...],
    blocks: list[Block] | None = None,
) -> tuple[Block, dict[str, VariableShape], list[Tile]]:
    """Build a loop's body until the shapes of what it carries are the same at its beginning and end.

    `axes`: axes that everything carried must have. `blocks`: where the body goes, if not into the block that `build`
    gives. Returns that block, the shapes, and the initial values in them.
    """
    before = dict(frame.names)
    assigned = [name for name in assigned_names(node.body) if name in before]
    carried = {name: before[name] for name in assigned if not isinstance(before[name], Gone)}
    found = {name: shape_of(frame.builder, value) for name, value in carried.items()}
    shapes = {name: _with_axes(shape, axes) for name, shape in found.items() if shape is not None}
    for _ in range(_ATTEMPTS):
        frame.names = dict(before)
        block = build(shapes)
        inner = blocks[0] if blocks else block
        with frame.builder.inside(inner):
            body(inner)
            ends = {name: frame.names[name] for name in carried}
            _check_fixed(frame, node, {n: v for n, v in carried.items() if n not in shapes}, ends)
            grown = {name: _grown(frame, node, name, shapes[name], ends[name]) for name in shapes}
            if grown == shapes:
                with frame.at(node):
                    values = [shaped(frame.builder, ends[name], shape).ssa for name, shape in shapes.items()]
                    frame.builder.insert(yield_(values))
                break
        for made in {block, inner}:
            made.drop_all_references()
        shapes = grown
    else:
        raise frame.error(node, UnsupportedError, "the types of the loop's variables do not settle")
    with frame.at(node):
        initial = [shaped(frame.builder, carried[name], shape) for name, shape in shapes.items()]
    return block, shapes, initial


def _with_axes(shape: VariableShape, axes: tuple[Axis, ...]) -> VariableShape:
    missing = tuple(axis for axis in axes if axis not in shape.axes)
    if not missing:
        return shape
    return VariableShape(shape.dtype, (*axes, *(a for a in shape.axes if a not in axes)), shape.weak)


def _grown(frame: CallFrame, node: ast.For | ast.While, name: str, shape: VariableShape, end: Any) -> VariableShape:
    """The shape that holds both what a variable has at the beginning of a step and at its end."""
    last = shape_of(frame.builder, end)
    grown = None if last is None else unify(shape, last)
    if grown is None:
        found = describe(end) if last is None else str(last)
        help = f"Begin with that type, as in `{name} = vk.zeros(…)`, or convert in the loop: `.to({shape.dtype!r})`."
        message = f"`{name}` changes its type in the loop: it begins as {shape}, and becomes {found}"
        raise frame.error(_assignment(node, name), TypeMismatchError, message, help)
    return VariableShape(grown.dtype, shape.axes, grown.weak) if set(grown.axes) == set(shape.axes) else grown


def _check_fixed(frame: CallFrame, node: ast.For | ast.While, fixed: dict[str, Any], ends: dict[str, Any]) -> None:
    for name, value in fixed.items():
        if not is_same(value, ends[name]):
            message = f"`{name}` is {describe(value)} before the loop, and becomes {describe(ends[name])}"
            help = "Only numbers and tiles change in a loop. Choose another name."
            raise frame.error(_assignment(node, name), TypeMismatchError, message, help)


def _assignment(node: ast.For | ast.While, name: str) -> ast.AST:
    """The last place in a loop's body where a variable is assigned."""
    found: ast.AST = node
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assign | ast.AugAssign | ast.AnnAssign) and name in assigned_names([inner]):
            found = inner
    return found


def _enter(frame: CallFrame, shapes: dict[str, VariableShape], arguments: Any) -> None:
    for (name, shape), argument in zip(shapes.items(), arguments, strict=True):
        argument.name_hint = name
        frame.names[name] = Tile(argument, shape.dtype, shape.axes, shape.weak)


def _leave(frame: CallFrame, node: ast.For | ast.While, shapes: dict[str, VariableShape], results: Any) -> None:
    for (name, shape), result in zip(shapes.items(), results, strict=True):
        result.name_hint = name
        frame.names[name] = Tile(result, shape.dtype, shape.axes, shape.weak)


def _forget(frame: CallFrame, node: ast.For | ast.While, before: dict[str, Any]) -> None:
    """Names that a body gives values and does not carry have none after it: the loop may not have run."""
    why = f"It is assigned only in the loop in line {node.lineno}, which may make no step. Give it a value before."
    inner, frame.names = frame.names, before
    for name, value in inner.items():
        if name not in before or not is_same(before[name], value):
            frame.names[name] = Gone(why)
