"""A function of Python that runs a prepared call of the pool, as LLVM IR.

It is a built-in function with positional arguments (`METH_FASTCALL`), so a call of it costs less than one through
`ctypes`, and uses the stable part of Python's C interface only. Its `self` is an integer, the address of i64 words:

    0 pool   1 call   2 argument slots   3 how many arguments   4 + i, of argument i: twice its slot, plus 1 for a float

Integers are written to their slots as i64, floats as f64. Other Python threads run while the call does.
"""

from __future__ import annotations

CODE_WORDS = 4
"""Words before those of the arguments."""

IMPORTED = (
    "PyLong_AsVoidPtr", "PyLong_AsLongLong", "PyFloat_AsDouble", "PyErr_Occurred", "PyErr_BadArgument",
    "PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef", "_Py_NoneStruct",
)  # fmt: skip
"""What it uses of Python."""

CALL = r"""
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_BadArgument()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
@_Py_NoneStruct = external global i8

define ptr @vk_call(ptr %self, ptr %arguments, i64 %given) {
entry:
  %words = call ptr @PyLong_AsVoidPtr(ptr %self)
  %expected_at = getelementptr i64, ptr %words, i64 3
  %expected = load i64, ptr %expected_at
  %slots_at = getelementptr i64, ptr %words, i64 2
  %slots = load ptr, ptr %slots_at
  %fits = icmp eq i64 %given, %expected
  br i1 %fits, label %next, label %wrong
wrong:
  %_ = call i32 @PyErr_BadArgument()
  ret ptr null
next:
  %i = phi i64 [ 0, %entry ], [ %i_next, %written ]
  %more = icmp slt i64 %i, %given
  br i1 %more, label %argument, label %judge
argument:
  %value_at = getelementptr ptr, ptr %arguments, i64 %i
  %value = load ptr, ptr %value_at
  %word = add i64 %i, 4
  %code_at = getelementptr i64, ptr %words, i64 %word
  %code = load i64, ptr %code_at
  %slot = lshr i64 %code, 1
  %to = getelementptr i64, ptr %slots, i64 %slot
  %kind = and i64 %code, 1
  %is_float = icmp ne i64 %kind, 0
  br i1 %is_float, label %float, label %integer
float:
  %number = call double @PyFloat_AsDouble(ptr %value)
  store double %number, ptr %to
  br label %written
integer:
  %whole = call i64 @PyLong_AsLongLong(ptr %value)
  store i64 %whole, ptr %to
  br label %written
written:
  %i_next = add i64 %i, 1
  br label %next
judge:
  %error = call ptr @PyErr_Occurred()
  %right = icmp eq ptr %error, null
  br i1 %right, label %run, label %failed
failed:
  ret ptr null
run:
  %pool = load ptr, ptr %words
  %call_at = getelementptr i64, ptr %words, i64 1
  %call = load ptr, ptr %call_at
  %state = call ptr @PyEval_SaveThread()
  call void @vk_run(ptr %pool, ptr %call)
  call void @PyEval_RestoreThread(ptr %state)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}
"""
"""`@vk_call`."""
