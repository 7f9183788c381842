"""What one trip of each loop issues: counts that no rate of a device is in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .find_loops import Region
from .instructions import Instruction, Kind, TensorShape
from .latency import trip_cycles


@dataclass(frozen=True)
class TensorUse:
    """Matrix instructions of one kind in a trip: `count`, of each warp that issues them.

    `operand_bytes`: what one reads of shared memory by itself, as those of warp groups and later do.
    """

    opcode: str
    shape: TensorShape
    count: int
    operand_bytes: int = 0

    def multiply_adds(self, warps: int) -> float:
        """Multiply-adds of a program of so many warps."""
        products = self.count * self.shape.m * self.shape.n * self.shape.k
        return products * (warps / self.shape.warps if self.shape.warps else 1)

    def instructions(self, warps: int) -> float:
        """Products of a program of so many warps."""
        return self.count * (warps / self.shape.warps if self.shape.warps else 1)


@dataclass(frozen=True)
class LoopUse:
    """One trip of a loop, or the code outside all loops (`parent` None), without what is in inner loops.

    `first`, `last`: addresses. `instructions`: that each warp issues; `elected`: that one warp of the program issues
    alone. `kinds`: instructions of a warp by `Kind`; `bytes`: of memory a thread by `Kind`. `tensor`: matrix
    instructions; `unknown_tensor`: those whose shape is in no text. `wide_accesses`: of global memory, those of 16
    bytes a thread or more. `stalls`: cycles that a warp takes at least to issue it. `latency`: the same with waits for
    results (see `latency.py`). `waits`: instructions that wait for another's result. `lines`: instructions by the line
    of the text that they were made from; `line_bytes`: of device memory a thread, by line; `bulk_lines`: instructions
    that start copies of boxes, by line. `role`: as in `Region`; `warps`: of the program that have it, 0 for all.
    `line_products`: multiply-adds a thread on no tensor cores, by line.
    """

    first: int
    last: int
    parent: int | None
    is_innermost: bool
    instructions: int
    elected: int
    kinds: Mapping[str, int]
    bytes: Mapping[str, int]
    tensor: tuple[TensorUse, ...]
    unknown_tensor: int
    wide_accesses: int
    stalls: int
    latency: int
    waits: int
    lines: Mapping[int, int] = field(repr=False)
    line_bytes: Mapping[int, int] = field(repr=False)
    bulk_lines: Mapping[int, int] = field(default_factory=dict, repr=False)
    role: int = 0
    warps: int = 0
    line_products: Mapping[int, int] = field(default_factory=dict, repr=False)

    def count(self, *kinds: Kind) -> int:
        """Instructions of some kinds."""
        return sum(self.kinds.get(kind.value, 0) for kind in kinds)

    @property
    def spills(self) -> int:
        """Loads and stores of registers that were spilled."""
        return self.count(Kind.SPILL_LOAD, Kind.SPILL_STORE)


BOX_COPIES = ("UTMALDG", "UTMASTG", "UTMAREDG")
"""Instructions that copy a box by a descriptor; beside them bulk copies are prefetches and the like."""
GLOBAL = (Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.COPY)


def use_of(region: Region, architecture: str, warps: int, with_role: int = 0) -> LoopUse:
    """The counts of a region. `warps`: of a program; `with_role`: that have the region's role, if warps have roles."""
    plain, elected = region.instructions, region.elected
    every = (*plain, *elected)
    kinds = Counter(each.kind.value for each in plain)
    kinds.update(each.kind.value for each in elected if each.once)
    moved: Counter[str] = Counter()
    by_line: Counter[int] = Counter()
    products: Counter[int] = Counter()
    for each in plain:
        if each.line and (count := each.multiply_adds):
            products[each.line] += count
        if each.bytes:
            moved[each.kind.value] += each.bytes
            if each.kind in GLOBAL:
                by_line[each.line] += each.bytes
    stalls, latency = trip_cycles(plain, architecture, with_role or warps)
    return LoopUse(
        region.first, region.last, region.parent, region.is_innermost, len(plain), len(elected), dict(kinds),
        dict(moved), _tensor(every), sum(each.kind is Kind.TENSOR and each.tensor is None for each in every),
        sum(each.kind in GLOBAL and each.bytes >= 16 for each in plain), stalls, latency,
        sum(_waits(each) for each in plain), dict(Counter(each.line for each in every if each.line)), dict(by_line),
        dict(Counter(each.line for each in every if each.line and each.opcode.startswith(BOX_COPIES))),
        region.role, with_role, dict(products),
    )  # fmt: skip


def _waits(each: Instruction) -> bool:
    if each.control is not None:
        return each.control.waits != 0 or "DEPBAR" in each.opcode
    return each.opcode.startswith("s_wait")


def _tensor(instructions: Sequence[Instruction]) -> tuple[TensorUse, ...]:
    found: Counter[tuple[str, TensorShape, int]] = Counter()
    for each in instructions:
        if each.tensor is not None:
            found[each.opcode, each.tensor, _operand_bytes(each, each.tensor)] += 1
    return tuple(TensorUse(opcode, shape, count, bytes_) for (opcode, shape, bytes_), count in found.items())


_ELEMENT = {"tf32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int8": 1, "mxfp4": 0.5}
_FROM_REGISTERS = re.compile(r"R\d+(?:\.\w+)?, R\d+")


def _operand_bytes(each: Instruction, shape: TensorShape) -> int:
    """Both operands, or the second where the first is in registers or in tensor memory."""
    if shape.warps == 1:
        return 0
    in_shared = each.operands.startswith("gdesc") if each.once else not _FROM_REGISTERS.match(each.operands)
    sides = shape.n + (shape.m if in_shared else 0)
    return int(sides * shape.k * _ELEMENT.get(shape.dtype, 2))
