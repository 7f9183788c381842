"""Gates, where a thread's work gives way to calls of higher priority, as LLVM IR; `pool_board_ir` describes the board.

A *gate* is a thread's own, in its stack:

    0 priority   1 the most units of a turn   2 the thread's number within its call   3 the board
    4 when its turn began, in nanoseconds   5 whether it offers its core to others before turns   6 and before the next

A turn takes `TURN_SECONDS` or a little more, so a call of higher priority waits no longer, unless a single unit takes
longer. A thread pauses while calls of higher priority have so many threads that there is no core for it. It pauses at
most `PAUSE_SECONDS` at once, then takes a turn: every call ends some time.
"""

from __future__ import annotations

from .pool_board_ir import HIGH, LOW

TURN_SECONDS = 5e-5
"""A turn that took less is followed by a longer one, one that took twice as much by a shorter one."""

PAUSE_SECONDS = 5e-2
"""The longest pause of a thread that has work."""

GATE = rf"""
; A helper's gate, for a call; null where it gives way to nobody.
define internal ptr @gate_for(ptr %pool, ptr %call, i64 %number, ptr %gate) {{
entry:
  %board_at = getelementptr i64, ptr %pool, i64 120
  %board = load ptr, ptr %board_at
  %none = icmp eq ptr %board, null
  br i1 %none, label %open, label %ask
ask:
  %level_at = getelementptr i64, ptr %pool, i64 121
  %level = load i64, ptr %level_at
  %gives_way = call i1 @gives_way(ptr %board, ptr %call)
  %is_low = icmp eq i64 %level, {LOW}
  %below = or i1 %gives_way, %is_low
  %is_high = icmp eq i64 %level, {HIGH}
  %above = xor i1 %is_high, true
  %shuts = and i1 %below, %above
  br i1 %shuts, label %shut, label %open
shut:
  call void @shut(ptr %gate, ptr %board, i64 %level, i64 %number)
  ret ptr %gate
open:
  ret ptr null
}}

; Whether priorities matter to a call: somebody has one now, or a call of high priority runs in another process, or the
; call takes longer than a turn, so that somebody may have one before it ends.
define internal i1 @gives_way(ptr %board, ptr %call) {{
entry:
  %users = load atomic i64, ptr %board acquire, align 8
  %some = icmp ne i64 %users, 0
  %takes_at = getelementptr i64, ptr %call, i64 6
  %takes = load i64, ptr %takes_at
  %long = icmp ugt i64 %takes, {round(1e9 * TURN_SECONDS)}
  %either = or i1 %some, %long
  br i1 %either, label %yes, label %ask
yes:
  ret i1 true
ask:
  %elsewhere = call i64 @others_above(ptr %board, i1 false, i1 false)
  %any = icmp ne i64 %elsewhere, 0
  ret i1 %any
}}

define internal void @shut(ptr %gate, ptr %board, i64 %level, i64 %number) {{
  store i64 %level, ptr %gate
  %most_at = getelementptr i64, ptr %gate, i64 1
  store i64 1, ptr %most_at
  %number_at = getelementptr i64, ptr %gate, i64 2
  store i64 %number, ptr %number_at
  %board_at = getelementptr i64, ptr %gate, i64 3
  store ptr %board, ptr %board_at
  %offers_at = getelementptr i64, ptr %gate, i64 5
  store i64 0, ptr %offers_at
  %next_at = getelementptr i64, ptr %gate, i64 6
  store i64 0, ptr %next_at
  ret void
}}

; Whether calls of higher priority leave no core for the thread of this gate. %looks: find out which processes are dead.
define internal i1 @is_crowded(ptr %gate, ptr %board, i1 %looks) {{
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
  %here = add i64 %high, %below
  %elsewhere = call i64 @others_above(ptr %board, i1 %is_low, i1 %looks)
  %above = add i64 %here, %elsewhere
  %some = icmp ne i64 %above, 0
  %taken = add i64 %above, %number
  %full = icmp sge i64 %taken, %cores
  %is = and i1 %some, %full
  ret i1 %is
}}

; Wait until calls of higher priority leave a core, and return how many units the next turn may take.
define internal i64 @pass_gate(ptr %gate) {{
entry:
  %patience = alloca [2 x i64], align 8
  %board_at = getelementptr i64, ptr %gate, i64 3
  %board = load ptr, ptr %board_at
  %began_at = getelementptr i64, ptr %gate, i64 4
  %most_at = getelementptr i64, ptr %gate, i64 1
  %most = load i64, ptr %most_at
  %next_at = getelementptr i64, ptr %gate, i64 6
  %next = load i64, ptr %next_at
  %offers = icmp ne i64 %next, 0
  br i1 %offers, label %offer, label %see
offer:
  %status = call i64 (i64, ...) @syscall(i64 YIELD)
  br label %see
see:
  %is_full = call i1 @is_crowded(ptr %gate, ptr %board, i1 false)
  br i1 %is_full, label %wait, label %pass
wait:
  %level = load i64, ptr %gate
  %bell = call ptr @bell_of(ptr %board, i64 %level)
  %changes = getelementptr i64, ptr %bell, i64 3
  %paused = getelementptr i64, ptr %bell, i64 4
  %arrived = call i64 @now()
  br label %look
look:
  %_ = atomicrmw add ptr %paused, i64 1 seq_cst, align 8
  call void @publish_pause(ptr %board, i64 %level, i64 1)
  %seen = load atomic i64, ptr %changes seq_cst, align 8
  %crowded = call i1 @is_crowded(ptr %gate, ptr %board, i1 true)
  br i1 %crowded, label %nap, label %resume
nap:
  store i64 0, ptr %patience
  %part_at = getelementptr i64, ptr %patience, i64 1
  store i64 {round(1e9 * PAUSE_SECONDS)}, ptr %part_at
  %low = trunc i64 %seen to i32
  ; 128: FUTEX_WAIT_PRIVATE, for so long at most.
  %__ = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %changes, i32 128, i32 %low, ptr %patience)
  br label %resume
resume:
  %___ = atomicrmw sub ptr %paused, i64 1 seq_cst, align 8
  call void @publish_pause(ptr %board, i64 %level, i64 -1)
  %time = call i64 @now()
  %waited = sub i64 %time, %arrived
  %late = icmp ugt i64 %waited, {round(1e9 * PAUSE_SECONDS)}
  %free = xor i1 %crowded, true
  %goes_on = or i1 %late, %free
  br i1 %goes_on, label %count, label %look
count:
  call void @add_up(ptr %board, i64 %level, i64 3, i64 1)
  call void @add_up(ptr %board, i64 %level, i64 4, i64 %waited)
  call void @note_pause(ptr %board, i64 %level, i64 %arrived, i64 %time)
  br label %pass
pass:
  %begun = call i64 @now()
  store i64 %begun, ptr %began_at
  ret i64 %most
}}

; A turn is over: the next one may take more units, or fewer. After a short one the core is not offered again.
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
  %offers_at = getelementptr i64, ptr %gate, i64 5
  %offers = load i64, ptr %offers_at
  %offers_next = select i1 %short, i64 0, i64 %offers
  %next_at = getelementptr i64, ptr %gate, i64 6
  store i64 %offers_next, ptr %next_at
  ret void
}}
"""
"""`@gate_for`, `@gives_way`, `@shut`, `@pass_gate` and `@time_turn`."""
