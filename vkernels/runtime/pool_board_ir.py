"""The board on which threads write their priorities, as LLVM IR; `pool_ir` describes the pool's memory.

The pools of all priorities share it. Its words are i64, alone on a line where several write them:

    0 threads of another priority than normal   1 this process's words on the board of all processes, which is at 2; 0
    without one   3 cores   4 entries in use   5 where its counters are   6 the file of the board of all processes
    7 the log of pauses; 0 without one
    8, 16, 24 threads at work on calls of low, normal and high priority
    32 + 2 e, of entry e:   0 a thread, 0 if free   1 its priority: 0 low, 1 normal, 2 high
    544 + 8 p, of priority p:   0 calls   1 their nanoseconds   2 calls that helpers were handed   3 pauses of threads
    4 their nanoseconds
    568 + 8 p, of the bell of priority p:   0 whether there is one   1 whether it ends   2 counts ends of calls
    3 counts its rings, on which paused threads of this priority sleep   4 how many do   5 its policy
    6 where ends of calls are counted, and where it sleeps: word 2, or on the board of all processes
    584 + q: the number of process q of the board of all processes if it is known to be dead

The *log of pauses* is there while somebody traces:

    0 records that were begun   1 records that there is room for
    8 + 4 r, of record r:   0 a thread   1 its priority   2 when its pause began, in nanoseconds   3 ended; written last

A *bell* is a thread that wakes those that paused, when a call ends. The caller of high priority does not: a thread that
slept during a call goes first by the system's account, so it would take the core from the very thread that wakes it,
for milliseconds. Waking the bell takes no core from anybody: that of normal priority has the policy `SCHED_BATCH`, that
of low priority `SCHED_IDLE`, so it even waits until nothing else wants the core.
"""

from __future__ import annotations

LOW, NORMAL, HIGH = range(3)
ENTRIES = 256
COUNTERS = 32 + 2 * ENTRIES
BELLS = COUNTERS + 8 * 3
DEAD = BELLS + 8 * 2
BOARD_WORDS = DEAD + 128
OWN_PROCESS, ALL_PROCESSES, CORES_OF_BOARD, ENTRIES_USED, COUNTERS_AT, FILE, PAUSE_LOG = range(1, 8)
"""Words of the board."""
FIRST_RECORD, RECORD_WORDS = 8, 4
"""Words of the log of pauses."""
HAS_BELL, BELL_ENDS, ENDS, RINGS, PAUSED, POLICY_OF_BELL, ENDS_AT = range(7)
"""Words of a bell."""
SCHED_BATCH, SCHED_IDLE = 3, 5
"""Linux's numbers."""

