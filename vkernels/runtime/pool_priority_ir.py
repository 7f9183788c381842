"""How calls of a pool give way to those of higher priority, as LLVM IR; `pool_ir` describes the pool's memory.

The *board* is what the pools of all priorities share. Its words are i64, alone on a line where several write them:

    0 threads of another priority than normal   1 counts ends of calls: paused threads sleep on it   2 paused threads
    3 cores   4 entries in use
    8, 16, 24 threads at work on calls of low, normal and high priority
    32 + 2 e, of entry e:   0 a thread, 0 if free   1 its priority: 0 low, 1 normal, 2 high

Nothing here costs a call more than a load and a comparison while word 0 is 0.

A *gate* is a thread's own, in the stack, where its work gives way:

    0 priority   1 the most units of a turn   2 the thread's number within its call   3 the board
    4 when its turn began, in nanoseconds

A turn takes `TURN_SECONDS` or a little more, so a call of higher priority waits no longer, unless a single unit takes
longer. A thread pauses while calls of higher priority have so many threads that there is no core for it. It pauses at
most `PAUSE_SECONDS` at once, then takes a turn: every call ends some time.

Calls of low priority are run by helpers that the system runs when nothing else wants their cores (`SCHED_IDLE`), while
the caller sleeps: it may hold a lock that others need, Python's own among them, so it keeps its class.
"""

from __future__ import annotations

LOW, NORMAL, HIGH = range(3)
ENTRIES = 256
BOARD_WORDS = 32 + 2 * ENTRIES

TURN_SECONDS = 5e-5
"""A turn that took less is followed by a longer one, one that took twice as much by a shorter one."""

PAUSE_SECONDS = 5e-2
"""The longest pause of a thread that has work."""

HAND_OVER_SECONDS = 3e-4
"""A call of low priority that takes less is run by its caller, in turns: waking a helper and sleeping meanwhile take
some 30 µs on a virtual machine (measured), a tenth of it."""

