"""Measure the rates of this machine's CPU, once; docs/slices.md says how."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.system_resources import ThreadPool
from vkernels.targets.host_cpu import MeasuredCpuRates, cpu_limits, known_cpu_rates, store_cpu_rates

MULTIPLY_ADDS = 10
"""Independent multiply-adds of vectors in a step: more than two units with a latency of four cycles can hold."""

LOADED_VECTORS = 8
"""Vectors that one block has, each loaded into an accumulator of its own."""

CHAIN_CYCLES = 16
"""Cycles of a step of `chain`: additions and exclusive ors by turns, each waiting for the one before."""


@dataclass(frozen=True)
class Loops:
    """`multiply(memory, steps)`, `read(memory, blocks, steps)`, `gather(memory, places, blocks, steps)`,
    `chain(steps)`: none holds Python's lock. `places`: the position of each vector, an i32 counted in vectors."""

    multiply: Callable[..., None]
    read: Callable[..., None]
    gather: Callable[..., None]
    chain: Callable[..., None]


@contextmanager
def loops(register_bytes: int) -> Iterator[Loops]:
    """The loops, for vector registers of this size; they live until the context ends."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=f"{features},-prefer-256-bit", opt=2, jit=True, codemodel="jitdefault"
    )
    module = llvm.parse_assembly(_text(register_bytes))
    with llvm.create_mcjit_compiler(module, machine) as engine:
        engine.finalize_object()
        word = ctypes.c_int64

        def function(name: str, words: int) -> Callable[..., None]:
            return ctypes.CFUNCTYPE(None, *[word] * words)(engine.get_function_address(name))

        yield Loops(function("multiply", 2), function("read", 3), function("gather", 4), function("chain", 1))


def _text(register_bytes: int) -> str:
    floats, words = f"<{register_bytes // 4} x float>", f"<{register_bytes // 8} x i64>"
    sums, loads, links = range(MULTIPLY_ADDS), range(LOADED_VECTORS), range(CHAIN_CYCLES)
    multiply = [f"%s{n} = phi {floats} [zeroinitializer, %entry], [%t{n}, %loop]" for n in sums]
    multiply += [f"%t{n} = call {floats} @llvm.fmuladd({floats} %s{n}, {floats} %a, {floats} %a)" for n in sums]
    read = [f"%s{n} = phi {words} [%r{n}, %pass], [%t{n}, %loop]" for n in loads]
    for n in loads:
        read += [f"%p{n} = getelementptr {words}, ptr %here, i64 {n}", f"%v{n} = load {words}, ptr %p{n}, align 8"]
        read += [f"%t{n} = xor {words} %s{n}, %v{n}"]
    gather = [f"%s{n} = phi {floats} [%r{n}, %pass], [%t{n}, %loop]" for n in loads]
    for n in loads:
        gather += [f"%q{n} = getelementptr i32, ptr %here, i64 {n}", f"%i{n} = load i32, ptr %q{n}, align 4"]
        gather += [f"%p{n} = getelementptr {floats}, ptr %at, i32 %i{n}", f"%v{n} = load {floats}, ptr %p{n}, align 8"]
        gather += [f"%t{n} = call {floats} @llvm.fmuladd({floats} %v{n}, {floats} %a, {floats} %s{n})"]
    chain = ["%c0 = phi i64 [%steps, %entry], [%c16, %loop]"]
    chain += [f"%c{n + 1} = {'xor' if n % 2 else 'add'} i64 %c{n}, %steps" for n in links]
    return f"""
declare {floats} @llvm.fmuladd({floats}, {floats}, {floats})

define void @multiply(i64 %memory, i64 %steps) {{
entry:
  %at = inttoptr i64 %memory to ptr
  %a = load {floats}, ptr %at, align 8
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  {_lines(multiply)}
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %loop, label %done
done:
  %out = getelementptr {floats}, ptr %at, i64 1
  {_lines(f"store volatile {floats} %t{n}, ptr %out, align 8" for n in sums)}
  ret void
}}

