"""Run a kernel as Python code with its author's file and line numbers, so that Python's debugger can follow.

The kernel's operations become a Python function whose statements stand at their author's lines: a call that interprets
the operations of one line and names their values, or a `for` over the turns of an operation with a body. Breakpoints,
stepping, conditions and `print(row)` then work as in any Python code.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.interpreter import PythonValues
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ..dialect import KernelOp, MappedOp, YieldOp
from ..locations import place_of
from .memory import ElementMemory
from .numbers import from_storage
from .state import TileInterpreter
from .structure import has_turns, turns_of

_RUN, _TURNS, _REGION = "__run__", "__turns__", "__region__"


def run_traced(interpreter: TileInterpreter, function: KernelOp | MappedOp, values: PythonValues) -> None:
    """Interpret a kernel through Python code at its author's lines."""
    interpreter.set_values(zip(function.body.block.args, values, strict=True))
    steps = _Steps(interpreter)
    file, line = _origin(function)
    code = compile(_Writer(steps, file, line).module(function), file, "exec")
    names: dict[str, Any] = {_RUN: steps.run, _TURNS: steps.turns}
    exec(code, names)
    kernel: Callable[..., None] = names[_kernel_name(function)]
    kernel(*map(_shown, values))


class _Steps:
    """The functions that the statements call, each with the number of a group of operations."""

    def __init__(self, interpreter: TileInterpreter):
        self.interpreter = interpreter
        self.groups: list[tuple[list[Operation], list[SSAValue]]] = []

    def add(self, ops: list[Operation], named: list[SSAValue]) -> int:
        """Add a group of operations and the values that it returns; returns the group's number."""
        self.groups.append((ops, named))
        return len(self.groups) - 1

    def run(self, number: int) -> PythonValues:
        """Interpret the operations of a group."""
        ops, named = self.groups[number]
        for op in ops:
            results = self.interpreter.run_op(op, self.interpreter.get_values(op.operands))
            self.interpreter.set_values(zip(op.results, results, strict=True))
        return self._values(named)

    def turns(self, number: int) -> Generator[tuple[int, PythonValues]]:
        """For each turn of an operation, the number of the region to run and the values of its arguments."""
        (op,), _ = self.groups[number]
        turns = turns_of(self.interpreter, op, self.interpreter.get_values(op.operands))
        try:
            turn = next(turns)
            while True:
                block = turn.region.block
                self.interpreter.push_scope(op.name)
                self.interpreter.set_values(zip(block.args, turn.arguments, strict=True))
                yield op.regions.index(turn.region), self._values(block.args)
                last = block.last_op
                yielded = self.interpreter.get_values(last.operands) if _is_terminator(last) and last else ()
                self.interpreter.pop_scope()
                turn = turns.send(yielded)
        except StopIteration as stop:
            self.interpreter.set_values(zip(op.results, stop.value, strict=True))

    def _values(self, values: Iterable[SSAValue]) -> PythonValues:
        return tuple(map(_shown, self.interpreter.get_values(values)))


