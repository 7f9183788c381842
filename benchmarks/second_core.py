"""What a second core costs: short calls alone, shared where the pool decides so, and always shared.

    python benchmarks/second_core.py [--gaps 0,20,100,1000] [--work 2,4,8,16,32,64,128] [--rounds 5]

Between calls the calling thread is busy for a while (`gaps`, in microseconds): after some 50 µs the helper sleeps. Then
what one launch more costs within a call. Medians of all calls, which take turns. Two threads, native pool.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Annotated

import llvmlite.binding as llvm
import numpy as np
import typer
from common import PAUSE

from vkernels.runtime.pool import Pool
from vkernels.runtime.work_descriptor import NativeLaunch, WorkDescriptor

PROGRAMS = 16
CALLS = 200
BUSY = r"""
; Arguments: 0 the turns of a program, each an addition and a multiplication one after another.
define void @busy(ptr %arguments, i64 %begin, i64 %end, ptr %workspace) {
entry:
  %turns = load i64, ptr %arguments
  %programs = sub i64 %end, %begin
  %all = mul i64 %programs, %turns
  %result_at = alloca i64
  br label %turn
turn:
  %t = phi i64 [ 0, %entry ], [ %t_next, %next ]
  %value = phi i64 [ %begin, %entry ], [ %mixed, %next ]
  %more = icmp slt i64 %t, %all
  br i1 %more, label %next, label %done
next:
  %product = mul i64 %value, 6364136223846793005
  %mixed = add i64 %product, 1442695040888963407
  %t_next = add i64 %t, 1
  br label %turn
done:
  store volatile i64 %value, ptr %result_at
  ret void
}
"""


class Work:
    """Calls of two threads that compute for `seconds` on one."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._jit = llvm.create_lljit_compiler()
        self._library = llvm.JITLibraryBuilder().add_ir(BUSY).export_symbol("busy").link(self._jit, "busy")
        self.pool = Pool()
        self.pool.reserve(2)
        self._kept: list[object] = []
        self._turns_a_second = 1e9
        run = self.call(1e-3, 1, 1e-3)
        self._turns_a_second *= 1e-3 / min(_seconds(run) for _ in range(50))

    def call(self, seconds: float, threads: int, said: float, launches: int = 1) -> Callable[[], None]:
        """`said`: seconds that the pool is told."""
        turns = np.array([round(seconds / launches * self._turns_a_second / PROGRAMS)], np.int64)
        each = [NativeLaunch(self._library["busy"], PROGRAMS)] * launches
        call = WorkDescriptor(each, turns.ctypes.data, 2, 0, None)
        call.set_seconds(said)
        call.set_threads(threads)
        self._kept.append((turns, call))
        return self.pool.runner(call)


def main(
    gaps: Annotated[str, typer.Option(help="microseconds between calls")] = "0,20,100,1000",
    work: Annotated[str, typer.Option(help="microseconds of a call on one thread")] = "2,4,8,16,32,64,128",
    rounds: Annotated[int, typer.Option(min=1, help="times that each way takes its turn")] = 5,
) -> None:
    """Print two tables in Markdown."""
    subject = Work()
    pauses = [float(gap) for gap in gaps.split(",")]
    print("| one thread, µs | " + " | ".join(f"gaps of {gap:g} µs: alone, decided, shared" for gap in pauses) + " |")
    print("|---" * (len(pauses) + 1) + "|")
    for each in (float(number) * 1e-6 for number in work.split(",")):
        ways = [subject.call(each, threads, said) for threads, said in ((1, 1.0), (2, each), (2, 1.0))]
        cells = (", ".join(f"{1e6 * each:.1f}" for each in _medians(ways, 1e-6 * gap, rounds)) for gap in pauses)
        print(f"| {1e6 * each:g} | " + " | ".join(cells) + " |")
    print("\n| one launch, µs of work | a launch more costs beyond its work, µs |\n|---|---|")
    for each in (1e-6, 4e-6, 16e-6):
        one, many = _medians([subject.call(n * each, 2, 1.0, n) for n in (1, 8)], 0, rounds)
        print(f"| {1e6 * each:g} | {1e6 * ((many - one) / 7 - each / 2):.2f} |")


def _medians(ways: list[Callable[[], None]], gap: float, rounds: int) -> list[float]:
    seconds: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for run, found in zip(ways, seconds, strict=True):
            sleep(PAUSE)
            for _ in range(20):
                run()
            for _ in range(CALLS):
                until = perf_counter() + gap
                while gap and perf_counter() < until:
                    pass
                found.append(_seconds(run))
    return [statistics.median(found) for found in seconds]


def _seconds(run: Callable[[], None]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


if __name__ == "__main__":
    typer.run(main)
