"""What is prepared runs with any addresses and scalars, in memory of its own, from many threads at once."""

import threading
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np
import pytest

from vkernels.runtime import get_threads, set_threads
from vkernels.runtime.bound_executable import INLINE_BYTES, BoundExecutable

ADD_THROUGH_A_BUFFER = r"""
; Slots: 0 x, 1 its stride, 2 out, 3 its stride, 4 factor (f64), 5 shift (i64), 6 M, 7 the buffer.
; Launch 0: buffer[p] = x[p] * factor. Launch 1: out[p] = buffer[M - 1 - p] + shift, by way of the workspace.
define void @prepare(ptr %slots, ptr %outcome) {
  %m_at = getelementptr i64, ptr %slots, i64 6
  %m = load i64, ptr %m_at
  %bytes = mul i64 %m, 8
  store i64 %bytes, ptr %outcome
  %p0 = getelementptr i64, ptr %outcome, i64 1
  store i64 %m, ptr %p0
  %p1 = getelementptr i64, ptr %outcome, i64 2
  store i64 %m, ptr %p1
  ret void
}

define void @multiply(ptr %slots, i64 %begin, i64 %end, ptr %workspace) {
entry:
  %x = load ptr, ptr %slots
  %stride_at = getelementptr i64, ptr %slots, i64 1
  %stride = load i64, ptr %stride_at
  %factor_at = getelementptr i64, ptr %slots, i64 4
  %factor = load double, ptr %factor_at
  %buffer_at = getelementptr i64, ptr %slots, i64 7
  %buffer = load ptr, ptr %buffer_at
  br label %program
program:
  %p = phi i64 [ %begin, %entry ], [ %next, %program ]
  %offset = mul i64 %p, %stride
  %from = getelementptr double, ptr %x, i64 %offset
  %value = load double, ptr %from
  %product = fmul double %value, %factor
  %to = getelementptr double, ptr %buffer, i64 %p
  store double %product, ptr %to
  %next = add i64 %p, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %program, label %done
done:
  ret void
}

define void @shift(ptr %slots, i64 %begin, i64 %end, ptr %workspace) {
entry:
  %out_at = getelementptr i64, ptr %slots, i64 2
  %out = load ptr, ptr %out_at
  %stride_at = getelementptr i64, ptr %slots, i64 3
  %stride = load i64, ptr %stride_at
  %shift_at = getelementptr i64, ptr %slots, i64 5
  %shift = load i64, ptr %shift_at
  %shift_f = sitofp i64 %shift to double
  %m_at = getelementptr i64, ptr %slots, i64 6
  %m = load i64, ptr %m_at
  %buffer_at = getelementptr i64, ptr %slots, i64 7
  %buffer = load ptr, ptr %buffer_at
  br label %program
program:
  %p = phi i64 [ %begin, %entry ], [ %next, %program ]
  %last = sub i64 %m, 1
  %mirror = sub i64 %last, %p
  %from = getelementptr double, ptr %buffer, i64 %mirror
  %value = load double, ptr %from
  store volatile double %value, ptr %workspace
  %again = load volatile double, ptr %workspace
  %sum = fadd double %again, %shift_f
  %offset = mul i64 %p, %stride
  %to = getelementptr double, ptr %out, i64 %offset
  store double %sum, ptr %to
  %next = add i64 %p, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %program, label %done
done:
  ret void
}
"""


@dataclass
class Native:
    prepare: int
    launches: tuple[int, ...]
    library: object
    sizes: tuple[str, ...] = ("M",)
    buffers: int = 1
    workspace: int = 8
    in_turn: int = 0


@pytest.fixture(scope="module")
def native():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    jit = llvm.create_lljit_compiler()
    library = llvm.JITLibraryBuilder().add_ir(ADD_THROUGH_A_BUFFER)
    for name in ("prepare", "multiply", "shift"):
        library.export_symbol(name)
    tracker = library.link(jit, "through_a_buffer")
    return Native(tracker["prepare"], (tracker["multiply"], tracker["shift"]), (jit, tracker))


@pytest.fixture(params=[1, 3])
def threads(request):
    before = get_threads()
    set_threads(request.param)
    yield request.param
    set_threads(before)


def prepared_for(native, size, touched):
    return BoundExecutable(native, [0, 2, 0, -1, 0, 0, size, 0], [0, 2], [(4, True), (5, False)], touched)


def check(prepared, size, factor, shift):
    x, out = np.random.default_rng(size).random(2 * size), np.full(size, np.nan)
    prepared.run([x.ctypes.data, out.ctypes.data + 8 * (size - 1)], [factor, shift])
    np.testing.assert_array_equal(out, x[::2] * factor + shift)


@pytest.mark.parametrize("touched", [0, INLINE_BYTES])
@pytest.mark.parametrize("size", [1, 2, 1000, 300_001])
def test_buffers_workspaces_and_scalars_reach_the_kernel(native, threads, size, touched):
    prepared = prepared_for(native, size, touched)
    assert prepared.programs == [size, size]
    for repeat in range(6):
        check(prepared, size, 1.5 - repeat, 7 * repeat - (1 << 40))


def test_small_work_that_proves_slow_gets_helpers(native, threads):
    slow, quick = prepared_for(native, 2_000_000, 0), prepared_for(native, 10, 0)
    assert slow.threads == quick.threads == 1
    for _ in range(3):
        check(slow, 2_000_000, 2.0, 1)
    assert slow.threads == threads


def test_nothing_to_do(native):
    prepared = prepared_for(native, 0, 0)
    prepared.run([0, 0], [1.0, 1])
    assert prepared.idle


def test_one_prepared_call_in_many_threads_at_once(native, threads):
    prepared = prepared_for(native, 5000, INLINE_BYTES)
    failures: list[BaseException] = []

    def caller(number):
        try:
            for repeat in range(100):
                check(prepared, 5000, float(number), repeat)
        except AssertionError as error:
            failures.append(error)

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(5)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert failures == []
