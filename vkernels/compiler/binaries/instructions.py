"""Instructions of a GPU binary, of either vendor, in one form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an instruction does, as far as it matters to time. Names are those of reports and of JSON."""

    TENSOR = "tensor"
    FLOAT = "float"
    HALF = "half"
    DOUBLE = "double"
    INTEGER = "integer"
    INTEGER_MULTIPLY = "integer multiply"
    SPECIAL = "special"
    MOVE = "move"
    SHUFFLE = "shuffle"
    UNIFORM = "uniform"
    GLOBAL_LOAD = "global load"
    GLOBAL_STORE = "global store"
    COPY = "copy to shared"
    BULK_COPY = "bulk copy"
    SHARED_LOAD = "shared load"
    SHARED_STORE = "shared store"
    SPILL_LOAD = "spill load"
    SPILL_STORE = "spill store"
    TENSOR_MEMORY = "tensor memory"
    CONSTANT_LOAD = "constant load"
    ATOMIC = "atomic"
    BARRIER = "barrier"
    WAIT = "wait"
    BRANCH = "branch"
    OTHER = "other"


@dataclass(frozen=True)
class Control:
    """The control word of an NVIDIA instruction since compute capability 7.0.

    `stall`: cycles before the warp's next instruction may issue. `yields`: another warp is preferred meanwhile.
    `writes`, `reads`: the scoreboard, 0 to 5, that is released when its result is there, or when its operands were
    read; None for none. `waits`: mask of the scoreboards that it waits for. `reuse`: mask of operands that stay in
    the operand cache.
    """

    stall: int
    yields: bool
    writes: int | None
    reads: int | None
    waits: int
    reuse: int


@dataclass(frozen=True)
class TensorShape:
    """One matrix instruction of the tensor cores: m × n × k multiply-adds of operands of `dtype`.

    `dtype`: as in `Limits.tensor_multiply_adds`, or `float32` and `float64` for the matrix units of those.
    `warps`: how many warps issue it together for one product: 1, or 4 of a warp group; 0 where one thread of the
    program does. `legacy`: it runs on newer tensor cores at the rate of an older kind of instruction.
    """

    m: int
    n: int
    k: int
    dtype: str
    warps: int = 1
    legacy: bool = False

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


_MULTIPLY_ADD = re.compile(
    r"\bv_(dual_|pk_)?(?:fma|fmac|mac|mad)(?:ak|mk)?_(?:legacy_)?f(?:16|32|64)|^[DFH]FMA(2)?(?:\.|$)"
)


@dataclass(frozen=True)
class Instruction:
    """One instruction. `address`: in bytes from the kernel's begin (AMD: its number). `line`: of the text it was made
    from, 0 if unknown. `target`: the address that it may branch to; `table`: addresses, one of which it branches to.
    `bytes`: of memory a thread, by a load or store.
    `weight`: times of its pipe, beside a plain instruction of its kind. `once`: one thread issues it for the program.
    `falls_through`: the next instruction may follow it.
    """

    address: int
    opcode: str
    operands: str
    kind: Kind
    line: int = 0
    control: Control | None = None
    target: int | None = None
    bytes: int = 0
    tensor: TensorShape | None = None
    weight: float = 1.0
    once: bool = False
    falls_through: bool = True
    table: tuple[int, ...] = ()

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of floats of a thread, on no tensor cores: two of a pair (`v_dual_fmac_f32`, `v_pk_fma_f32`,
        `HFMA2`)."""
        found = _MULTIPLY_ADD.findall(f"{self.opcode} {self.operands}" if "::" in self.operands else self.opcode)
        return sum(2 if packed == "pk_" or twice else 1 for packed, twice in found)
