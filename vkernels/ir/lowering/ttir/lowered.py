"""The result of lowering to TTIR: launches, and the arithmetic on sizes that the host computes before them.

See "What the TTIR lowering gives the runtime" in docs/mapped-ir.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import prod

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from vkernels.ir.dialect import BufferOp, LaunchOp, MappedOp, SizeOp, arith
from vkernels.ir.errors import ArgumentError
from vkernels.ir.facts import Facts
from vkernels.ir.launch_arguments import SIZE_ARITHMETIC, SWAP_ALIGNMENT, HostArguments, LaunchParameter
from vkernels.ir.text import print_module

from ..common import buffer_sizes, launches_of, swap_of_a_call, unsupported

ARITHMETIC = {f"arith.{name}": compute for name, compute in SIZE_ARITHMETIC.items()}
"""The operations on sizes, by the names that they have in the IR."""


@dataclass(frozen=True)
class HostArithmetic:
    """The operations that sizes of buffers and of grids are computed by, in order; `known`: sizes known before a call.

    `element_bytes` gives the bytes of a buffer's element.
    """

    operations: tuple[Operation, ...]
    buffers: tuple[BufferOp, ...]
    launches: tuple[LaunchOp, ...]
    element_bytes: Callable[[BufferOp], int]
    known: Mapping[str, int]

    def prepare(self, sizes: Mapping[str, int]) -> HostArguments:
        """Compute what a call needs. Raises `ArgumentError` for a size that is missing."""
        values: dict[SSAValue, int] = {}
        for op in self.operations:
            values[op.results[0]] = self._value(op, values, sizes)

        def size(op: BufferOp) -> int:
            return prod(max(0, n) for n in buffer_sizes(op, values.__getitem__)) * self.element_bytes(op)

        return HostArguments(
            tuple(map(size, self.buffers)),
            tuple(prod(max(0, values[count]) for count in launch.grid) for launch in self.launches),
            tuple(
                sum(-(-size(op) // SWAP_ALIGNMENT) * SWAP_ALIGNMENT for op in swap_of_a_call(launch))
                for launch in self.launches
            ),
        )

    def _value(self, op: Operation, values: Mapping[SSAValue, int], sizes: Mapping[str, int]) -> int:
        if isinstance(op, SizeOp):
            found = self.known.get(op.size.data, sizes.get(op.size.data))
            if found is None:
                raise ArgumentError(f"the size {op.size.data} is not given")
            return found
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            return op.value.value.data
        return ARITHMETIC[op.name](*(values[operand] for operand in op.operands))


def host_arithmetic(mapped: MappedOp, element_bytes: Callable[[BufferOp], int]) -> HostArithmetic:
    """The arithmetic on sizes that buffers and grids depend on; the launches repeat the rest.

    Raises `UnsupportedError` for an operation that the host does not compute.
    """
    launches = launches_of(mapped)
    buffers = tuple(op for op in mapped.body.block.ops if isinstance(op, BufferOp))
    values = [size for op in (*buffers, *chain(*map(swap_of_a_call, launches))) for size in op.sizes]
    values += [count for launch in launches for count in launch.grid]
    needed: set[Operation] = set()
    while values:
        owner = values.pop().owner
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            values += owner.operands
    operations = tuple(op for op in mapped.body.block.ops if op in needed)
    for op in operations:
        if op.name not in ARITHMETIC and not isinstance(op, SizeOp | arith.ConstantOp):
            raise unsupported(op, "the host does not compute this")
    return HostArithmetic(operations, buffers, tuple(launches), element_bytes, Facts.from_attribute(mapped.facts).sizes)


@dataclass(frozen=True)
class TtirLaunch:
    """One launch: a module of one `tt.func` called `name`, and what it takes.

    `scratch_bytes`: scratchpad a program. `swap_bytes`: of the swap space, what each resident program takes,
    `HostArguments.more_swap` aside.
    `is_persistent`: each program continues with others until all are done, so any number of them may be started.
    `warps`: of a program at most, if not as many as the plan has.
    """

    name: str
    module: ModuleOp = field(repr=False)
    parameters: tuple[LaunchParameter, ...]
    scratch_bytes: int
    swap_bytes: int
    is_persistent: bool
    warps: int | None = None


@dataclass(frozen=True)
class LoweredTtir:
    """A mapped kernel's launches, in order. `sizes`: names of the sizes that it reads. `buffers`: at its top level."""

    name: str
    launches: tuple[TtirLaunch, ...]
    sizes: tuple[str, ...]
    buffers: int
    host: HostArithmetic = field(repr=False)

    def prepare(self, sizes: Mapping[str, int]) -> HostArguments:
        """Bytes of each top-level buffer and programs of each launch for a call's sizes.

        Raises `ArgumentError` for a size that is missing.
        """
        return self.host.prepare(sizes)


def print_ttir(module: ModuleOp, locations: bool = False) -> str:
    """The text that Triton's MLIR parses: the generic form, with source locations if asked for."""
    return print_module(module, generic=True, locations=locations)
