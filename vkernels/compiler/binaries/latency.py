"""How long one warp takes for a trip: it issues in order, stalls as its control words say, and waits for results.

Latencies are low figures of published microbenchmarks: Jia et al. 2018 (Volta), Abdelkhalik et al. 2022 (A100), Luo et
al. 2024 (H100) for NVIDIA; AMD's from the chips' ISA guides and public measurements of CDNA. They are those of caches
that hit: a bound, since what comes from memory takes longer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .instructions import Instruction, Kind

NVIDIA_LATENCY = {
    Kind.GLOBAL_LOAD: 200, Kind.COPY: 200, Kind.BULK_COPY: 400, Kind.SHARED_LOAD: 23, Kind.SPILL_LOAD: 30,
    Kind.SPECIAL: 18, Kind.SHUFFLE: 23, Kind.CONSTANT_LOAD: 30, Kind.ATOMIC: 200, Kind.TENSOR_MEMORY: 30,
    Kind.MOVE: 20, Kind.GLOBAL_STORE: 20, Kind.SHARED_STORE: 20, Kind.SPILL_STORE: 20, Kind.DOUBLE: 16, Kind.TENSOR: 30,
}  # fmt: skip
AMD_LATENCY = {
    Kind.GLOBAL_LOAD: 300, Kind.COPY: 300, Kind.SHARED_LOAD: 64, Kind.SPILL_LOAD: 120, Kind.SHUFFLE: 64,
    Kind.CONSTANT_LOAD: 100, Kind.ATOMIC: 300, Kind.SHARED_STORE: 64, Kind.GLOBAL_STORE: 0, Kind.SPILL_STORE: 0,
}  # fmt: skip
GROUP_RATE = 2048
"""Multiply-adds of float16 a cycle of a multiprocessor whose warp groups multiply: H100's."""
TRIPS = 3


def trip_cycles(instructions: Sequence[Instruction], architecture: str, warps: int = 1) -> tuple[int, int]:
    """Cycles of one warp alone for a trip: to issue its instructions, and with waits, once its loop is under way.

    `warps`: of its program. Where they meet at a barrier in each trip, the last of its groups of four waits until the
    tensor cores have done the products of all.
    """
    if architecture.startswith("sm_"):
        meet = any(each.kind is Kind.BARRIER for each in instructions)
        return sum(_stall(each) for each in instructions), _nvidia(instructions, max(1, warps // 4) if meet else 1)
    step = 4 if architecture.startswith("gfx9") else 1
    return step * len(instructions), _amd(instructions, step)


def _stall(each: Instruction) -> int:
    return max(1, each.control.stall) if each.control is not None else 1


_GROUPS_LEFT = re.compile(r"(?:SB\d|gsb\d), 0x([0-9a-f]+)")


def _nvidia(instructions: Sequence[Instruction], sharing: int) -> int:
    ready = [0] * 6  # when each scoreboard is released
    copies: list[int] = []  # when each group of copies is there
    products: list[int] = []  # when each group of products is done
    now, copied, unit, ends = 0, 0, 0, [0]
    for _ in range(TRIPS):
        for each in instructions:
            control = each.control
            if control is not None and control.waits:
                now = max(now, *(ready[n] for n in range(6) if control.waits >> n & 1))
            if each.opcode.startswith(("DEPBAR.LE", "WARPGROUP.DEPBAR")):
                left = _GROUPS_LEFT.search(each.operands)
                groups = products if each.opcode.startswith("WARPGROUP") else copies
                if left is not None and (waited := groups[: len(groups) - int(left[1], 16)]):
                    now = max(now, max(waited))
            elif each.opcode == "LDGDEPBAR":
                copies.append(copied)
            elif each.kind is Kind.COPY:
                copied = now + NVIDIA_LATENCY[Kind.COPY]
            elif each.tensor is not None and each.tensor.warps == 4:
                shape = each.tensor
                scale = {"tf32": 2.0, "float8": 0.5, "int8": 0.5}.get(shape.dtype, 1.0)
                unit = max(now, unit) + round(sharing * shape.m * shape.n * shape.k * scale / GROUP_RATE)
                if "gsb" in each.operands:
                    products.append(unit)
            if control is not None:
                done = now + NVIDIA_LATENCY.get(each.kind, 20)
                if control.writes is not None:
                    ready[control.writes] = max(ready[control.writes], done)
                if control.reads is not None:
                    ready[control.reads] = max(ready[control.reads], now + 15)
            now += _stall(each)
        ends.append(now)
    return ends[-1] - ends[-2]


_COUNTS = re.compile(r"(vmcnt|lgkmcnt|vscnt)\((\d+)\)")
_COUNTER = {
    Kind.GLOBAL_LOAD: "vmcnt", Kind.COPY: "vmcnt", Kind.SPILL_LOAD: "vmcnt", Kind.SHARED_LOAD: "lgkmcnt",
    Kind.SHARED_STORE: "lgkmcnt", Kind.SHUFFLE: "lgkmcnt", Kind.CONSTANT_LOAD: "lgkmcnt",
}  # fmt: skip


def _amd(instructions: Sequence[Instruction], step: int) -> int:
    under_way: dict[str, list[int]] = {"vmcnt": [], "lgkmcnt": [], "vscnt": []}
    now, unit, ends = 0, 0, [0]
    for _ in range(TRIPS):
        for each in instructions:
            if each.opcode.startswith("s_wait"):
                for counter, left in _COUNTS.findall(each.operands):
                    queue = under_way[counter]
                    if waited := queue[: len(queue) - int(left)]:
                        now = max(now, max(waited))
                        del queue[: len(waited)]
            elif (name := _COUNTER.get(each.kind)) is not None:
                under_way[name].append(now + AMD_LATENCY.get(each.kind, 0))
            elif each.tensor is not None:
                now = max(now, unit)
                unit = now + max(4, round(each.tensor.m * each.tensor.n * each.tensor.k / 256))
            now += step
        ends.append(now)
    return ends[-1] - ends[-2]
