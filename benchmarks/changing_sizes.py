"""Calls of random lengths: compiles, and speed against code for exact sizes and torch.compile with dynamic shapes.

    python benchmarks/changing_sizes.py [--only softmax] [--longest 4096] [--lengths 1000] [--sample 24]
                                        [--rounds 10] [--quick]

Softmax of 256 rows, rotary embeddings, attention of one head, f32, one thread, random lengths. First all
lengths are called once, in random order, in fresh sessions with nothing on disk; then a sample of them is timed in
turns: code of classes, code for exactly this length, and torch's. Times are processor times of the thread. No shape
gets code of its own for running often. Results are compared with float64 first.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from common import Machine, Quartiles
from rich.console import Console
from rich.table import Table

from vkernels.compiler.session import CompilerSession
from vkernels.library.attention import attention_rows
from vkernels.library.elements import rotate_pairs
from vkernels.library.rows import softmax_rows
from vkernels.runtime import class_calls, set_threads
from vkernels.runtime.dispatch import Launcher

console = Console(highlight=False)

TOLERANCE = 1e-4
SAMPLE_SECONDS = 2e-3
"""Calls that are shorter are repeated until a sample takes as long."""

Tensors = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments for a length, the last of them the result; and torch's function of the others."""

    kernel: Any
    arguments: Callable[[int], Tensors]
    theirs: Callable[..., torch.Tensor]


def softmax_arguments(length: int, rows: int = 256) -> Tensors:
    return torch.randn(rows, length), torch.empty(rows, length)


def rope_arguments(length: int) -> Tensors:
    angle = torch.randn(length, 32)
    x = torch.randn(1, length, 8, 2, 32)
    return x, angle.cos(), angle.sin(), 1.0, torch.empty_like(x)


def attention_arguments(length: int, heads: int = 1) -> Tensors:
    q, k, v, out = (torch.randn(1, heads, length, 64) for _ in range(4))
    return q[:, :, None].transpose(3, 4), k, v, 0.125, out[:, :, None].transpose(3, 4), False


def their_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def their_rope(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, direction: float) -> torch.Tensor:
    c, s = cosine[:, None], sine[:, None] * direction
    one, other = x[..., 0, :], x[..., 1, :]
    return torch.stack((one * c - other * s, other * c + one * s), -2)


def their_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    query = q[:, :, 0].transpose(2, 3)
    return torch.nn.functional.scaled_dot_product_attention(query, k, v, scale=scale)[:, :, None].transpose(3, 4)


CASES = {
    "softmax": Case(softmax_rows, softmax_arguments, their_softmax),
    "rope": Case(rotate_pairs, rope_arguments, their_rope),
    "attention": Case(attention_rows, attention_arguments, their_attention),
}


class Ours:
    """Calls of a kernel in a session of its own; `exact_shapes` as there."""

    def __init__(self, case: Case, stack: ExitStack, **options: Any):
        self.session = CompilerSession(**options)
        stack.callback(self.session.close)
        stack.enter_context(self.session.patient())
        self.call = Launcher(case.kernel, self.session)

    @property
    def compiles(self) -> int:
        return sum(kernel.compiles for kernel in self.session.counters.kernels.values())


class Theirs:
    """Calls of torch's function, compiled for dynamic shapes; results are written to `out` by no one."""

    def __init__(self, case: Case):
        import torch._dynamo as dynamo

        dynamo.reset()
        dynamo.utils.counters.clear()
        self._counters = dynamo.utils.counters
        self.call = torch.compile(case.theirs, dynamic=True)

    @property
    def compiles(self) -> int:
        return int(self._counters["stats"]["unique_graphs"])


def result_numbers(arguments: Tensors) -> tuple[Tensors, torch.Tensor]:
    """What goes into torch's function, and the result."""
    number = next(n for n in reversed(range(len(arguments))) if isinstance(arguments[n], torch.Tensor))
    return arguments[:number], arguments[number]


def check(case: Case, call: Callable[..., object], arguments: Tensors) -> None:
    given, out = result_numbers(arguments)
    call(*arguments)
    exact = case.theirs(*(value.double() if isinstance(value, torch.Tensor) else value for value in given))
    if not torch.allclose(out.double(), exact, rtol=TOLERANCE, atol=TOLERANCE):
        raise SystemExit(f"{case.kernel.name}: wrong for {[tuple(a.shape) for a in given if torch.is_tensor(a)]}")


