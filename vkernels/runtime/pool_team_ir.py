"""How a call runs on the threads of OpenMP that torch has, as LLVM IR; `pool_ir` describes the memory.

Torch's threads go on spinning for milliseconds after each of its parallel operations, as OpenMP's do, so that helpers
of our own would share their cores with them. While they spin, a call that begins on the thread that they belong to
is therefore run by them. While they sleep, helpers are faster: woken threads of OpenMP may come to lie on the core of
the thread that spins until they are done. Whether they spin is asked once in the time that a helper waits for a call:
to ask takes as long as to hand a short call over, and helpers of our own are in their way for as long anyway. Functions
are those of OpenMP that GCC, LLVM and Intel have alike.
"""

from __future__ import annotations

TIMES = 4
"""How many times as long as a call that is shared with helpers a call takes that is shared with a team: to hand over to
OpenMP's threads takes longer, and a core less is free for helpers meanwhile."""

SPINNING = 1_000_000
"""Nanoseconds after a call by a team in which nobody looks whether it still spins: OpenMP's threads do for longer."""

TEAM = r"""
; Run a call on the calling thread's team if that is at work or spins, or on the thread alone if it is short; returns
; whether it was run. Not by a team of fewer
; threads than the call wants, nor by one that is far larger, whose other threads would do nothing.
define internal i1 @run_on_team(ptr %pool, ptr %call) {
entry:
  %data = alloca [3 x ptr], align 8
  %board_at = getelementptr i64, ptr %pool, i64 120
  %board = load ptr, ptr %board_at
  %parallel_at = getelementptr i64, ptr %pool, i64 127
  %parallel = load atomic ptr, ptr %parallel_at acquire, align 8
  %missing = icmp eq ptr %parallel, null
  %has_board = icmp ne ptr %board, null
  %never = or i1 %missing, %has_board
  br i1 %never, label %no, label %whose
whose:
  %owner_at = getelementptr i64, ptr %pool, i64 22
  %owner = load i64, ptr %owner_at
  %this = call i64 @this_thread()
  %is_owner = icmp eq i64 %owner, %this
  br i1 %is_owner, label %size, label %no
size:
  %most_at = getelementptr i64, ptr %pool, i64 29
  %most_of = load ptr, ptr %most_at
  %most = call i32 %most_of()
  %members = zext i32 %most to i64
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %twice = shl i64 %threads, 1
  %enough = icmp uge i64 %members, %threads
  %small = icmp ult i64 %members, %twice
  %suits = and i1 %enough, %small
  br i1 %suits, label %look, label %no
look:
  %ended_at = getelementptr i64, ptr %pool, i64 28
  %ended = load i64, ptr %ended_at
  %now = call i64 @now()
  %passed = sub i64 %now, %ended
  %just = icmp ult i64 %passed, SPINNING
  %least_at = getelementptr i64, ptr %pool, i64 37
  %least = load i64, ptr %least_at
  %pays_from = mul i64 %least, TIMES
  br i1 %just, label %weigh, label %recall
recall:
  %rested_at = getelementptr i64, ptr %pool, i64 128
  %rested = load i64, ptr %rested_at
  %since = sub i64 %now, %rested
  %spins_at = getelementptr i64, ptr %pool, i64 34
  %spins = load i64, ptr %spins_at
  %still = icmp ult i64 %since, %spins
  br i1 %still, label %no, label %see
see:
  %runs = call i1 @member_runs(ptr %pool)
  br i1 %runs, label %weigh, label %rests
rests:
  store i64 %now, ptr %rested_at
  br label %no
weigh:
  %takes_at = getelementptr i64, ptr %call, i64 6
  %takes = load i64, ptr %takes_at
  %pays = icmp uge i64 %takes, %pays_from
  br i1 %pays, label %run, label %by_itself
by_itself:
  call void @alone(ptr %pool, ptr %call, ptr null)
  ret i1 true
run:
  call void @deal(ptr %call)
  store ptr %pool, ptr %data
  %call_at = getelementptr ptr, ptr %data, i64 1
  store ptr %call, ptr %call_at
  %number_at = getelementptr i64, ptr %pool, i64 30
  %number_of = load ptr, ptr %number_at
  %of_at = getelementptr ptr, ptr %data, i64 2
  store ptr %number_of, ptr %of_at
  call void %parallel(ptr @team_member, ptr %data, i32 %most, i32 0)
  %end = call i64 @now()
  store i64 %end, ptr %ended_at
  ret i1 true
no:
  ret i1 false
}

; Whether the team's second thread runs at this moment: the clock of what it ran goes on. Looking costs a system call, a
; second one if the clock has gone on since the last time.
define internal i1 @member_runs(ptr %pool) {
entry:
  %id_at = getelementptr i64, ptr %pool, i64 31
  %id = load i64, ptr %id_at
  %other = xor i64 %id, -1
  %high = shl i64 %other, 3
  %clock = or i64 %high, 6
  %name = trunc i64 %clock to i32
  %seen_at = getelementptr i64, ptr %pool, i64 129
  %seen = load i64, ptr %seen_at
  %ran = call i64 @time_of(i32 %name)
  %rests = icmp eq i64 %ran, %seen
  br i1 %rests, label %no, label %again
again:
  %then = call i64 @time_of(i32 %name)
  store i64 %then, ptr %seen_at
  %goes_on = icmp ne i64 %ran, %then
  ret i1 %goes_on
no:
  ret i1 false
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Learn the ids of the calling thread and of its team's second thread.
define void @vk_meet(ptr %pool) {
entry:
  %data = alloca [2 x ptr], align 8
  store ptr %pool, ptr %data
  %number_at = getelementptr i64, ptr %pool, i64 30
  %number_of = load ptr, ptr %number_at
  %of_at = getelementptr ptr, ptr %data, i64 1
  store ptr %number_of, ptr %of_at
  %most_at = getelementptr i64, ptr %pool, i64 29
  %most_of = load ptr, ptr %most_at
  %most = call i32 %most_of()
  %id_at = getelementptr i64, ptr %pool, i64 31
  store i64 0, ptr %id_at
  %rested_at = getelementptr i64, ptr %pool, i64 128
  store i64 0, ptr %rested_at
  %parallel_at = getelementptr i64, ptr %pool, i64 127
  %parallel = load ptr, ptr %parallel_at
  call void %parallel(ptr @introduce, ptr %data, i32 %most, i32 0)
  %owner_at = getelementptr i64, ptr %pool, i64 22
  %this = call i64 @this_thread()
  store i64 %this, ptr %owner_at
  ret void
}

define internal void @introduce(ptr %data) {
entry:
  %pool = load ptr, ptr %data
  %of_at = getelementptr ptr, ptr %data, i64 1
  %number_of = load ptr, ptr %of_at
  %number = call i32 %number_of()
  %is_second = icmp eq i32 %number, 1
  br i1 %is_second, label %second, label %end
second:
  %id = call i64 (i64, ...) @syscall(i64 GETTID)
  %id_at = getelementptr i64, ptr %pool, i64 31
  store i64 %id, ptr %id_at
  br label %end
end:
  ret void
}

; What each thread of a team does. OpenMP waits for all of them at the end.
define internal void @team_member(ptr %data) {
entry:
  %pool = load ptr, ptr %data
  %call_at = getelementptr ptr, ptr %data, i64 1
  %call = load ptr, ptr %call_at
  %of_at = getelementptr ptr, ptr %data, i64 2
  %number_of = load ptr, ptr %of_at
  %number = call i32 %number_of()
  %thread = zext i32 %number to i64
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %wanted = icmp ult i64 %thread, %threads
  br i1 %wanted, label %help, label %end
help:
  %workspace = call ptr @workspace_of(ptr %call, i64 %thread)
  call void @work(ptr %pool, ptr %call, ptr %workspace, i64 %thread, ptr null)
  br label %end
end:
  ret void
}
"""
"""`@run_on_team` and `@vk_meet`."""

TEAM = TEAM.replace("TIMES", str(TIMES)).replace("SPINNING", str(SPINNING))
