"""The library's dense kernels against torch, in turns, beside what the machine can do.

    python benchmarks/kernels.py [--only matmul] [--rounds 9] [--threads 2] [--exponent 24] [--json FILE]

softmax and layer_norm take 2^24 elements as rows of every length from 2^4 to 2^24, matmul a few sizes. `ceiling` is
the part of what the machine can do that was reached, measured in the same turns: bytes that must be moved (each input
once, the output once) against a plain copy, or multiply-adds against a loop of nothing else, the best turn of each.
Results go into memory that is there already: given, or, for torch's layer_norm, which takes none, kept by malloc.
Every result is first compared with float64.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from common import Copy, Machine, MultiplyAdd, Quartiles, keep_freed_memory, take_turns, times_faster
from rich.console import Console
from rich.table import Table

import vkernels as vk
from vkernels.library import layer_norm, matmul, softmax

console = Console(highlight=False)

MATMULS = ((1024, 1024, 1024), (256, 256, 256), (4096, 512, 512), (512, 512, 4096), (1000, 1001, 999), (64, 4096, 4096))
TOLERANCE = 1e-4
"""Greatest error, as a part of the result's greatest magnitude."""


@dataclass(frozen=True)
class Case:
    """One comparison. `work`: bytes to move, or operations (`computes`) to do; the functions return their results."""

    kernel: str
    shape: tuple[int, ...]
    ours: Callable[[], torch.Tensor]
    theirs: Callable[[], torch.Tensor]
    exact: Callable[[], torch.Tensor]
    work: int
    computes: bool = False


@dataclass(frozen=True)
class Result:
    """Seconds a call, how many times faster than torch, and the part of the ceiling reached."""

    kernel: str
    shape: tuple[int, ...]
    seconds: Quartiles
    torch_seconds: Quartiles
    ratio: Quartiles
    ceiling: float
    error: float


def softmax_cases(elements: int) -> Iterator[Case]:
    x = torch.randn(elements)
    out, expected = torch.empty_like(x), torch.empty_like(x)
    for rows in row_shapes(elements):
        a, b, c = (tensor.view(rows) for tensor in (x, out, expected))
        yield Case(
            "softmax", rows,
            lambda a=a, b=b: softmax(a, out=b),
            lambda a=a, c=c: torch.softmax(a, -1, out=c),
            lambda a=a: torch.softmax(a.double(), -1),
            8 * elements,
        )  # fmt: skip


def layer_norm_cases(elements: int) -> Iterator[Case]:
    x = torch.randn(elements)
    out = torch.empty_like(x)
    for rows in row_shapes(elements):
        a, o, weight, bias = x.view(rows), out.view(rows), torch.randn(rows[1]), torch.randn(rows[1])
        yield Case(
            "layer_norm", rows,
            lambda a=a, o=o, w=weight, b=bias: layer_norm(a, w, b, out=o),
            lambda a=a, w=weight, b=bias: torch.nn.functional.layer_norm(a, w.shape, w, b),
            lambda a=a, w=weight, b=bias: torch.nn.functional.layer_norm(a.double(), w.shape, w.double(), b.double()),
            8 * elements + 8 * rows[1],
        )  # fmt: skip


def matmul_cases(_: int) -> Iterator[Case]:
    for m, n, k in MATMULS:
        a, b = torch.randn(m, k), torch.randn(k, n)
        out, expected = torch.empty(m, n), torch.empty(m, n)
        yield Case(
            "matmul", (m, n, k),
            lambda a=a, b=b, out=out: matmul(a, b, out=out),
            lambda a=a, b=b, c=expected: torch.mm(a, b, out=c),
            lambda a=a, b=b: a.double() @ b.double(),
            2 * m * n * k, computes=True,
        )  # fmt: skip


CASES = {"matmul": matmul_cases, "softmax": softmax_cases, "layer_norm": layer_norm_cases}


def row_shapes(elements: int) -> list[tuple[int, int]]:
    """Every power of two from 16 to all elements, as (rows, row length)."""
    exponents = range(4, elements.bit_length())
    return [(elements >> exponent, 1 << exponent) for exponent in exponents]