def compare(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each in each round, in turns."""
    repeats = {}
    for name, run in runs.items():
        run()
        start = time.thread_time()
        run()
        repeats[name] = max(1, int(SAMPLE_SECONDS / max(1e-7, time.thread_time() - start)))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    names = [*runs]
    for number in range(rounds):
        for name in names if number % 2 else names[::-1]:
            run = runs[name]
            run()  # each finds its own tensors in the caches
            start = time.thread_time()
            for _ in range(repeats[name]):
                run()
            seconds[name].append((time.thread_time() - start) / repeats[name])
    return seconds


@dataclass(frozen=True)
class Result:
    """`calls`: seconds of all first calls. `speeds`: exact code's time / class code's, by length; `theirs`: torch's."""

    compiles: int
    calls: float
    speeds: dict[int, Quartiles]
    their_compiles: int = 0
    their_calls: float = 0.0
    theirs: dict[int, Quartiles] | None = None


def measure(case: Case, lengths: list[int], sample: list[int], rounds: int, with_torch: bool) -> Result:
    with ExitStack() as stack:
        ours = Ours(case, stack)
        exact = Ours(case, stack, exact_shapes=1 << 30)
        calls = first_calls(case, ours.call, lengths)
        compiled = ours.compiles
        torchs = Theirs(case) if with_torch else None
        their_calls = 0.0
        if torchs is not None:
            their_calls = first_calls(case, lambda *a: torchs.call(*result_numbers(a)[0]), lengths)
        their_compiles = 0 if torchs is None else torchs.compiles
        speeds, theirs = {}, {}
        for length in sample:
            arguments = case.arguments(length)
            check(case, ours.call, arguments)
            check(case, exact.call, arguments)
            runs = {"ours": lambda: ours.call(*arguments), "exact": lambda: exact.call(*arguments)}  # noqa: B023
            if torchs is not None:
                given, _ = result_numbers(arguments)
                runs["torch"] = lambda: torchs.call(*given)  # noqa: B023
            seconds = compare(runs, rounds)
            speeds[length] = Quartiles.of(np.divide(seconds["exact"], seconds["ours"]).tolist())
            if torchs is not None:
                theirs[length] = Quartiles.of(np.divide(seconds["torch"], seconds["ours"]).tolist())
        return Result(compiled, calls, speeds, their_compiles, their_calls, theirs or None)


def first_calls(case: Case, call: Callable[..., object], lengths: list[int]) -> float:
    """Seconds of one call of each length."""
    seconds = 0.0
    for length in lengths:
        arguments = case.arguments(length)
        start = time.perf_counter()
        call(*arguments)
        seconds += time.perf_counter() - start
    return seconds


def spread(speeds: dict[int, Quartiles]) -> str:
    """Geometric mean of the medians; least, at which length."""
    medians = {length: each.median for length, each in speeds.items()}
    least = min(medians, key=medians.__getitem__)
    return f"{np.exp(np.mean(np.log([*medians.values()]))):.2f} [dim]{medians[least]:.2f} at {least}[/dim]"


def main(
    only: Annotated[list[str], typer.Option(help="softmax, rope or attention.")] = [],  # noqa: B006
    longest: int = 4096,
    lengths: int = 1000,
    sample: int = 24,
    rounds: int = 10,
    seed: int = 0,
    quick: Annotated[bool, typer.Option(help="Few short lengths, without torch.compile.")] = False,
    path: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    """Measure calls whose sizes change."""
    torch.set_num_threads(1)
    set_threads(1)
    class_calls.WORTH_SECONDS = float("inf")
    choose = random.Random(seed)
    drawn = [choose.randint(1, 200 if quick else longest) for _ in range(12 if quick else lengths)]
    picked = sorted(choose.sample(sorted(set(drawn[5:])), 2 if quick else sample))
    table = Table("", "compiles", "s", "speed / exact", "torch: compiles", "s", "× faster than torch")
    results = {}
    for name in only or CASES:
        found = measure(CASES[name], drawn, picked, 2 if quick else rounds, not quick)
        results[name] = asdict(found)
        theirs = ("", "", "") if found.theirs is None else (
            str(found.their_compiles), f"{found.their_calls:.1f}", spread(found.theirs)
        )  # fmt: skip
        table.add_row(name, str(found.compiles), f"{found.calls:.1f}", spread(found.speeds), *theirs)
        for length, speed in found.speeds.items():
            console.print(f"{name} {length}: {speed}" + ("" if not found.theirs else f", torch {found.theirs[length]}"))
    console.print(table)
    if path is not None:
        machine = Machine.here(1).as_json()
        path.write_text(json.dumps({"schema_version": 1, "machine": machine, "results": results}, indent=2))


if __name__ == "__main__":
    typer.run(main)
