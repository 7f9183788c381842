"""Emit operations into blocks, with locations; constants, conversions and sizes are emitted once and reused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from vkernels.ir.dialect import SizeOp, arith
from vkernels.ir.errors import UnknownNameError

from ..dtypes import int64
from ..operation import Mistake
from ..values import Tile
from .types import number_attribute


class LocatedEmitter:
    """Appends operations to the innermost open block, each with the location of the author's expression.

    Constants and converted scalars are emitted once a block and reused in blocks inside it. Sizes and axes are emitted
    into the kernel's own block.
    """

    def __init__(self, top: Block, sizes: Sequence[str]):
        self.location: FileLineColLoc | None = None
        self.known_sizes = tuple(sizes)
        self._blocks = [top]
        self._found: list[dict[object, SSAValue]] = [{}]
        self._sizes: dict[str, Tile] = {}

    @property
    def is_nested(self) -> bool:
        """Whether a loop or branch is open."""
        return len(self._blocks) > 1

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Append to another block within a `with`."""
        self._blocks.append(block)
        self._found.append({})
        try:
            yield block
        finally:
            self._blocks.pop()
            self._found.pop()

    @contextmanager
    def apart(self, block: Block) -> Iterator[Block]:
        """Append to another block within a `with`, which reuses no constant from outside."""
        outside, self._found = self._found, [{}]
        self._blocks.append(block)
        try:
            yield block
        finally:
            self._blocks.pop()
            self._found = outside

    def insert(self, op: Operation) -> Operation:
        """Append an operation."""
        return self._insert_into(self._blocks[-1], op)

    def insert_at_top(self, op: Operation) -> Operation:
        """Append an operation to the kernel's own block, before open loops and branches."""
        return self._insert_into(self._blocks[0], op)

    def _insert_into(self, block: Block, op: Operation) -> Operation:
        if self.location is not None:
            op.location = self.location
        block.add_op(op)
        return op

    def result(self, op: Operation) -> SSAValue:
        """Append an operation with one result, and return the result."""
        return self.insert(op).results[0]

    def once(self, key: Any, op: Callable[[], Operation]) -> SSAValue:
        """The result of the operation that `op()` creates, or of an earlier one for the same key in an open block."""
        for found in reversed(self._found):
            if key in found:
                return found[key]
        return self._found[-1].setdefault(key, self.result(op()))

    def constant(self, value: float | int | bool, element: Attribute) -> SSAValue:
        """A scalar constant."""
        attribute = number_attribute(value, element)
        return self.once(attribute, lambda: arith.ConstantOp(attribute))

    def constant_at_top(self, value: int) -> SSAValue:
        """A constant i64 in the kernel's own block."""
        attribute = number_attribute(value, i64)
        found = self._found[0]
        if attribute not in found:
            found[attribute] = self.insert_at_top(arith.ConstantOp(attribute)).results[0]
        return found[attribute]

    def size(self, name: str) -> Tile:
        """A size of the call, by name. Names of unnamed sizes begin with `_`."""
        if name not in self._sizes:
            if name not in self.known_sizes and not name.startswith("_"):
                raise Mistake(UnknownNameError, f'no tensor has a size named "{name}"', self._sizes_help(name), name)
            value = self.insert_at_top(SizeOp(name)).results[0]
            value.name_hint = name
            self._sizes[name] = Tile(value, int64, weak=True, size=name)
        return self._sizes[name]

    def _sizes_help(self, name: str) -> str:
        if not self.known_sizes:
            return 'Sizes are named in annotations: `x: Float[vk.Tensor, "M N"]` names M and N.'
        close = get_close_matches(name, self.known_sizes, 1, 0.4)
        meant = f' Did you mean "{close[0]}"?' if close else ""
        return f"The parameters' annotations name {listed(self.known_sizes)}.{meant}"


def listed(names: Iterable[object]) -> str:
    """Names in a sentence: `a`, `b` and `c`."""
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}" if quoted else "nothing"
