"""What the host computes before it launches: a mapped kernel's arithmetic on sizes, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr
from xdsl.ir import Operation, SSAValue

from vkernels.ir.dialect import BufferOp, LaunchOp, MappedOp, SizeOp, arith
from vkernels.ir.errors import ArgumentError
from vkernels.ir.facts import Facts

from ..llvm.failures import unsupported

SWAP_ALIGNMENT = 64
"""Bytes, of everything in swap space."""


def _toward_zero(a: int, b: int) -> int:
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _toward_zero,
    "arith.remsi": lambda a, b: a - b * _toward_zero(a, b) if b else 0,
    "arith.floordivsi": lambda a, b: a // b if b else 0,
    "arith.ceildivsi": lambda a, b: -(-a // b) if b else 0,
    "arith.maxsi": max,
    "arith.minsi": min,
}
"""The i64 operations on sizes; x / 0 is 0, as everywhere. Sizes are far from where i64 would wrap."""


@dataclass(frozen=True)
class HostArguments:
    """What one call needs: bytes of each top-level buffer, and programs of each launch.

    `more_swap_bytes`: of each launch, what every resident program takes of swap space beside the launch's own
    `swap_bytes`, because the call's sizes decide it; empty where no launch has such.
    """

    buffer_bytes: tuple[int, ...]
    programs: tuple[int, ...]
    more_swap_bytes: tuple[int, ...] = ()

    def more_swap(self, launch: int) -> int:
        """Of one launch, by its number."""
        return self.more_swap_bytes[launch] if self.more_swap_bytes else 0


@dataclass(frozen=True)
class HostStep:
    """One value: a number, a size by its name, or an operation of arith on two earlier values."""

    number: int = 0
    size: str = ""
    name: str = ""
    operands: tuple[int, ...] = ()


@dataclass(frozen=True)
class HostArithmetic:
    """Steps one after another, and which of their values multiply to each buffer's elements and launch's programs.

    `element_bytes`: of each buffer. `swaps`: of each launch, the same of its swap space whose size the call decides:
    factors and bytes an element.
    """

    steps: tuple[HostStep, ...]
    buffers: tuple[tuple[int, ...], ...]
    element_bytes: tuple[int, ...]
    launches: tuple[tuple[int, ...], ...]
    known: Mapping[str, int] = field(default_factory=dict)
    swaps: tuple[tuple[tuple[tuple[int, ...], int], ...], ...] = ()

    def prepare(self, sizes: Mapping[str, int]) -> HostArguments:
        """Run the steps. Raises `ArgumentError` for a size that is missing."""
        values: list[int] = []
        for step in self.steps:
            if step.name:
                a, b = step.operands
                values.append(ARITHMETIC[step.name](values[a], values[b]))
            else:
                values.append(self._size(step.size, sizes) if step.size else step.number)
        elements = [_product(values, factors) for factors in self.buffers]
        return HostArguments(
            tuple(n * size for n, size in zip(elements, self.element_bytes, strict=True)),
            tuple(_product(values, factors) for factors in self.launches),
            tuple(sum(_up(_product(values, factors) * size) for factors, size in swap) for swap in self.swaps),
        )

    def _size(self, name: str, sizes: Mapping[str, int]) -> int:
        found = self.known.get(name, sizes.get(name))
        if found is None:
            raise ArgumentError(f"the size {name} is not given")
        return found


def _up(size: int) -> int:
    return -(-size // SWAP_ALIGNMENT) * SWAP_ALIGNMENT


def _product(values: list[int], factors: tuple[int, ...]) -> int:
    result = 1
    for factor in factors:
        result *= max(0, values[factor])
    return result


def host_arithmetic(mapped: MappedOp, element_bytes: Callable[[BufferOp], int]) -> HostArithmetic:
    """What buffers and launches of a mapped kernel depend on, as steps. What only launches compute with, they compute.

    Raises `UnsupportedError` for what no size is computed with.
    """
    steps: list[HostStep] = []
    numbers: dict[SSAValue, int] = {}
    buffers, launches, widths, swaps = [], [], [], []

    def number(step: HostStep) -> int:
        steps.append(step)
        return len(steps) - 1

    def factors(op: BufferOp) -> tuple[int, ...]:
        given = iter(op.sizes)
        shape = [d for d in op.result.type.shape if isinstance(d, int)]
        return tuple(numbers[next(given)] if d == DYNAMIC_INDEX else number(HostStep(number=d)) for d in shape)

    needed = _needed(mapped)
    for op in mapped.body.block.ops:
        if isinstance(op, BufferOp):
            buffers.append(factors(op))
            widths.append(element_bytes(op))
        elif isinstance(op, LaunchOp):
            launches.append(tuple(numbers[size] for size in op.grid))
            swaps.append(tuple((factors(one), element_bytes(one)) for one in swap_of_a_call(op)))
        elif op in needed:
            numbers[op.results[0]] = number(_step(op, numbers))
    known = Facts.from_attribute(mapped.facts).sizes
    return HostArithmetic(tuple(steps), tuple(buffers), tuple(widths), tuple(launches), dict(known), tuple(swaps))


def _needed(mapped: MappedOp) -> set[Operation]:
    """The operations of the top level that sizes of buffers and of grids are computed by."""
    needed: set[Operation] = set()
    values: list[SSAValue] = []
    for op in mapped.body.block.ops:
        if isinstance(op, BufferOp):
            values += op.sizes
        elif isinstance(op, LaunchOp):
            values += [*op.grid, *(size for one in swap_of_a_call(op) for size in one.sizes)]
    while values:
        owner = values.pop().owner
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            values += owner.operands
    return needed


def swap_of_a_call(launch: LaunchOp) -> list[BufferOp]:
    """A launch's swap space whose size the call decides."""
    return [op for op in launch.body.block.ops if isinstance(op, BufferOp) and op.sizes]


def _step(op: Operation, numbers: Mapping[SSAValue, int]) -> HostStep:
    if isinstance(op, SizeOp):
        return HostStep(size=op.size.data)
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return HostStep(number=op.value.value.data)
    if op.name not in ARITHMETIC:
        raise unsupported(op, "the host does not compute this")
    return HostStep(name=op.name, operands=tuple(numbers[operand] for operand in op.operands))
