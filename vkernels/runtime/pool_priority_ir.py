"""How a pool runs calls by their priority, as LLVM IR; `pool_board_ir` and `pool_ir` describe the memory.

Nothing here costs a call more than a load and a comparison before a thread of this process has had a priority; after
that, calls that take longer than a turn give way too while nobody has one, since somebody may before they end.

Calls of low priority are run by helpers that the system runs when nothing else wants their cores (`SCHED_IDLE`), while
the caller sleeps: it may hold a lock that others need, Python's own among them, so it keeps its class. Short ones are
run by the caller itself, which offers its core to others before turns.
"""

from __future__ import annotations

from .pool_board_ir import HIGH, LOW

HAND_OVER_SECONDS = 3e-4
"""A call of low priority that takes less is run by its caller, in turns: waking a helper and sleeping meanwhile take
some 30 µs on a virtual machine (measured), a tenth of it."""

PRIORITY = rf"""
; Run a call with the priority of this thread.
define internal void @run_by_priority(ptr %pool, ptr %board, ptr %call) {{
entry:
  %gate = alloca [8 x i64], align 8
  %level = call i64 @priority_of(ptr %board)
  %before = call i64 @now()
  %takes_at = getelementptr i64, ptr %call, i64 6
  %takes = load i64, ptr %takes_at
  %is_low = icmp eq i64 %level, {LOW}
  br i1 %is_low, label %low, label %here
low:
  %idle_at = getelementptr i64, ptr %pool, i64 123
  %idle = load ptr, ptr %idle_at
  %begun_at = getelementptr i64, ptr %idle, i64 36
  %begun = load atomic i64, ptr %begun_at seq_cst, align 8
  %helped = icmp sgt i64 %begun, 0
  %long = icmp uge i64 %takes, {round(1e9 * HAND_OVER_SECONDS)}
  %hands_over = and i1 %helped, %long
  br i1 %hands_over, label %hand_over, label %here
hand_over:
  call void @hand_over(ptr %idle, ptr %board, ptr %call, i64 %begun)
  br label %learn
learn:
  %handed = phi i64 [ 1, %hand_over ], [ 0, %done ]
  %after = call i64 @now()
  %took = sub i64 %after, %before
  call void @add_up(ptr %board, i64 %level, i64 0, i64 1)
  call void @add_up(ptr %board, i64 %level, i64 1, i64 %took)
  call void @add_up(ptr %board, i64 %level, i64 2, i64 %handed)
  ; Calls of one thread have no known time: the shortest one tells.
  %count_at = getelementptr i64, ptr %call, i64 2
  %count = load i64, ptr %count_at
  %single = icmp eq i64 %count, 1
  br i1 %single, label %note, label %end
note:
  %shortest = call i64 @llvm.umin.i64(i64 %took, i64 %takes)
  store i64 %shortest, ptr %takes_at
  br label %end
end:
  ret void
here:
  %is_high = icmp eq i64 %level, {HIGH}
  %first_at = getelementptr i64, ptr %pool, i64 122
  %first = load ptr, ptr %first_at
  %chosen = select i1 %is_high, ptr %first, ptr %pool
  call void @shut(ptr %gate, ptr %board, i64 %level, i64 0)
  %offers = zext i1 %is_low to i64
  %offers_at = getelementptr i64, ptr %gate, i64 5
  store i64 %offers, ptr %offers_at
  %next_at = getelementptr i64, ptr %gate, i64 6
  store i64 %offers, ptr %next_at
  %own_gate = select i1 %is_high, ptr null, ptr %gate
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %least_at = getelementptr i64, ptr %pool, i64 37
  %least = load i64, ptr %least_at
  %shared = icmp uge i64 %takes, %least
  %above = xor i1 %is_low, true
  %wide = and i1 %shared, %above
  %at_work = select i1 %wide, i64 %threads, i64 1
  call void @enter_board(ptr %board, i64 %level, i64 %at_work)
  br i1 %is_low, label %by_itself, label %with_helpers
by_itself:
  call void @alone(ptr %pool, ptr %call, ptr %own_gate)
  br label %done
with_helpers:
  call void @run_in(ptr %chosen, ptr %call, ptr %own_gate)
  br label %done
done:
  call void @leave_board(ptr %board, i64 %level, i64 %at_work)
  br label %learn
}}

; Let helpers of low priority run a call, and sleep meanwhile. One call after another has them.
define internal void @hand_over(ptr %pool, ptr %board, ptr %call, i64 %begun) {{
entry:
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %helpers = call i64 @llvm.umin.i64(i64 %threads, i64 %begun)
  %busy = getelementptr i64, ptr %pool, i64 24
  call void @lock(ptr %busy)
  call void @enter_board(ptr %board, i64 {LOW}, i64 %helpers)
  call void @deal(ptr %call)
  %wanted_at = getelementptr i64, ptr %pool, i64 1
  store atomic i64 %helpers, ptr %wanted_at release, align 8
  %current = getelementptr i64, ptr %pool, i64 2
  %order_at = getelementptr i64, ptr %pool, i64 19
  %order = load i64, ptr %order_at
  %this = add i64 %order, 1
  store atomic i64 %this, ptr %order_at seq_cst, align 8
  store atomic ptr %call, ptr %current seq_cst, align 8
  %_ = atomicrmw add ptr %pool, i64 1 seq_cst, align 8
  call void @rouse(ptr %pool, i64 %helpers)
  %served = getelementptr i64, ptr %pool, i64 18
  %sleepers = getelementptr i64, ptr %pool, i64 20
  call void @await(ptr %pool, ptr %served, i64 %this, ptr %sleepers)
  call void @end_call(ptr %pool)
  call void @leave_board(ptr %board, i64 {LOW}, i64 %helpers)
  call void @unlock(ptr %busy)
  ret void
}}

; No helper of low priority is in a call any more: the last of which one has found no more to do is done.
define internal void @say_served(ptr %pool) {{
entry:
  %emptied_at = getelementptr i64, ptr %pool, i64 21
  %order = load atomic i64, ptr %emptied_at seq_cst, align 8
  %served = getelementptr i64, ptr %pool, i64 18
  %_ = atomicrmw umax ptr %served, i64 %order seq_cst, align 8
  %sleepers_at = getelementptr i64, ptr %pool, i64 20
  %sleepers = load atomic i64, ptr %sleepers_at seq_cst, align 8
  %nobody = icmp eq i64 %sleepers, 0
  br i1 %nobody, label %end, label %rouse
rouse:
  call void @wake(ptr %served, i32 -1)
  br label %end
end:
  ret void
}}

; A lock: 0 free, 1 taken, 2 taken and somebody sleeps.
define internal void @lock(ptr %word) {{
entry:
  %pair = cmpxchg ptr %word, i64 0, i64 1 seq_cst seq_cst, align 8
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %done, label %again
again:
  %before = atomicrmw xchg ptr %word, i64 2 seq_cst, align 8
  %free = icmp eq i64 %before, 0
  br i1 %free, label %done, label %nap
nap:
  call void @sleep(ptr %word, i64 2, i32 -1)
  br label %again
done:
  ret void
}}

define internal void @unlock(ptr %word) {{
entry:
  %before = atomicrmw xchg ptr %word, i64 0 seq_cst, align 8
  %alone = icmp eq i64 %before, 1
  br i1 %alone, label %done, label %rouse
rouse:
  call void @wake(ptr %word, i32 -1)
  br label %done
done:
  ret void
}}
"""
"""`@run_by_priority`, `@hand_over` and `@say_served`."""
