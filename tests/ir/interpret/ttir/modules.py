"""TTIR of a few lines for the interpreter's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from vkernels.ir.dialect import arith, tt
from vkernels.ir.interpret.ttir import Value, run_ttir


def pointer(element: Attribute) -> tt.PointerType:
    return tt.PointerType(element)


class Kernel:
    """A function that is built operation by operation; each gets a line of `kernel.py` of its own, from 1."""

    def __init__(self, *types: Attribute, divisibility: Sequence[int] = ()):
        self.block = Block(arg_types=types)
        self.here = self.block
        self.divisibility = divisibility
        self.line = 0

    @property
    def arguments(self) -> tuple[SSAValue, ...]:
        return tuple(self.block.args)

    def do(self, op: Operation) -> SSAValue:
        """Add an operation; its first result, if it has one."""
        self.line += 1
        op.location = FileLineColLoc(StringAttr("kernel.py"), IntAttr(self.line), IntAttr(1))
        self.here.add_op(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def number(self, value: float, type_: Attribute = i32) -> SSAValue:
        attribute = FloatAttr(value, type_) if isinstance(type_, AnyFloat) else IntegerAttr(int(value), type_)
        return self.do(arith.ConstantOp(attribute))

    def filled(self, value: float, type_: Attribute, *sizes: int) -> SSAValue:
        return self.do(tt.SplatOp(self.number(value, type_), sizes))

    def range(self, count: int) -> SSAValue:
        return self.do(tt.MakeRangeOp(count))

    def at(self, base: SSAValue, offsets: SSAValue) -> SSAValue:
        """Pointers to elements."""
        return self.do(tt.AddPtrOp(self.do(tt.SplatOp(base, tt.shape(offsets.type))), offsets))

    def shift(self, tile: SSAValue, by: int) -> SSAValue:
        return self.do(arith.AddiOp(tile, self.filled(by, i32, *tt.shape(tile.type))))

    def below(self, tile: SSAValue, count: int) -> SSAValue:
        return self.do(arith.CmpiOp(tile, self.filled(count, i32, *tt.shape(tile.type)), "slt"))

    def load(self, base: SSAValue, offsets: SSAValue, *rest: SSAValue) -> SSAValue:
        return self.do(tt.LoadOp(self.at(base, offsets), *rest))

    def store(self, base: SSAValue, offsets: SSAValue, value: SSAValue, *rest: SSAValue) -> int:
        """Add a store; its line."""
        self.do(tt.StoreOp(self.at(base, offsets), value, *rest))
        return self.line

    def barrier(self) -> None:
        self.do(tt.BarrierOp())

    def loop(self, count: int, body: Callable[[SSAValue], object]) -> None:
        """A loop from 0 that carries nothing."""
        bounds = [self.number(n) for n in (0, count, 1)]
        block = Block(arg_types=[i32])
        outer, self.here = self.here, block
        body(block.args[0])
        self.do(scf.YieldOp())
        self.here = outer
        self.do(scf.ForOp(*bounds, [], Region(block)))

    def module(self) -> ModuleOp:
        self.do(tt.ReturnOp())
        attributes = [
            DictionaryAttr({"tt.divisibility": IntegerAttr(self.divisibility[n], i32)} if self.divisibility else {})
            for n in range(len(self.arguments))
        ]
        module = ModuleOp([tt.FuncOp("k", Region(self.block), attributes)])
        module.verify()
        return module

    def run(self, *arguments: Value, grid: int = 1, **rest: int) -> None:
        run_ttir(self.module(), grid, arguments, **rest)  # type: ignore[arg-type]


def combine(op: Callable[[SSAValue, SSAValue], Operation], element: Attribute, end: type[Operation]) -> Region:
    """The body of a reduction or scan."""
    block = Block(arg_types=[element, element])
    result = op(*block.args)
    block.add_ops([result, end(result.results[0])])  # type: ignore[call-arg]
    return Region(block)