PRIORITY = rf"""
; What tells this thread from others.
define i64 @this_thread() {{
  %storage = call ptr @llvm.thread.pointer()
  %address = ptrtoint ptr %storage to i64
  ret i64 %address
}}

declare ptr @llvm.thread.pointer()

; The priority of this thread.
define internal i64 @priority_of(ptr %board) {{
entry:
  %self = call i64 @this_thread()
  %used_at = getelementptr i64, ptr %board, i64 4
  %used = load atomic i64, ptr %used_at monotonic, align 8
  br label %loop
loop:
  %e = phi i64 [ 0, %entry ], [ %e_next, %next ]
  %more = icmp ult i64 %e, %used
  br i1 %more, label %look, label %absent
look:
  %double = shl i64 %e, 1
  %word = add i64 %double, 32
  %thread_at = getelementptr i64, ptr %board, i64 %word
  %thread = load atomic i64, ptr %thread_at monotonic, align 8
  %mine = icmp eq i64 %thread, %self
  br i1 %mine, label %found, label %next
next:
  %e_next = add i64 %e, 1
  br label %loop
found:
  %level_at = getelementptr i64, ptr %thread_at, i64 1
  %level = load i64, ptr %level_at
  ret i64 %level
absent:
  ret i64 {NORMAL}
}}

; A thread's gate, for work of a pool; null where it gives way to nobody.
define internal ptr @gate_for(ptr %pool, i64 %number, ptr %gate) {{
entry:
  %board_at = getelementptr i64, ptr %pool, i64 120
  %board = load ptr, ptr %board_at
  %none = icmp eq ptr %board, null
  br i1 %none, label %open, label %ask
ask:
  %level_at = getelementptr i64, ptr %pool, i64 121
  %level = load i64, ptr %level_at
  %users = load atomic i64, ptr %board monotonic, align 8
  %nobody = icmp eq i64 %users, 0
  %is_low = icmp eq i64 %level, {LOW}
  %must = xor i1 %is_low, true
  %unused = and i1 %nobody, %must
  %is_high = icmp eq i64 %level, {HIGH}
  %free = or i1 %unused, %is_high
  br i1 %free, label %open, label %shut
shut:
  call void @shut(ptr %gate, ptr %board, i64 %level, i64 %number)
  ret ptr %gate
open:
  ret ptr null
}}

define internal void @shut(ptr %gate, ptr %board, i64 %level, i64 %number) {{
  store i64 %level, ptr %gate
  %most_at = getelementptr i64, ptr %gate, i64 1
  store i64 1, ptr %most_at
  %number_at = getelementptr i64, ptr %gate, i64 2
  store i64 %number, ptr %number_at
  %board_at = getelementptr i64, ptr %gate, i64 3
  store ptr %board, ptr %board_at
  ret void
}}

; Whether calls of higher priority leave no core for the thread of this gate.
define internal i1 @is_crowded(ptr %gate, ptr %board) {{
  %level = load i64, ptr %gate
  %number_at = getelementptr i64, ptr %gate, i64 2
  %number = load i64, ptr %number_at
  %cores_at = getelementptr i64, ptr %board, i64 3
  %cores = load atomic i64, ptr %cores_at monotonic, align 8
  %high_at = getelementptr i64, ptr %board, i64 24
  %high = load atomic i64, ptr %high_at seq_cst, align 8
  %normal_at = getelementptr i64, ptr %board, i64 16
  %normal = load atomic i64, ptr %normal_at seq_cst, align 8
  %is_low = icmp eq i64 %level, {LOW}
  %below = select i1 %is_low, i64 %normal, i64 0
  %above = add i64 %high, %below
  %some = icmp ne i64 %above, 0
  %taken = add i64 %above, %number
  %full = icmp sge i64 %taken, %cores
  %is = and i1 %some, %full
  ret i1 %is
}}

; Wait until calls of higher priority leave a core, and return how many units the next turn may take.
define internal i64 @pass_gate(ptr %gate) {{
entry:
  %board_at = getelementptr i64, ptr %gate, i64 3
  %board = load ptr, ptr %board_at
  %ends = getelementptr i64, ptr %board, i64 1
  %paused = getelementptr i64, ptr %board, i64 2
  %arrived = call i64 @now()
  %patience = alloca [2 x i64], align 8
  br label %look
look:
  %crowded = call i1 @is_crowded(ptr %gate, ptr %board)
  br i1 %crowded, label %pause, label %pass
pause:
  %_ = atomicrmw add ptr %paused, i64 1 seq_cst, align 8
  %seen = load atomic i64, ptr %ends seq_cst, align 8
  %still = call i1 @is_crowded(ptr %gate, ptr %board)
  br i1 %still, label %nap, label %resume
nap:
  store i64 0, ptr %patience
  %part_at = getelementptr i64, ptr %patience, i64 1
  store i64 {round(1e9 * PAUSE_SECONDS)}, ptr %part_at
  %low = trunc i64 %seen to i32
  ; 128: FUTEX_WAIT_PRIVATE, for so long at most.
  %__ = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %ends, i32 128, i32 %low, ptr %patience)
  br label %resume
resume:
  %___ = atomicrmw sub ptr %paused, i64 1 seq_cst, align 8
  %time = call i64 @now()
  %waited = sub i64 %time, %arrived
  %late = icmp ugt i64 %waited, {round(1e9 * PAUSE_SECONDS)}
  br i1 %late, label %pass, label %look
pass:
  %began_at = getelementptr i64, ptr %gate, i64 4
  %begun = call i64 @now()
  store i64 %begun, ptr %began_at
  %most_at = getelementptr i64, ptr %gate, i64 1
  %most = load i64, ptr %most_at
  ret i64 %most
}}

; A turn is over: the next one may take more units, or fewer.
define internal void @time_turn(ptr %gate) {{
  %began_at = getelementptr i64, ptr %gate, i64 4
  %began = load i64, ptr %began_at
  %now = call i64 @now()
  %took = sub i64 %now, %began
  %short = icmp ult i64 %took, {round(1e9 * TURN_SECONDS)}
  %long = icmp ugt i64 %took, {round(2e9 * TURN_SECONDS)}
  %most_at = getelementptr i64, ptr %gate, i64 1
  %most = load i64, ptr %most_at
  %twice = shl i64 %most, 1
  %more = call i64 @llvm.umin.i64(i64 %twice, i64 1073741824)
  %half = lshr i64 %most, 1
  %less = call i64 @llvm.umax.i64(i64 %half, i64 1)
  %kept = select i1 %long, i64 %less, i64 %most
  %next = select i1 %short, i64 %more, i64 %kept
  store i64 %next, ptr %most_at
  ret void
}}

; Count threads at work on a call of this priority, or no longer: then those that paused look again.
define internal void @enter_board(ptr %board, i64 %level, i64 %threads) {{
  %up = add i64 %level, 1
  %word = shl i64 %up, 3
  %at_work = getelementptr i64, ptr %board, i64 %word
  %_ = atomicrmw add ptr %at_work, i64 %threads seq_cst, align 8
  ret void
}}

define internal void @leave_board(ptr %board, i64 %level, i64 %threads) {{
entry:
  %up = add i64 %level, 1
  %word = shl i64 %up, 3
  %at_work = getelementptr i64, ptr %board, i64 %word
  %_ = atomicrmw sub ptr %at_work, i64 %threads seq_cst, align 8
  %paused_at = getelementptr i64, ptr %board, i64 2
  %paused = load atomic i64, ptr %paused_at seq_cst, align 8
  %nobody = icmp eq i64 %paused, 0
  br i1 %nobody, label %end, label %rouse
rouse:
  %ends = getelementptr i64, ptr %board, i64 1
  %__ = atomicrmw add ptr %ends, i64 1 seq_cst, align 8
  call void @wake(ptr %ends, i32 -1)
  br label %end
end:
  ret void
}}

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
  ; Calls of one thread have no known time: the shortest one tells.
  %count_at = getelementptr i64, ptr %call, i64 2
  %count = load i64, ptr %count_at
  %single = icmp eq i64 %count, 1
  %learns = and i1 %single, %is_low
  br i1 %learns, label %note, label %end
note:
  %after = call i64 @now()
  %took = sub i64 %after, %before
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
"""`@this_thread`, `@gate_for`, `@pass_gate`, `@time_turn` and `@run_by_priority`."""
