"""A function of Python that writes a call's arguments and starts its launches, as LLVM IR.

It is a built-in function (`NativeFunction`). Its arguments are the values that calls write, and last the stream. Its
`self` is the address of i64 words:

    0 the driver's function   1 how many arguments   2 slots   3 the slots' template   4 launches   5 their words
    6 how many slots are written   7 the words of these

A launch has five words: function, programs, threads, bytes of shared memory, its first slot. A slot that is written has
four: slot, number of the argument, 1 for a float, and what is added to an integer. The slots of a call are on the
stack, so several threads may call it at once. Other Python threads run during the launches, which wait where a device's
queue is full. The result is 0, or the driver's error code with the number of the launch that failed in the upper half.
"""

from __future__ import annotations

WORDS, LAUNCH_WORDS, WRITE_WORDS = 8, 5, 4

IMPORTED = (
    "PyLong_AsVoidPtr", "PyLong_AsLongLong", "PyLong_FromLongLong", "PyFloat_AsDouble", "PyErr_Occurred",
    "PyErr_BadArgument", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
"""What it uses of Python."""

LAUNCH = r"""
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_BadArgument()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define ptr @vk_launch(ptr %self, ptr %arguments, i64 %given) {
entry:
  %words = call ptr @PyLong_AsVoidPtr(ptr %self)
  %driver = load ptr, ptr %words
  %expected_at = getelementptr i64, ptr %words, i64 1
  %expected = load i64, ptr %expected_at
  %count_at = getelementptr i64, ptr %words, i64 2
  %count = load i64, ptr %count_at
  %template_at = getelementptr i64, ptr %words, i64 3
  %template = load ptr, ptr %template_at
  %launches_at = getelementptr i64, ptr %words, i64 4
  %launches = load i64, ptr %launches_at
  %launch_words_at = getelementptr i64, ptr %words, i64 5
  %launch_words = load ptr, ptr %launch_words_at
  %writes_at = getelementptr i64, ptr %words, i64 6
  %writes = load i64, ptr %writes_at
  %write_words_at = getelementptr i64, ptr %words, i64 7
  %write_words = load ptr, ptr %write_words_at
  %fits = icmp eq i64 %given, %expected
  br i1 %fits, label %prepare, label %wrong
wrong:
  %_ = call i32 @PyErr_BadArgument()
  ret ptr null
prepare:
  %slots = alloca i64, i64 %count
  %pointers = alloca ptr, i64 %count
  br label %copy
copy:
  %s = phi i64 [ 0, %prepare ], [ %s_next, %copied ]
  %s_more = icmp slt i64 %s, %count
  br i1 %s_more, label %copied, label %write
copied:
  %from = getelementptr i64, ptr %template, i64 %s
  %constant = load i64, ptr %from
  %into = getelementptr i64, ptr %slots, i64 %s
  store i64 %constant, ptr %into
  %pointer_at = getelementptr ptr, ptr %pointers, i64 %s
  store ptr %into, ptr %pointer_at
  %s_next = add i64 %s, 1
  br label %copy
write:
  %w = phi i64 [ 0, %copy ], [ %w_next, %written ]
  %w_more = icmp slt i64 %w, %writes
  br i1 %w_more, label %argument, label %judge
argument:
  %w_first = mul i64 %w, 4
  %w_at = getelementptr i64, ptr %write_words, i64 %w_first
  %slot = load i64, ptr %w_at
  %number_at = getelementptr i64, ptr %w_at, i64 1
  %number = load i64, ptr %number_at
  %kind_at = getelementptr i64, ptr %w_at, i64 2
  %kind = load i64, ptr %kind_at
  %value_at = getelementptr ptr, ptr %arguments, i64 %number
  %value = load ptr, ptr %value_at
  %to = getelementptr i64, ptr %slots, i64 %slot
  %is_float = icmp ne i64 %kind, 0
  br i1 %is_float, label %float, label %integer
float:
  %double = call double @PyFloat_AsDouble(ptr %value)
  store double %double, ptr %to
  br label %written
integer:
  %whole = call i64 @PyLong_AsLongLong(ptr %value)
  %added_at = getelementptr i64, ptr %w_at, i64 3
  %added = load i64, ptr %added_at
  %sum = add i64 %whole, %added
  store i64 %sum, ptr %to
  br label %written
written:
  %w_next = add i64 %w, 1
  br label %write
judge:
  %last = sub i64 %given, 1
  %stream_at = getelementptr ptr, ptr %arguments, i64 %last
  %stream_value = load ptr, ptr %stream_at
  %stream = call ptr @PyLong_AsVoidPtr(ptr %stream_value)
  %error = call ptr @PyErr_Occurred()
  %right = icmp eq ptr %error, null
  br i1 %right, label %start, label %failed
failed:
  ret ptr null
start:
  %state = call ptr @PyEval_SaveThread()
  br label %next
next:
  %l = phi i64 [ 0, %start ], [ %l_next, %launched ]
  %l_more = icmp slt i64 %l, %launches
  br i1 %l_more, label %launch, label %done
launch:
  %l_first = mul i64 %l, 5
  %l_at = getelementptr i64, ptr %launch_words, i64 %l_first
  %function = load ptr, ptr %l_at
  %grid_at = getelementptr i64, ptr %l_at, i64 1
  %grid = load i32, ptr %grid_at
  %threads_at = getelementptr i64, ptr %l_at, i64 2
  %threads = load i32, ptr %threads_at
  %shared_at = getelementptr i64, ptr %l_at, i64 3
  %shared = load i32, ptr %shared_at
  %first_at = getelementptr i64, ptr %l_at, i64 4
  %first = load i64, ptr %first_at
  %own = getelementptr ptr, ptr %pointers, i64 %first
  %code = call i32 %driver(
    ptr %function, i32 %grid, i32 1, i32 1, i32 %threads, i32 1, i32 1, i32 %shared, ptr %stream, ptr %own, ptr null
  )
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %launched, label %refused
launched:
  %l_next = add i64 %l, 1
  br label %next
refused:
  %code_wide = zext i32 %code to i64
  %l_high = shl i64 %l, 32
  %both = or i64 %l_high, %code_wide
  br label %done
done:
  %result = phi i64 [ 0, %next ], [ %both, %refused ]
  call void @PyEval_RestoreThread(ptr %state)
  %returned = call ptr @PyLong_FromLongLong(i64 %result)
  ret ptr %returned
}
"""
"""`@vk_launch`. Machines are little-endian: an i32 is the first half of its word."""
