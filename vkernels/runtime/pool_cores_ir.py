"""Where and how the helpers of a pool may run, as LLVM IR; `pool_ir` describes the memory that threads share."""

from __future__ import annotations

AFFINITY = {"x86_64": (204, 203, 186), "aarch64": (123, 122, 178)}
"""The numbers of the system calls sched_getaffinity, sched_setaffinity and gettid, by machine."""

POLICY = {"x86_64": (145, 144), "aarch64": (120, 119)}
"""The numbers of the system calls sched_getscheduler and sched_setscheduler, by machine."""

KEEP_OFF = r"""
; Run this helper as the process's main thread is run: it works for all threads, not for the one that started it alone.
; Only where neither is a real-time thread. The system may refuse it.
define internal void @adopt_policy(ptr %pool) {
entry:
  %process_at = getelementptr i64, ptr %pool, i64 27
  %process = load i64, ptr %process_at
  %main = call i64 (i64, ...) @syscall(i64 GETPOLICY, i64 %process)
  %own = call i64 (i64, ...) @syscall(i64 GETPOLICY, i64 0)
  %differs = icmp ne i64 %main, %own
  %other = icmp eq i64 %main, 0
  %batch = icmp eq i64 %main, 3
  %idle = icmp eq i64 %main, 5
  %usual = or i1 %other, %batch
  %plain = or i1 %usual, %idle
  %changes = and i1 %differs, %plain
  br i1 %changes, label %change, label %end
change:
  %priority = alloca i64, align 8
  store i64 0, ptr %priority
  %_ = call i64 (i64, ...) @syscall(i64 SETPOLICY, i64 0, i64 %main, ptr %priority)
  br label %end
end:
  ret void
}

; Run this thread as a policy says; a thread without privileges cannot take `SCHED_IDLE` back.
define internal void @set_policy(i64 %policy) {
  %priority = alloca i64, align 8
  store i64 0, ptr %priority
  %_ = call i64 (i64, ...) @syscall(i64 SETPOLICY, i64 0, i64 %policy, ptr %priority)
  ret void
}

; Whether the caller runs when nothing else wants its core, but helpers do not: they must not do its work. Asked when
; another thread calls than the last time, else every 64th time.
define internal i1 @is_idle_here(ptr %pool) {
entry:
  %self = call i64 @this_thread()
  %asked_at = getelementptr i64, ptr %pool, i64 124
  %turns_at = getelementptr i64, ptr %pool, i64 125
  %answer_at = getelementptr i64, ptr %pool, i64 126
  %asked = load i64, ptr %asked_at
  %turns = load i64, ptr %turns_at
  %next = add i64 %turns, 1
  store i64 %next, ptr %turns_at
  %same = icmp eq i64 %asked, %self
  %phase = and i64 %turns, 63
  %soon = icmp ne i64 %phase, 0
  %known = and i1 %same, %soon
  br i1 %known, label %recall, label %ask
recall:
  %answer = load i64, ptr %answer_at
  %was = icmp ne i64 %answer, 0
  ret i1 %was
ask:
  %process_at = getelementptr i64, ptr %pool, i64 27
  %process = load i64, ptr %process_at
  %main = call i64 (i64, ...) @syscall(i64 GETPOLICY, i64 %process)
  %own = call i64 (i64, ...) @syscall(i64 GETPOLICY, i64 0)
  %own_idle = icmp eq i64 %own, 5
  %main_other = icmp ne i64 %main, 5
  %is = and i1 %own_idle, %main_other
  %word = zext i1 %is to i64
  store i64 %self, ptr %asked_at
  store i64 %word, ptr %answer_at
  ret i1 %is
}

; Let helpers run on every core that the caller may use but its own. A woken thread is often put on the core of the one
; that wakes it, and would wait there for milliseconds while other cores are idle. Only when the caller has moved.
; False where the caller may use no other core: a helper would only be in its way.
define internal i1 @keep_off(ptr %pool) {
entry:
  %core32 = call i32 @sched_getcpu()
  %core = sext i32 %core32 to i64
  %number = add i64 %core, 1
  %last_at = getelementptr i64, ptr %pool, i64 35
  %last = load atomic i64, ptr %last_at seq_cst, align 8
  %moved = icmp ne i64 %number, %last
  %sensible = icmp ult i64 %core, 1024
  %act = and i1 %moved, %sensible
  br i1 %act, label %ask, label %yes
ask:
  %set = getelementptr i64, ptr %pool, i64 104
  %status = call i64 (i64, ...) @syscall(i64 GETAFFINITY, i64 0, i64 128, ptr %set)
  %known = icmp sgt i64 %status, 0
  br i1 %known, label %exclude, label %yes
exclude:
  %word = lshr i64 %core, 6
  %bit = and i64 %core, 63
  %one = shl i64 1, %bit
  %others = xor i64 %one, -1
  %word_at = getelementptr i64, ptr %set, i64 %word
  %allowed = load i64, ptr %word_at
  %left = and i64 %allowed, %others
  store i64 %left, ptr %word_at
  %words = lshr i64 %status, 3
  br label %count
count:
  %w = phi i64 [ 0, %exclude ], [ %w_next, %count ]
  %cores = phi i64 [ 0, %exclude ], [ %cores_so_far, %count ]
  %cores_at = getelementptr i64, ptr %set, i64 %w
  %some = load i64, ptr %cores_at
  %number_of = call i64 @llvm.ctpop.i64(i64 %some)
  %cores_so_far = add i64 %cores, %number_of
  %w_next = add i64 %w, 1
  %more_words = icmp ult i64 %w_next, %words
  br i1 %more_words, label %count, label %judge
judge:
  %nowhere = icmp eq i64 %cores_so_far, 0
  br i1 %nowhere, label %no, label %settle
settle:
  %free_at = getelementptr i64, ptr %pool, i64 39
  store atomic i64 %cores_so_far, ptr %free_at seq_cst, align 8
  store atomic i64 %number, ptr %last_at seq_cst, align 8
  %begun_at = getelementptr i64, ptr %pool, i64 36
  %begun = load atomic i64, ptr %begun_at seq_cst, align 8
  %few = icmp slt i64 %begun, 64
  %helpers = select i1 %few, i64 %begun, i64 64
  br label %loop
loop:
  %h = phi i64 [ 0, %settle ], [ %h_next, %on ]
  %more = icmp slt i64 %h, %helpers
  br i1 %more, label %find, label %yes
find:
  %slot = add i64 %h, 40
  %id_at = getelementptr i64, ptr %pool, i64 %slot
  %id = load atomic i64, ptr %id_at seq_cst, align 8
  %there = icmp ne i64 %id, 0
  br i1 %there, label %move, label %on
move:
  %_ = call i64 (i64, ...) @syscall(i64 SETAFFINITY, i64 %id, i64 128, ptr %set)
  br label %on
on:
  %h_next = add i64 %h, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

declare i64 @llvm.ctpop.i64(i64)
"""
"""`@adopt_policy`, `@set_policy`, `@is_idle_here` and `@keep_off`."""
