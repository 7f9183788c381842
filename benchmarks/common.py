"""What benchmarks share: turns, spreads, the machine, and the ceilings that it sets."""

from __future__ import annotations

import ctypes
import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from vkernels.targets.host_cpu import cpu_limits


@dataclass(frozen=True)
class Quartiles:
    """The middle of several measurements, and the quarters below and above it."""

    median: float
    lower: float
    upper: float

    @staticmethod
    def of(values: Sequence[float]) -> Quartiles:
        lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75])
        return Quartiles(float(middle), float(lower), float(upper))

    def __str__(self) -> str:
        return f"{self.median:.2f} [dim]{self.lower:.2f}–{self.upper:.2f}[/dim]"


def json_lines(path: Path) -> Iterator[Any]:
    """What each line of a file holds as JSON; a line that was cut off is left out. Nothing where there is no file."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield record


PAUSE = 0.01
"""Seconds between turns: threads of the last one spin for a while, waiting for more work, and would be in the way."""


def take_turns(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each run in each round, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            sleep(PAUSE)
            start = perf_counter()
            run()
            if number:
                seconds[name].append(perf_counter() - start)
    return seconds


def times_faster(theirs: Sequence[float], ours: Sequence[float]) -> Quartiles:
    """How many times faster ours is, compared round by round."""
    return Quartiles.of([a / b for a, b in zip(theirs, ours, strict=True)])


def keep_freed_memory() -> None:
    """Have C's malloc hand freed memory out again, so that who allocates results does not pay for fresh pages.

    Without it a call that allocates 64 MiB spends more on page faults than on its work. Does nothing without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    most_maps, trim_threshold = -4, -1
    mallopt(most_maps, 0)
    mallopt(trim_threshold, 2**31 - 1)


@dataclass(frozen=True)
class Machine:
    """What a result was measured on. `threads`: those of this run; `cache` and `core_cache` in bytes."""

    cpu: str
    cores: int
    threads: int
    register_bytes: int
    core_cache: int
    cache: int
    python: str
    torch: str

    @staticmethod
    def here(threads: int) -> Machine:
        import torch

        from vkernels.compiler.backends.llvm import host_processor

        limits = cpu_limits()
        return Machine(
            host_processor(), limits.multiprocessors, threads,
            limits.register_bytes, limits.shared, limits.cache,
            platform.python_version(), torch.__version__,
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def in_threads(threads: int, work: Callable[[int], object]) -> None:
    """Call `work` with 0 … threads - 1 at once, each in its own thread."""
    if threads == 1:
        work(0)
    else:
        list(_pool(threads).map(work, range(threads)))


class Copy:
    """Copying `elements` f32 from one array to another with C's memmove, split over threads.

    It is what anything that reads and writes so much can hope for: large moves stream past the caches.
    """

    def __init__(self, elements: int, threads: int):
        self.source, self.target = np.ones(elements, np.float32), np.zeros(elements, np.float32)
        self.threads, self.bytes_moved = threads, 8 * elements
        self._bounds = [self.source.nbytes * k // threads // 64 * 64 for k in range(threads)] + [self.source.nbytes]

    def __call__(self) -> None:
        in_threads(self.threads, self._part)

    def _part(self, number: int) -> None:
        start, stop = self._bounds[number], self._bounds[number + 1]
        ctypes.memmove(self.target.ctypes.data + start, self.source.ctypes.data + start, stop - start)


CHAINS = 12
"""Independent multiply-adds in flight: two a cycle with a latency of four, and half as many again."""


class MultiplyAdd:
    """Multiply-adds of f32 in registers and nothing else, on every thread: `operations` of them, additions counted."""

    def __init__(self, threads: int, steps: int = 1_000_000):
        lanes = cpu_limits().register_bytes // 4
        self.threads, self.steps = threads, steps
        self.operations = 2 * CHAINS * lanes * steps * threads
        self._function = _multiply_add_loop(lanes)
        self._out = np.zeros((threads, CHAINS * lanes), np.float32)

    def __call__(self) -> None:
        in_threads(self.threads, lambda number: self._function(self._out[number].ctypes.data, self.steps))


@cache
def _multiply_add_loop(lanes: int) -> Any:
    """`void loop(float *out, i64 steps)`: `CHAINS` vectors, each multiplied and added to, over and over."""
    from llvmlite import binding, ir

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module, vector, i64 = ir.Module(), ir.VectorType(ir.FloatType(), lanes), ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [vector.as_pointer(), i64]), "loop")
    entry, body, done = (function.append_basic_block(name) for name in ("entry", "body", "done"))
    fma = ir.Function(module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f32")
    ir.IRBuilder(entry).branch(body)
    build = ir.IRBuilder(body)
    index, chains = build.phi(i64), [build.phi(vector) for _ in range(CHAINS)]
    index.add_incoming(i64(0), entry)
    factor, addend = (ir.Constant(vector, [value] * lanes) for value in (0.5, 1.0))
    results = [build.call(fma, [chain, factor, addend]) for chain in chains]
    following = build.add(index, i64(1))
    build.cbranch(build.icmp_signed("<", following, function.args[1]), body, done)
    index.add_incoming(following, body)
    for number, (chain, result) in enumerate(zip(chains, results, strict=True)):
        chain.add_incoming(ir.Constant(vector, [float(number)] * lanes), entry)
        chain.add_incoming(result, body)
    build = ir.IRBuilder(done)
    for number, result in enumerate(results):
        build.store(result, build.gep(function.args[0], [i64(number)]), align=4)
    build.ret_void()
    machine = binding.Target.from_default_triple().create_target_machine(
        binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten() + ",-prefer-256-bit", opt=2, jit=True
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), machine)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(engine.get_function_address("loop"))
    call.engine = engine  # keeps the code alive
    return call
