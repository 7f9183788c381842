"""Measure what handing a launch to the pool's threads costs, which wait for one or sleep."""

from __future__ import annotations

import ctypes
import statistics
import time
from functools import partial

from .pool import Pool, Waiting, is_native
from .work_descriptor import NativeLaunch, WorkDescriptor

ROUNDS = 15
PAUSE = 1e-3
"""Seconds between launches, in which helpers go to sleep: launches of a program that does other things find them so."""
LONG = 500_000
"""Steps of one program, of two dependent additions each: it takes longer than helpers take to wake."""
SHORT_ROUNDS = 400
SHORT = 15_000
"""Steps of one program that takes less time than helpers wait before they sleep."""

_TEXT = """
define void @work(ptr %arguments, i64 %begin, i64 %end, ptr %workspace) {
entry:
  %place = alloca i64
  %steps = load i64, ptr %arguments
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  %sum = phi i64 [%begin, %entry], [%xored, %loop]
  %added = add i64 %sum, %end
  %xored = xor i64 %added, %end
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %loop, label %done
done:
  store volatile i64 %xored, ptr %place
  ret void
}
"""


def measure_launch(threads: int) -> tuple[float, float] | None:
    """Seconds that a launch on so many threads takes more than one of its programs alone, in the median: where helpers
    wait for it, and where they sleep. None where there is one thread, or no native pool."""
    if threads < 2 or not is_native():
        return None
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True, codemodel="jitdefault")
    with llvm.create_mcjit_compiler(llvm.parse_assembly(_TEXT), machine) as engine:
        engine.finalize_object()
        work = engine.get_function_address("work")
        pool = Pool(Waiting(share=0.0, wake=0.0))
        try:
            pool.reserve(threads)
            costs = partial(_costs, pool, work, threads)
            return costs(SHORT, SHORT_ROUNDS, 0.0), costs(LONG, ROUNDS, PAUSE)
        finally:
            pool.stop()


def _costs(pool: Pool, work: int, threads: int, steps: int, rounds: int, pause: float) -> float:
    """Seconds that a program for each thread takes more than one, with a pause before each launch."""
    given = ctypes.c_int64(steps)
    calls = [
        WorkDescriptor([NativeLaunch(work, programs)], ctypes.addressof(given), programs, 0, None)
        for programs in (threads, 1)
    ]
    together, alone = (statistics.median(_seconds(pool, call, pause) for _ in range(rounds)) for call in calls)
    return max(0.0, together - alone)


def _seconds(pool: Pool, call: WorkDescriptor, pause: float) -> float:
    if pause:
        time.sleep(pause)
    start = time.perf_counter()
    pool.run(call)
    return time.perf_counter() - start
