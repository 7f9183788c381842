"""TTIR built operation by operation: where the next one goes, its source location, and no pure one twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    TensorType,
    UnknownLoc,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from vkernels.ir.dialect import arith, tt

from .lowered import ARITHMETIC

Number = int | SSAValue
"""An integer: known while compiling, or the scalar value that holds it."""

_Key = tuple[object, ...]


class TtirBuilder:
    """The body of one function. A pure operation like one that is visible already is not built again.

    Constants, and operations on nothing but constants, go to the function's entry.
    """

    def __init__(self, entry: Block):
        self.location: LocationAttr = UnknownLoc()
        self._block = entry
        self.constants: list[Operation] = []
        self._scopes: list[dict[_Key, SSAValue]] = [{}]
        self._known: dict[SSAValue, int] = {}

    def add(self, op: Operation) -> None:
        """Put an operation at the end."""
        op.location = self.location
        self._block.add_op(op)

    def result(self, op: Operation) -> SSAValue:
        """Put an operation of one result at the end."""
        self.add(op)
        return op.results[0]

    def pure(self, op: Operation) -> SSAValue:
        """The result of an operation without side effects, put at the end unless there is one like it."""
        key = _key(op)
        for scope in reversed(self._scopes):
            if (found := scope.get(key)) is not None:
                op.erase()
                return found
        result = self._scopes[-1][key] = self.result(op)
        return result

    def constant(self, op: Operation) -> SSAValue:
        """The result of an operation on nothing but constants, in the function's entry."""
        key = _key(op)
        if (found := self._scopes[0].get(key)) is not None:
            op.erase()
            return found
        op.location = self.location
        self.constants.append(op)
        result = self._scopes[0][key] = op.results[0]
        return result

    def finish(self, entry: Block) -> None:
        """Put the constants where they belong."""
        if entry.first_op is None:
            entry.add_ops(self.constants)
        else:
            entry.insert_ops_before(self.constants, entry.first_op)

    @contextmanager
    def region(self, block: Block) -> Iterator[None]:
        """Build into a nested block; its values are not visible after it."""
        outer, self._block = self._block, block
        self._scopes.append({})
        yield
        self._scopes.pop()
        self._block = outer

    # Constants

    def filled(self, value: float, type_: Attribute) -> SSAValue:
        """A number of a scalar type, or in every element of a tensor type."""
        element = tt.element(type_)
        attribute: Attribute
        if isinstance(element, AnyFloat):
            attribute = FloatAttr(float(value), element)
        else:
            assert isinstance(element, IntegerType), "elements are floats or integers"
            attribute = IntegerAttr(_wrapped(int(value), element.width.data), element)
        scalar = self.constant(arith.ConstantOp.create(result_types=[element], properties={"value": attribute}))
        if element in (i32, i64):
            self._known[scalar] = int(value)
        return self.constant(tt.SplatOp(scalar, tt.shape(type_))) if isinstance(type_, TensorType) else scalar

    def range(self, count: int) -> SSAValue:
        """0, 1, …, `count` - 1 as i32."""
        return self.constant(tt.MakeRangeOp(count))

    # Scalar integers, folded where they are known

    def known(self, value: Number) -> Number:
        """The number that a scalar is known to be, or else the scalar."""
        return value if isinstance(value, int) else self._known.get(value, value)

    def number(self, value: Number, type_: Attribute = i64) -> SSAValue:
        """A number as a scalar i64 or i32; one that exists is widened with its sign, or cut."""
        value = self.known(value)
        if isinstance(value, int):
            return self.filled(value, type_)
        if value.type == type_:
            return value
        if type_ == i64:
            return self.pure(arith.ExtSIOp(value, i64))
        return self.pure(arith.TruncIOp(value, type_))

    def integer(self, op: type[Operation], a: Number, b: Number, type_: Attribute = i64) -> Number:
        """A scalar operation of arith on two integers, folded where they are known."""
        a, b = self.known(a), self.known(b)
        if isinstance(a, int) and isinstance(b, int):
            return ARITHMETIC[op.name](a, b)
        if op is arith.AddiOp and 0 in (a, b):
            return b if a == 0 else a
        if op is arith.MuliOp and 0 in (a, b):
            return 0
        if op is arith.MuliOp and 1 in (a, b):
            return b if a == 1 else a
        operands = [self.number(a, type_), self.number(b, type_)]
        return self.pure(
            op.create(operands=operands, result_types=[type_], properties=dict(_PLAIN_PROPERTIES.get(op, {})))
        )

    def sum(self, a: Number, b: Number, type_: Attribute = i64) -> Number:
        return self.integer(arith.AddiOp, a, b, type_)

    def product(self, a: Number, b: Number, type_: Attribute = i64) -> Number:
        return self.integer(arith.MuliOp, a, b, type_)

    # Elementwise operations, on scalars and tensors alike

    def binary(self, op: type[Operation], a: SSAValue, b: SSAValue | float) -> SSAValue:
        """An operation of arith on two values of one type; a number is one in every element."""
        other = b if isinstance(b, SSAValue) else self.filled(b, a.type)
        properties: dict[str, Attribute] = dict(_PLAIN_PROPERTIES.get(op, {}))
        return self.pure(op.create(operands=[a, other], result_types=[a.type], properties=properties))

    def unary(self, op: type[Operation], value: SSAValue, result: Attribute | None = None) -> SSAValue:
        """An operation of one operand; its result has another element type where that is given."""
        type_ = value.type if result is None else tt.tensor(result, tt.shape(value.type))
        return self.pure(op.create(operands=[value], result_types=[type_]))

    def bitcast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The same bits as other elements of the same width: arith's own does not go through Triton on tensors."""
        return self.pure(tt.BitcastOp(value, tt.tensor(element, tt.shape(value.type))))

    def compare(self, predicate: str, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """A comparison of arith, of floats or integers by their type."""
        other = b if isinstance(b, SSAValue) else self.filled(b, a.type)
        op = arith.CmpfOp if isinstance(tt.element(a.type), AnyFloat) else arith.CmpiOp
        return self.pure(op(a, other, predicate))

    def select(self, condition: SSAValue, a: SSAValue | float, b: SSAValue) -> SSAValue:
        """`a` where the condition holds, else `b`."""
        first = a if isinstance(a, SSAValue) else self.filled(a, b.type)
        return self.pure(arith.SelectOp(self.splat(condition, tt.shape(b.type)), first, b))

    def splat(self, value: SSAValue, sizes: Sequence[int]) -> SSAValue:
        """A scalar in every element; a tensor, or a scalar where there are no sizes, itself."""
        if isinstance(value.type, TensorType) or not sizes:
            return value
        return self.pure(tt.SplatOp(value, sizes))

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """Integers of another width: widened with the sign, i1 with zeros, or cut."""
        source = tt.element(value.type)
        if source == element:
            return value
        assert isinstance(source, IntegerType), "integers only"
        assert isinstance(element, IntegerType), "integers only"
        if source.width.data > element.width.data:
            return self.unary(arith.TruncIOp, value, element)
        return self.unary(arith.ExtUIOp if source == i1 else arith.ExtSIOp, value, element)


_INTEGER: dict[str, Attribute] = {"overflowFlags": arith.IntegerOverflowAttr("none")}
EXACT: dict[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
_PLAIN_PROPERTIES: dict[type[Operation], dict[str, Attribute]] = {
    **dict.fromkeys((arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp), _INTEGER),
    **dict.fromkeys((arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp), EXACT),
    **dict.fromkeys((arith.MaximumfOp, arith.MinimumfOp), EXACT),
}


def _key(op: Operation) -> _Key:
    properties, attributes = (tuple(sorted(d.items(), key=itemgetter(0))) for d in (op.properties, op.attributes))
    return (op.name, tuple(op.operands), properties, attributes, op.result_types)


def _wrapped(value: int, width: int) -> int:
    """A number's low `width` bits as a signed integer; for one bit, 0 or 1."""
    low = value & (1 << width) - 1
    return low - (1 << width) if width > 1 and low >> (width - 1) else low
