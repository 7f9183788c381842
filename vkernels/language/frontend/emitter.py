"""Where operations go: blocks, locations, and what is emitted once and used again."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import FileLineColLoc, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from vkernels.ir.dialect import SizeOp, arith
from vkernels.ir.errors import UnknownNameError

from ..current import Mistake
from ..dtypes import int64
from ..values import Tile
from .types import number_attribute

if TYPE_CHECKING:
    from .frame import CallFrame


class LocatedEmitter:
    """Appends operations to the innermost open block, each with the location of the author's expression.

    Constants and converted scalars are emitted once a block and found again from blocks inside it; sizes and axes
    stand in the kernel's own block, whatever is open.
    """

    def __init__(self, top: Block, sizes: Sequence[str]):
        self.location: FileLineColLoc | None = None
        self.sites: dict[FileLineColLoc, tuple[CallFrame, ast.AST]] = {}
        """The calls and syntax nodes that locations came of."""
        self.known_sizes = tuple(sizes)
        self._blocks = [top]
        self._found: list[dict[object, SSAValue]] = [{}]
        self._sizes: dict[str, Tile] = {}

    @property
    def block(self) -> Block:
        """The innermost open block."""
        return self._blocks[-1]

    @property
    def is_nested(self) -> bool:
        """Whether a loop or branch is open."""
        return len(self._blocks) > 1

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Append to another block for a while."""
        self._blocks.append(block)
        self._found.append({})
        try:
            yield block
        finally:
            self._blocks.pop()
            self._found.pop()

    def insert(self, op: Operation) -> Operation:
        """Append an operation."""
        if self.location is not None:
            op.location = self.location
        self._blocks[-1].add_op(op)
        return op

    def result(self, op: Operation) -> SSAValue:
        """Append an operation with one result, and give that."""
        return self.insert(op).results[0]

    def insert_at_top(self, op: Operation) -> Operation:
        """Append an operation to the kernel's own block, before the loops and branches that are open."""
        if self.location is not None:
            op.location = self.location
        self._blocks[0].add_op(op)
        return op

    def once(self, key: Any, op: Callable[[], Operation]) -> SSAValue:
        """The result of the operation that `op()` makes, or of one made before for the same key and still in reach."""
        for found in reversed(self._found):
            if key in found:
                return found[key]
        value = self.result(op())
        self._found[-1][key] = value
        return value

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
        """A size of the call, by name. Sizes that the author left unnamed begin with `_`."""
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


def listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    """`a`, `b` and `c`."""
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}" if quoted else "nothing"
