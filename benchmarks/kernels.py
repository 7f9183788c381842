"""The library's kernels against torch, in turns, beside what the machine can do.

    python benchmarks/kernels.py [--only matmul] [--rounds 9] [--threads 2] [--exponent 24] [--json FILE]

softmax, layer_norm and cumulative_sum take 2^24 elements as rows of every length from 2^4 to 2^24, stencils as images,
segment sums as segments of random lengths around a mean; the others a few sizes. `ceiling` is
the part of what the machine can do that was reached, measured in the same turns: bytes that must be moved (each input
once, the output once) against a plain copy, or multiply-adds against a loop of nothing else, the best turn of each.
Results go into memory that is there already: given, or, for what torch has no such argument for, kept by malloc.
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
from vkernels.library import (
    attention,
    csr_matmul,
    cumulative_sum,
    layer_norm,
    matmul,
    mlp,
    segment_sum,
    softmax,
    stencil,
)

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


def cumulative_sum_cases(elements: int) -> Iterator[Case]:
    x = torch.randn(elements)
    out, expected = torch.empty_like(x), torch.empty_like(x)
    for rows in row_shapes(elements):
        a, b, c = (tensor.view(rows) for tensor in (x, out, expected))
        yield Case(
            "cumulative_sum", rows,
            lambda a=a, b=b: cumulative_sum(a, out=b),
            lambda a=a, c=c: torch.cumsum(a, -1, out=c),
            lambda a=a: torch.cumsum(a.double(), -1),
            8 * elements,
        )  # fmt: skip


def stencil_cases(elements: int) -> Iterator[Case]:
    for exponent in range(4, elements.bit_length() // 2 + 1, 2):
        side = 1 << exponent
        x = torch.randn(elements // side**2, side, side)
        out, weight = torch.empty_like(x), torch.randn(3, 3)
        yield Case(
            "stencil", tuple(x.shape),
            lambda x=x, w=weight, out=out: stencil(x, w, out),
            lambda x=x, w=weight: convolution(x, w),
            lambda x=x, w=weight: convolution(x.double(), w.double()),
            8 * elements,
        )  # fmt: skip


def convolution(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv2d(x[:, None], weight[None, None], padding=1)[:, 0]


def random_starts(segments: int, mean: int) -> torch.Tensor:
    """Segments of lengths from 0 to twice the mean."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(0, 2 * mean + 1, (segments,)).cumsum(0)])


def segment_sum_cases(elements: int) -> Iterator[Case]:
    for mean in (8, 128, 2048):
        for columns in ((), (64,)):
            segments = max(1, elements // 4 // mean // (64 if columns else 1))
            start = random_starts(segments, mean)
            value = torch.randn(int(start[-1]), *columns)
            out = torch.empty(segments, *columns)
            yield Case(
                "segment_sum", (segments, mean, *columns),
                lambda v=value, s=start, o=out: segment_sum(v, s, o),
                lambda v=value, s=start: torch.segment_reduce(v, "sum", offsets=s, axis=0),
                lambda v=value, s=start: torch.segment_reduce(v.double(), "sum", offsets=s, axis=0),
                4 * (value.numel() + out.numel()) + 8 * segments,
            )  # fmt: skip


def csr_matmul_cases(elements: int) -> Iterator[Case]:
    rows = max(1, elements >> 9)
    for mean, columns in ((8, 64), (32, 64), (32, 256)):
        start = random_starts(rows, mean)
        column, value = torch.randint(0, rows, (int(start[-1]),)), torch.randn(int(start[-1]))
        dense, out = torch.randn(rows, columns), torch.empty(rows, columns)
        sparse = torch.sparse_csr_tensor(start, column, value, (rows, rows))
        yield Case(
            "csr_matmul", (rows, mean, columns),
            lambda s=start, c=column, v=value, d=dense, o=out: csr_matmul(s, c, v, d, out=o),
            lambda a=sparse, d=dense: a @ d,
            lambda a=sparse, d=dense: a.double() @ d.double(),
            4 * (dense.numel() + out.numel()) + 12 * value.numel() + 8 * rows,
        )  # fmt: skip


MLPS = ((1024, 512, 2048, 512), (4096, 256, 1024, 256), (64, 1024, 4096, 1024))


def mlp_cases(_: int) -> Iterator[Case]:
    """Weights as torch's linear layers hold them, transposed."""
    for m, k, h, n in MLPS:
        x, w1, b1, w2, b2 = torch.randn(m, k), torch.randn(h, k), torch.randn(h), torch.randn(n, h), torch.randn(n)
        out, parts = torch.empty(m, n), (x, w1, b1, w2, b2)
        yield Case(
            "mlp", (m, k, h, n),
            lambda x=x, w=w1, b=b1, v=w2, c=b2, out=out: mlp(x, w.t(), b, v.t(), c, out=out),
            lambda parts=parts: two_linear(*parts),
            lambda parts=parts: two_linear(*(tensor.double() for tensor in parts)),
            2 * m * h * (k + n), computes=True,
        )  # fmt: skip


def two_linear(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
    linear = torch.nn.functional.linear
    return linear(linear(x, w1, b1).relu_(), w2, b2)


ATTENTIONS = ((2, 8, 512, 64), (1, 8, 2048, 64), (1, 8, 1024, 128), (1, 1, 512, 512))


def attention_cases(_: int) -> Iterator[Case]:
    """Batch, heads, queries and keys, elements of each."""
    exact = torch.nn.functional.scaled_dot_product_attention
    for shape in ATTENTIONS:
        q, k, v, out = (torch.randn(shape) for _ in range(4))
        batch, heads, rows, depth = shape
        yield Case(
            "attention", shape,
            lambda q=q, k=k, v=v, out=out: attention(q, k, v, out=out),
            lambda q=q, k=k, v=v: exact(q, k, v),
            lambda q=q, k=k, v=v: exact(q.double(), k.double(), v.double()),
            4 * batch * heads * rows * rows * depth, computes=True,
        )  # fmt: skip


CASES = {
    "matmul": matmul_cases,
    "mlp": mlp_cases,
    "attention": attention_cases,
    "softmax": softmax_cases,
    "layer_norm": layer_norm_cases,
    "cumulative_sum": cumulative_sum_cases,
    "stencil": stencil_cases,
    "segment_sum": segment_sum_cases,
    "csr_matmul": csr_matmul_cases,
}


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
    only: Annotated[list[str] | None, typer.Option(help=f"{', '.join(CASES)}; all unless given.")] = None,
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
