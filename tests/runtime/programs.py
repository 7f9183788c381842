"""Launch functions written in LLVM IR by hand, to try the runtime without a kernel."""

import llvmlite.binding as llvm
import numpy as np

ADD_ONE = r"""
; arguments: 0 the address of i64 counts, one a program. Each program adds 1 to its own; the workspace, if there is one,
; must be this thread's alone: it holds a word that is raised, kept for a while, and must come back as it was left.
define void @add_one(ptr %arguments, i64 %begin, i64 %end, ptr %workspace) {
entry:
  %counts = load ptr, ptr %arguments
  %none = icmp eq ptr %workspace, null
  br label %program
program:
  %p = phi i64 [ %begin, %entry ], [ %next, %after ]
  %at = getelementptr i64, ptr %counts, i64 %p
  br i1 %none, label %count, label %claim
claim:
  store volatile i64 %p, ptr %workspace
  br label %linger
linger:
  %turn = phi i64 [ 0, %claim ], [ %turn_next, %linger ]
  %turn_next = add i64 %turn, 1
  %mine = load volatile i64, ptr %workspace
  %same = icmp eq i64 %mine, %p
  %more_turns = icmp ult i64 %turn_next, 20
  %on = and i1 %same, %more_turns
  br i1 %on, label %linger, label %check
check:
  br i1 %same, label %count, label %after
count:
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  br label %after
after:
  %next = add i64 %p, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %program, label %done
done:
  ret void
}

; Every program needs all of the launch before: it writes the sum of the counts, as its own count, to a second array.
define void @sum_all(ptr %arguments, i64 %begin, i64 %end, ptr %workspace) {
entry:
  %counts = load ptr, ptr %arguments
  %sums_at = getelementptr i64, ptr %arguments, i64 1
  %sums = load ptr, ptr %sums_at
  %number_at = getelementptr i64, ptr %arguments, i64 2
  %number = load i64, ptr %number_at
  br label %program
program:
  %p = phi i64 [ %begin, %entry ], [ %next, %after ]
  br label %add
add:
  %i = phi i64 [ 0, %program ], [ %i_next, %add ]
  %sum = phi i64 [ 0, %program ], [ %sum_next, %add ]
  %at = getelementptr i64, ptr %counts, i64 %i
  %one = load volatile i64, ptr %at
  %sum_next = add i64 %sum, %one
  %i_next = add i64 %i, 1
  %more_i = icmp slt i64 %i_next, %number
  br i1 %more_i, label %add, label %after
after:
  %to = getelementptr i64, ptr %sums, i64 %p
  store i64 %sum_next, ptr %to
  %next = add i64 %p, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %program, label %done
done:
  ret void
}
"""


class Programs:
    """The functions above as native code: `add_one` and `sum_all` are addresses."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._jit = llvm.create_lljit_compiler()
        library = llvm.JITLibraryBuilder().add_ir(ADD_ONE).export_symbol("add_one").export_symbol("sum_all")
        self._library = library.link(self._jit, "programs")
        self.add_one, self.sum_all = self._library["add_one"], self._library["sum_all"]


class Slots:
    """Arguments of `programs` programs: counts and sums, and the array of slots that names them."""

    def __init__(self, programs: int):
        self.counts, self.sums = np.zeros(programs, np.int64), np.full(programs, -1, np.int64)
        self._slots = np.array([self.counts.ctypes.data, self.sums.ctypes.data, programs], np.int64)
        self.address = self._slots.ctypes.data