define void @read(i64 %memory, i64 %blocks, i64 %steps) {{
entry:
  %at = inttoptr i64 %memory to ptr
  br label %pass
{_passes(read, "%at", words, words)}

define void @gather(i64 %memory, i64 %places, i64 %blocks, i64 %steps) {{
entry:
  %at = inttoptr i64 %memory to ptr
  %first = inttoptr i64 %places to ptr
  %a = load {floats}, ptr %at, align 8
  br label %pass
{_passes(gather, "%first", "i32", floats)}

define void @chain(i64 %steps) {{
entry:
  %out = alloca i64
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  {_lines(chain)}
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %loop, label %done
done:
  store volatile i64 %c{CHAIN_CYCLES}, ptr %out
  ret void
}}
"""


def _passes(body: list[str], first: str, element: str, kind: str) -> str:
    """`%steps` passes over `%blocks` blocks of `LOADED_VECTORS` elements from the pointer `first` on."""
    loads = range(LOADED_VECTORS)
    return f"""pass:
  %p = phi i64 [0, %entry], [%done_passes, %after]
  {_lines(f"%r{n} = phi {kind} [zeroinitializer, %entry], [%t{n}, %after]" for n in loads)}
  br label %loop
loop:
  %n = phi i64 [0, %pass], [%next, %loop]
  %here = phi ptr [{first}, %pass], [%there, %loop]
  {_lines(body)}
  %there = getelementptr {element}, ptr %here, i64 {LOADED_VECTORS}
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %blocks
  br i1 %more, label %loop, label %after
after:
  %done_passes = add i64 %p, 1
  %again = icmp slt i64 %done_passes, %steps
  br i1 %again, label %pass, label %done
done:
  {_lines(f"store volatile {kind} %t{n}, ptr %at, align 8" for n in loads)}
  ret void
}}"""


def _lines(lines: Iterator[str] | list[str]) -> str:
    return "\n  ".join(lines)


SECONDS = 6e-3
"""How long one timed run takes, about."""

ROUNDS = 5
"""Timed runs. The fastest counts, as disturbances only make a run slower."""

MAX_BYTES = 1 << 29
"""Memory that all threads together read, at most."""

HALVES = 0x3F0000003F000000
"""Two floats of 0.5: multiplied and added up they stay ordinary numbers."""


def calibrate_cpu(cache: DiskCache | None = None, again: bool = False) -> MeasuredCpuRates:
    """The rates of this machine's CPU: those on disk, or measured now, in a few seconds, and stored there.

    `cache`: where to store them, this user's cache unless given. `again`: measure in any case. Other work on the
    machine makes rates too low: measure again when it is idle.
    """
    found = None if again else known_cpu_rates(cache)
    if found is None:
        found = measure_cpu()
        store_cpu_rates(found, cache)
    return found


def measure_cpu() -> MeasuredCpuRates:
    """Measure now: time loops of our own machine code, on one core and on all that this process may use at once.

    A nearer memory is never slower, and many cores are never slower than one: otherwise something disturbed the run.
    """
    limits = cpu_limits()
    cores, width = limits.multiprocessors, limits.register_bytes
    with ThreadPool(cores) as threads, loops(width) as code:
        measure = Measure(threads)
        clock = CHAIN_CYCLES / measure.seconds_a_step([(code.chain, ())])
        alone = [(code.multiply, (buffer(2 * width),)) for _ in range(cores)]
        multiply = MULTIPLY_ADDS * width // 4 * cores / measure.seconds_a_step(alone)

        def read(total: int, cores: int) -> float:
            """Bytes a second that `cores` cores read, each from its own part of `total` bytes, repeatedly."""
            block = LOADED_VECTORS * width
            blocks = max(1, total // cores // block)
            work = [(code.read, (buffer(blocks * block), blocks)) for _ in range(cores)]
            return blocks * block * cores / measure.seconds_a_step(work)

        far = min(4 * limits.cache, MAX_BYTES, max(limits.memory // 8, 1 << 24))
        core_memory = read(far, 1)
        memory = max(core_memory, read(min(far * cores, MAX_BYTES), cores))
        cache = max(memory, read(max(limits.cache // 2, 2 * limits.shared * cores), cores))
        shared = max(cache, read(limits.shared // 2 * cores, cores))
        return MeasuredCpuRates(clock, memory, core_memory, cache, shared, multiply)


def buffer(size: int) -> Any:
    """Memory aligned to 64 bytes. Every page is written, so that the system has allocated it."""
    import numpy as np

    words = np.full(-(-size // 8) + 8, HALVES, dtype=np.int64)
    return words[-words.ctypes.data % 64 // 8 :]


Work = tuple[Callable[..., None], Sequence[Any]]
"""A loop, and its arguments before the number of steps: arrays and numbers."""


class Measure:
    """Times loops that run on several threads at once."""

    def __init__(self, threads: ThreadPool):
        self._threads = threads

    def seconds_a_step(self, work: Sequence[Work]) -> float:
        """Seconds that one step takes, of the fastest round, once enough steps run to be timed."""
        steps = 1
        while (taken := self._fastest(work, steps)) < SECONDS / 4 and steps < 1 << 40:
            steps *= 4
        steps = max(1, round(steps * SECONDS / taken))
        return self._fastest(work, steps) / steps

    def _fastest(self, work: Sequence[Work], steps: int) -> float:
        return min(self._run(work, steps) for _ in range(ROUNDS))

    def _run(self, work: Sequence[Work], steps: int) -> float:
        """Seconds from the first start to the last end."""
        together = threading.Barrier(len(work))

        def run(function: Callable[..., None], values: Sequence[Any]) -> tuple[float, float]:
            addresses = [value if isinstance(value, int) else value.ctypes.data for value in values]
            together.wait()
            start = time.perf_counter()
            function(*addresses, steps)
            return start, time.perf_counter()

        times = list(self._threads.map(lambda pair: run(*pair), work))
        return max(end for _, end in times) - min(start for start, _ in times)