def relative_error(case: Case) -> float:
    """Greatest error as a part of the greatest magnitude."""
    exact = case.exact()
    return float((case.ours().double() - exact).abs().max() / exact.abs().max())


def measure(case: Case, ceiling: Copy | MultiplyAdd, rounds: int) -> Result:
    """Check, then time: ours, torch's and the ceiling in turns."""
    error = relative_error(case)
    seconds = take_turns({"ours": case.ours, "torch": case.theirs, "ceiling": ceiling}, rounds)
    ours = Quartiles.of(seconds["ours"])
    unit = ceiling.operations if isinstance(ceiling, MultiplyAdd) else ceiling.bytes_moved
    reached = (case.work / min(seconds["ours"])) / (unit / min(seconds["ceiling"]))
    ratio = times_faster(seconds["torch"], seconds["ours"])
    return Result(case.kernel, case.shape, ours, Quartiles.of(seconds["torch"]), ratio, reached, error)


def table_of(results: list[Result]) -> Table:
    table = Table(box=None)
    for title in ("kernel", "shape", "ms", "torch ms", "times faster", "of ceiling"):
        table.add_column(title, justify="left" if title == "kernel" else "right", no_wrap=True)
    for result in results:
        shape = "×".join(map(str, result.shape))
        times = (f"{1e3 * spread.median:.2f}" for spread in (result.seconds, result.torch_seconds))
        table.add_row(result.kernel, shape, *times, str(result.ratio), f"{100 * result.ceiling:.0f} %")
    return table


def main(
    only: Annotated[list[str] | None, typer.Option(help="matmul, softmax, layer_norm; all unless given.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each takes its turn.")] = 9,
    threads: Annotated[int | None, typer.Option(min=1, help="All cores unless given.")] = None,
    exponent: Annotated[int, typer.Option(min=4, max=30, help="Rows have 2^this elements in all.")] = 24,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
) -> None:
    """Measure and compare; exits with 1 where any result is wrong."""
    unknown = set(only or ()) - set(CASES)
    if unknown:
        raise typer.BadParameter(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    threads = threads or vk.get_threads()
    vk.set_threads(threads)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    keep_freed_memory()
    machine, elements = Machine.here(threads), 1 << exponent
    console.print(f"{machine.cpu}, {threads} of {machine.cores} cores, torch {machine.torch}")
    copy, multiply_add = Copy(elements, threads), MultiplyAdd(threads)
    results: list[Result] = []
    with console.status("") as status:
        for name in only or CASES:
            for case in CASES[name](elements):
                status.update(f"{case.kernel} {' × '.join(map(str, case.shape))}")
                results.append(measure(case, multiply_add if case.computes else copy, rounds))
    ceilings = ceiling_rates(copy, multiply_add, rounds)
    console.print(table_of(results))
    console.print(f"copy {ceilings['copy'] / 1e9:.1f} GB/s, multiply-adds {ceilings['multiply_add'] / 1e9:.0f} GFLOP/s")
    if json_file is not None:
        json_file.write_text(json.dumps(report(machine, ceilings, results), indent=1) + "\n")
    wrong = [result for result in results if not result.error <= TOLERANCE]
    for result in wrong:
        console.print(f"[red]{result.kernel} {result.shape} is wrong: error {result.error:.2g}[/red]")
    raise typer.Exit(1 if wrong else 0)


def ceiling_rates(copy: Copy, multiply_add: MultiplyAdd, rounds: int) -> dict[str, float]:
    """Bytes and operations a second, at best."""
    seconds = take_turns({"copy": copy, "multiply_add": multiply_add}, rounds)
    return {
        "copy": copy.bytes_moved / min(seconds["copy"]),
        "multiply_add": multiply_add.operations / min(seconds["multiply_add"]),
    }


def report(machine: Machine, ceilings: dict[str, float], results: list[Result]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "machine": machine.as_json(),
        "ceilings": ceilings,
        "results": [asdict(result) for result in results],
    }


if __name__ == "__main__":
    typer.run(main)
