"""Products on the CPU's dot units against torch: `python benchmarks/units.py --threads 1`.

int8 with sums of int32 against `torch._int_mm`; bf16 and f16 of the library against `torch.mm`; by turns.
"""

from __future__ import annotations

from typing import Annotated

import torch
import typer
from common import Machine, keep_freed_memory
from jaxtyping import Int
from library import row
from library_cases.case import TOLERANCES, Case, Way, bytes_of
from library_turns import Ceilings, clock_for, measure
from rich.console import Console

import vkernels as vk
from vkernels.library import matmul
from vkernels.targets.host_cpu import cpu_limits

SHAPES = ((512, 512, 512), (1024, 1024, 1024), (64, 1024, 1024), (1000, 999, 998))
"""Rows, columns and depth of the products."""
console = Console(highlight=False)


@vk.kernel
def int8_matmul(a: Int[vk.Tensor, "M K"], b: Int[vk.Tensor, "K N"], out: Int[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(a[i, k], b[k, j])


def of_int8(m: int, n: int, k: int, turned: bool) -> Case:
    """A product of int8, of weights as they are or transposed."""
    a = torch.randint(-128, 128, (m, k), dtype=torch.int8)
    b = torch.randint(-128, 128, (n, k) if turned else (k, n), dtype=torch.int8)
    out = torch.empty(m, n, dtype=torch.int32)

    def ours(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        int8_matmul(a, b, out)
        return out

    arguments = (a, b.t() if turned else b)
    shape = f"{m}×{n}×{k}, int8" + (", b transposed" if turned else "")
    moved = bytes_of(a, b, out)
    return Case("dot", "", shape, arguments, ours, {"_int_mm": Way(torch._int_mm)}, moved, 2 * m * n * k, tolerance=0.0)


def of_floats(m: int, n: int, k: int, dtype: torch.dtype) -> Case:
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    shape, moved = f"{m}×{n}×{k}, {str(dtype).removeprefix('torch.')}", bytes_of(a, b) + 2 * m * n
    ways = {"mm": Way(torch.mm)}
    return Case("matmul", "", shape, (a, b), matmul, ways, moved, 2 * m * n * k, tolerance=TOLERANCES[dtype])


def main(
    threads: Annotated[int, typer.Option(min=1)] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="times that each takes its turn")] = 15,
    floats: Annotated[bool, typer.Option(help="bf16 and f16 too")] = True,
) -> None:
    """Measure and compare; exits with 1 where any result is wrong."""
    vk.set_threads(threads)
    torch.set_num_threads(threads)
    keep_freed_memory()
    torch.manual_seed(0)
    machine = Machine.here(threads)
    units = ", ".join(cpu_limits().dot_units) or "none"
    console.print(
        f"{machine.cpu}, {machine.threads} of {machine.cores} cores, torch {machine.torch}; dot units: {units}"
    )
    cases = [of_int8(*shape, turned) for shape in SHAPES for turned in (False, True)]
    if floats:
        cases += [of_floats(*shape, dtype) for dtype in (torch.bfloat16, torch.float16) for shape in SHAPES[:2]]
    ceilings, wrong = Ceilings(threads, clock_for(threads)), 0
    for case in cases:
        result = measure(case, ceilings, rounds, compiled=False)
        console.print(row(result), soft_wrap=True)
        wrong += not result.error <= result.tolerance
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
