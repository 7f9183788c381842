"""Measure what handing a launch to the pool's threads costs."""

from __future__ import annotations

import ctypes
import statistics
import time

from .pool import Pool, is_native
from .work_descriptor import NativeLaunch, WorkDescriptor

ROUNDS = 15
PAUSE = 1e-3
"""Seconds between launches, in which helpers go to sleep: launches of a program that does other things find them so."""
STEPS = 1_000_000
"""Additions of one program, one after another: it takes longer than helpers take to wake."""

_TEXT = f"""
define void @work(ptr %arguments, i64 %begin, i64 %end, ptr %workspace) {{
entry:
  %place = alloca i64
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  %sum = phi i64 [%begin, %entry], [%xored, %loop]
  %added = add i64 %sum, %end
  %xored = xor i64 %added, %end
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, {STEPS // 2}
  br i1 %more, label %loop, label %done
done:
  store volatile i64 %xored, ptr %place
  ret void
}}
"""


def measure_launch(threads: int) -> float | None:
    """Seconds that a launch on so many threads takes more than one of its programs alone, in the median; None where
    there is one thread, or no native pool."""
    if threads < 2 or not is_native():
        return None
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True, codemodel="jitdefault")
    with llvm.create_mcjit_compiler(llvm.parse_assembly(_TEXT), machine) as engine:
        engine.finalize_object()
        work, none = engine.get_function_address("work"), ctypes.c_int64()
        pool = Pool()
        try:
            pool.reserve(threads)
            together, alone = (
                WorkDescriptor([NativeLaunch(work, programs)], ctypes.addressof(none), programs, 0, None)
                for programs in (threads, 1)
            )
            return max(0.0, _median(pool, together) - _median(pool, alone))
        finally:
            pool.stop()


def _median(pool: Pool, call: WorkDescriptor) -> float:
    return statistics.median(_seconds(pool, call) for _ in range(ROUNDS))


def _seconds(pool: Pool, call: WorkDescriptor) -> float:
    time.sleep(PAUSE)
    start = time.perf_counter()
    pool.run(call)
    return time.perf_counter() - start