class _Writer:
    def __init__(self, steps: _Steps, file: str, line: int):
        self.steps, self.file, self.line = steps, file, line

    def module(self, function: KernelOp | MappedOp) -> ast.Module:
        block = function.body.block
        parameters = [p.data for p in function.parameters]
        arguments = [ast.arg(_name(p) or f"_{n}") for n, p in enumerate(parameters)]
        definition = ast.FunctionDef(
            name=_kernel_name(function),
            args=ast.arguments([], arguments, None, [], [], None, []),
            body=self.block(block),
            decorator_list=[],
        )
        self.line = _origin(function)[1]
        return ast.fix_missing_locations(ast.Module([self._at(definition)], []))

    def block(self, block: Block) -> list[ast.stmt]:
        """A block's statements: one for the operations of a line, several for an operation with a body."""
        statements: list[ast.stmt] = []
        group: list[Operation] = []
        for op in block.ops:
            line = self._line_of(op)
            if group and (line != self.line or has_turns(op) or _is_terminator(op)):
                statements.append(self._step(group))
                group = []
            self.line = line
            if has_turns(op):
                statements += self._turns(op)
            elif not _is_terminator(op):
                group.append(op)
        if group:
            statements.append(self._step(group))
        return statements or [self._at(ast.Pass())]

    def _step(self, group: list[Operation]) -> ast.stmt:
        """`row, total = __run__(3)`."""
        named = _named(result for op in group for result in op.results)
        return self._assign(named, group)

    def _turns(self, op: Operation) -> list[ast.stmt]:
        """`for __region__, (k, total) in __turns__(4): ...`, then `total = __run__(5)`."""
        line = self.line
        number = self.steps.add([op], [])
        bodies = [(region.block.args, self.block(region.block)) for region in op.regions if region.blocks]
        self.line = line
        if len(bodies) == 1:
            ((arguments, body),) = bodies
            target: ast.expr = ast.Tuple([_stored(_REGION), _targets(arguments)], ast.Store())
        else:
            target = ast.Tuple([_stored(_REGION), _stored("__values__")], ast.Store())
            body = [self._choice(bodies)]
        loop = self._at(ast.For(target, _call(_TURNS, number), body, []))
        return [loop, self._assign(_named(op.results), [])]

    def _choice(self, bodies: Sequence[tuple[Iterable[BlockArgument], list[ast.stmt]]]) -> ast.stmt:
        """The first region's body or the second's."""
        unpacked = [
            [self._at(ast.Assign([_targets(arguments)], ast.Name("__values__", ast.Load()))), *body]
            for arguments, body in bodies
        ]
        second = ast.Compare(ast.Name(_REGION, ast.Load()), [ast.Eq()], [ast.Constant(1)])
        return self._at(ast.If(second, unpacked[1], unpacked[0]))

    def _assign(self, named: dict[str, SSAValue], group: list[Operation]) -> ast.stmt:
        call = _call(_RUN, self.steps.add(group, list(named.values())))
        if not named:
            return self._at(ast.Expr(call))
        return self._at(ast.Assign([ast.Tuple([_stored(name) for name in named], ast.Store())], call))

    def _at(self, statement: ast.stmt) -> ast.stmt:
        statement.lineno = statement.end_lineno = self.line
        statement.col_offset = statement.end_col_offset = 0
        return statement

    def _line_of(self, op: Operation) -> int:
        """An operation's line, or the line before it if it has none in this file."""
        place = place_of(op)
        return place.line if place is not None and place.file == self.file else self.line


def _origin(function: KernelOp | MappedOp) -> tuple[str, int]:
    """File and line of a kernel, or of its first operation that has them."""
    for op in (function, *function.body.walk()):
        if (place := place_of(op)) is not None:
            return place.file, place.line
    return f"<{function.sym_name.data}>", 1


def _kernel_name(function: KernelOp | MappedOp) -> str:
    return _name(function.sym_name.data) or "kernel"


def _named(values: Iterable[SSAValue]) -> dict[str, SSAValue]:
    """Values by the names that their author gave them; the last one where a name repeats."""
    return {name: value for value in values if (name := _name(value.name_hint or ""))}


def _name(text: str) -> str:
    """A name that Python code can have, or none."""
    return text if text.isidentifier() and not keyword.iskeyword(text) else ""


def _targets(arguments: Iterable[BlockArgument]) -> ast.expr:
    return ast.Tuple([_stored(_name(a.name_hint or "") or "_") for a in arguments], ast.Store())


def _stored(name: str) -> ast.expr:
    return ast.Name(name, ast.Store())


def _call(function: str, number: int) -> ast.expr:
    return ast.Call(ast.Name(function, ast.Load()), [ast.Constant(number)], [])


def _is_terminator(op: Operation | None) -> bool:
    return isinstance(op, YieldOp | scf.YieldOp | scf.ConditionOp)


def _shown(value: Any) -> Any:
    """A value as a debugger shows it: an array or a number; the elements of memory."""
    return from_storage(value.array, value.element) if isinstance(value, ElementMemory) else value