BOARD = rf"""
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

; Add to one of the counters of a priority.
define internal void @add_up(ptr %board, i64 %level, i64 %counter, i64 %number) {{
  %base_at = getelementptr i64, ptr %board, i64 {COUNTERS_AT}
  %base = load ptr, ptr %base_at
  %before = mul i64 %level, 8
  %word = add i64 %before, %counter
  %at = getelementptr i64, ptr %base, i64 %word
  %_ = atomicrmw add ptr %at, i64 %number monotonic, align 8
  ret void
}}

; Note a pause of this thread, where pauses are logged and there is room.
define internal void @note_pause(ptr %board, i64 %level, i64 %began, i64 %ended) {{
entry:
  %log_at = getelementptr i64, ptr %board, i64 {PAUSE_LOG}
  %log = load atomic ptr, ptr %log_at acquire, align 8
  %none = icmp eq ptr %log, null
  br i1 %none, label %end, label %take
take:
  %record = atomicrmw add ptr %log, i64 1 monotonic, align 8
  %room_at = getelementptr i64, ptr %log, i64 1
  %room = load i64, ptr %room_at
  %fits = icmp ult i64 %record, %room
  br i1 %fits, label %write, label %end
write:
  %before = mul i64 %record, {RECORD_WORDS}
  %word = add i64 %before, {FIRST_RECORD}
  %at = getelementptr i64, ptr %log, i64 %word
  %self = call i64 @this_thread()
  store i64 %self, ptr %at
  %level_at = getelementptr i64, ptr %at, i64 1
  store i64 %level, ptr %level_at
  %began_at = getelementptr i64, ptr %at, i64 2
  store i64 %began, ptr %began_at
  %ended_at = getelementptr i64, ptr %at, i64 3
  store atomic i64 %ended, ptr %ended_at release, align 8
  br label %end
end:
  ret void
}}

; Count threads at work on a call of this priority.
define internal void @enter_board(ptr %board, i64 %level, i64 %threads) {{
  %up = add i64 %level, 1
  %word = shl i64 %up, 3
  %at_work = getelementptr i64, ptr %board, i64 %word
  %_ = atomicrmw add ptr %at_work, i64 %threads seq_cst, align 8
  call void @publish(ptr %board, i64 %level, i64 %threads)
  ret void
}}

; The words of the bell of a priority.
define internal ptr @bell_of(ptr %board, i64 %level) {{
  %before = mul i64 %level, 8
  %word = add i64 %before, {BELLS}
  %bell = getelementptr i64, ptr %board, i64 %word
  ret ptr %bell
}}

; Count them no longer: threads of lower priority that paused for them look again.
define internal void @leave_board(ptr %board, i64 %level, i64 %threads) {{
entry:
  %up = add i64 %level, 1
  %word = shl i64 %up, 3
  %at_work = getelementptr i64, ptr %board, i64 %word
  %_ = atomicrmw sub ptr %at_work, i64 %threads seq_cst, align 8
  %fewer = sub i64 0, %threads
  call void @publish(ptr %board, i64 %level, i64 %fewer)
  br label %lower
lower:
  %l = phi i64 [ %level, %entry ], [ %below, %see ], [ %below, %ring ], [ %below, %wake ]
  %any = icmp sgt i64 %l, 0
  br i1 %any, label %see, label %end
see:
  %below = sub i64 %l, 1
  %bell = call ptr @bell_of(ptr %board, i64 %below)
  %paused_at = getelementptr i64, ptr %bell, i64 4
  %paused = load atomic i64, ptr %paused_at seq_cst, align 8
  %nobody = icmp eq i64 %paused, 0
  br i1 %nobody, label %lower, label %ask
ask:
  %there = load atomic i64, ptr %bell seq_cst, align 8
  %has_bell = icmp ne i64 %there, 0
  br i1 %has_bell, label %ring, label %wake
ring:
  call void @ring_bell(ptr %bell)
  br label %lower
wake:
  %rings = getelementptr i64, ptr %bell, i64 {RINGS}
  %__ = atomicrmw add ptr %rings, i64 1 seq_cst, align 8
  call void @wake(ptr %rings, i32 -1)
  br label %lower
end:
  call void @ring_others(ptr %board, i64 %level)
  ret void
}}

; Wake a bell.
define internal void @ring_bell(ptr %bell) {{
  %ends_at = getelementptr i64, ptr %bell, i64 {ENDS_AT}
  %ends = load ptr, ptr %ends_at
  %_ = atomicrmw add ptr %ends, i64 1 seq_cst, align 8
  %woken = call i64 @wake_shared(ptr %ends)
  ret void
}}

; The life of a bell: wait for the end of a call, wake threads that paused, wait again.
define ptr @vk_bell(ptr %bell) {{
entry:
  %over_at = getelementptr i64, ptr %bell, i64 1
  %ends_at = getelementptr i64, ptr %bell, i64 {ENDS_AT}
  %ends = load ptr, ptr %ends_at
  %rings = getelementptr i64, ptr %bell, i64 3
  %policy_at = getelementptr i64, ptr %bell, i64 5
  %policy = load i64, ptr %policy_at
  call void @set_policy(i64 %policy)
  br label %wait
wait:
  %seen = phi i64 [ 0, %entry ], [ %seen, %nap ], [ %now, %ring ]
  %now = load atomic i64, ptr %ends seq_cst, align 8
  %same = icmp eq i64 %now, %seen
  br i1 %same, label %nap, label %ring
nap:
  call void @sleep_shared(ptr %ends, i64 %seen)
  br label %wait
ring:
  %_ = atomicrmw add ptr %rings, i64 1 seq_cst, align 8
  call void @wake(ptr %rings, i32 -1)
  %over = load atomic i64, ptr %over_at seq_cst, align 8
  %ends_now = icmp ne i64 %over, 0
  br i1 %ends_now, label %end, label %wait
end:
  ret ptr null
}}

; Tell a bell to end; it rings once more.
define void @vk_stop_bell(ptr %bell) {{
  %over = getelementptr i64, ptr %bell, i64 1
  store atomic i64 0, ptr %bell seq_cst, align 8
  store atomic i64 1, ptr %over seq_cst, align 8
  call void @ring_bell(ptr %bell)
  ret void
}}
"""
"""`@this_thread`, `@priority_of`, `@add_up`, `@note_pause`, `@enter_board`, `@leave_board`, `@vk_bell` and
`@vk_stop_bell`."""
