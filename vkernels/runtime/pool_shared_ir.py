"""The board on which the processes of a user tell each other their priorities, as LLVM IR.

It is a file in shared memory. Its words are i64, alone on a line where a process writes them while others read:

    0 magic   1 version   2 words of a process   3 processes that fit   8 processes in use, at most
    512 + 128 p, of process p:   0 its id   1 when it joined, in nanoseconds of the real-time clock   2 its cores
    8 its threads at work: those of high priority in bits 0-15, of normal 16-31, of low 32-47; and its number, 48-63
    16 its threads that paused: of low priority in bits 0-15, of normal 16-31; and its number, 48-63
    17 + l counts ends of calls that threads of priority l paused for: its bell sleeps there
    24 a set of 1024 cores   40 its name, 64 bytes   48 + 8 l counters of priority l, as on the process's own board
    16896 + 256 p + 32 c, of contract c of process p:   0 the process's number while it is watched, else 0   1 its
    priority   2 its p99 in nanoseconds   3 calls   4 late ones   5 nanoseconds of the longest   6 complete hundreds
    7 those broken   8 its kernel, 96 bytes   20 what it is beside, 96 bytes
    49664 + 128 p + 32 c, of company c of process p:   0 the process's number, else 0   1 whether it runs side by side
    2 what it needs, 3 its oversubscription, 4 its gain, in millionths; -1: unknown   5 decisions for side by side   6
    for turns   8 what it needs most of, 32 bytes   12 its kernels, 96 bytes

Process p holds a lock on byte p of the file for as long as it lives. The system releases it at any end, `kill -9`
included, so what a process has on the board counts for nothing once nobody holds its byte. Nobody clears it: each
process remembers the *number* of a dead one, and the process that takes the place has another.

A process writes only its own words, but for the counts of ends on which bells sleep. So nothing here is locked.
"""

from __future__ import annotations

from .pool_board_ir import DEAD, LOW

SHARED_MAGIC, SHARED_VERSION = 0x766B626F617264, 3
PROCESSES, PROCESS_WORDS, FIRST_PROCESS, USED_PROCESSES = 128, 128, 512, 8
PROCESS_ID, JOINED, PROCESS_CORES, AT_WORK, PAUSED_THREADS, ENDS_OF_CALLS = 0, 1, 2, 8, 16, 17
CORE_SET, NAME_OF_PROCESS, COUNTERS_OF_PROCESS = 24, 40, 48
CORE_WORDS, NAME_BYTES = 16, 64
CONTRACTS, CONTRACT_WORDS, FIRST_CONTRACT = 8, 32, FIRST_PROCESS + PROCESSES * PROCESS_WORDS
"""Contracts that a process shows at most, and where they are."""
CONTRACT_LEVEL, CONTRACT_P99, CONTRACT_COUNTERS, CONTRACT_KERNEL, CONTRACT_BESIDE, CONTRACT_TEXT = 1, 2, 3, 8, 20, 96
COMPANIES, COMPANY_WORDS, FIRST_COMPANY = 4, 32, FIRST_CONTRACT + PROCESSES * CONTRACTS * CONTRACT_WORDS
"""Companies that a process shows at most, and where they are."""
COMPANY_FIGURES, COMPANY_WHAT, COMPANY_KERNELS = 1, 8, 12
FILLS = 5
"""Among the counters of low priority: launches in gaps of a GPU, and then their nanoseconds."""
SHARED_BYTES = 8 * (FIRST_COMPANY + PROCESSES * COMPANIES * COMPANY_WORDS)

FCNTL = {"x86_64": 72, "aarch64": 25}
"""The number of the fcntl system call, by machine."""


def field_shift(level: int) -> int:
    """Where threads at work on calls of this priority are counted in their word."""
    return 32 - 16 * level


SHARED = rf"""
; Add to a word of this process, for other processes to see.
define internal void @add_to_own(ptr %board, i64 %word, i64 %amount) {{
entry:
  %own_at = getelementptr i64, ptr %board, i64 1
  %own = load ptr, ptr %own_at
  %alone = icmp eq ptr %own, null
  br i1 %alone, label %end, label %add
add:
  %at = getelementptr i64, ptr %own, i64 %word
  %_ = atomicrmw add ptr %at, i64 %amount seq_cst, align 8
  br label %end
end:
  ret void
}}

; Add to the threads of this process that are at work on calls of a priority.
define internal void @publish(ptr %board, i64 %level, i64 %threads) {{
  %places = shl i64 %level, 4
  %shift = sub i64 32, %places
  %amount = shl i64 %threads, %shift
  call void @add_to_own(ptr %board, i64 {AT_WORK}, i64 %amount)
  ret void
}}

; Add to the threads of this process that paused.
define internal void @publish_pause(ptr %board, i64 %level, i64 %threads) {{
  %shift = shl i64 %level, 4
  %amount = shl i64 %threads, %shift
  call void @add_to_own(ptr %board, i64 {PAUSED_THREADS}, i64 %amount)
  ret void
}}

; The shared board, or null; and how many processes it has at most.
define internal ptr @shared_of(ptr %board) {{
  %at = getelementptr i64, ptr %board, i64 2
  %shared = load ptr, ptr %at
  ret ptr %shared
}}

define internal i64 @processes_of(ptr %shared) {{
  %at = getelementptr i64, ptr %shared, i64 {USED_PROCESSES}
  %used = load atomic i64, ptr %at monotonic, align 8
  %most = call i64 @llvm.umin.i64(i64 %used, i64 {PROCESSES})
  ret i64 %most
}}

define internal ptr @process_at(ptr %shared, i64 %number) {{
  %before = mul i64 %number, {PROCESS_WORDS}
  %word = add i64 %before, {FIRST_PROCESS}
  %at = getelementptr i64, ptr %shared, i64 %word
  ret ptr %at
}}

; Whether %process is this one, or known to be dead. %word: one with its number.
define internal i1 @is_out(ptr %board, ptr %process, i64 %number, i64 %word) {{
  %own_at = getelementptr i64, ptr %board, i64 1
  %own = load ptr, ptr %own_at
  %is_own = icmp eq ptr %own, %process
  %dead_word = add i64 %number, {DEAD}
  %dead_at = getelementptr i64, ptr %board, i64 %dead_word
  %dead = load atomic i64, ptr %dead_at monotonic, align 8
  %epoch = lshr i64 %word, 48
  %is_dead = icmp eq i64 %dead, %epoch
  %is = or i1 %is_own, %is_dead
  ret i1 %is
}}

; Remember a process as dead if nobody holds its lock. %word: one with its number, read before.
define internal void @look_after(ptr %board, i64 %number, i64 %word) {{
entry:
  %lock = alloca [4 x i64], align 8
  store i64 1, ptr %lock
  %start_at = getelementptr i64, ptr %lock, i64 1
  store i64 %number, ptr %start_at
  %length_at = getelementptr i64, ptr %lock, i64 2
  store i64 1, ptr %length_at
  %file_at = getelementptr i64, ptr %board, i64 6
  %file = load i64, ptr %file_at
  ; 5: F_GETLK, of a lock for writing (1); the answer is 2, F_UNLCK, if nobody holds one.
  %status = call i64 (i64, ...) @syscall(i64 FCNTL, i64 %file, i64 5, ptr %lock)
  %answered = icmp eq i64 %status, 0
  %answer = load i16, ptr %lock
  %free = icmp eq i16 %answer, 2
  %is_dead = and i1 %answered, %free
  br i1 %is_dead, label %note, label %end
note:
  %epoch = lshr i64 %word, 48
  %dead_word = add i64 %number, {DEAD}
  %dead_at = getelementptr i64, ptr %board, i64 %dead_word
  store atomic i64 %epoch, ptr %dead_at monotonic, align 8
  br label %end
end:
  ret void
}}

; Threads of a process at work on calls of higher priority than normal, or than low. %word: the one that counts them.
define internal i64 @above_in(i64 %word, i1 %is_low) {{
  %high = and i64 %word, 65535
  %shifted = lshr i64 %word, 16
  %normal = and i64 %shifted, 65535
  %below = select i1 %is_low, i64 %normal, i64 0
  %above = add i64 %high, %below
  ret i64 %above
}}

; Cores that both this process and another one may use.
define internal i64 @common_cores(ptr %board, ptr %process) {{
entry:
  %own_at = getelementptr i64, ptr %board, i64 1
  %own = load ptr, ptr %own_at
  br label %loop
loop:
  %w = phi i64 [ 0, %entry ], [ %w_next, %loop ]
  %cores = phi i64 [ 0, %entry ], [ %cores_so_far, %loop ]
  %word = add i64 %w, {CORE_SET}
  %mine_at = getelementptr i64, ptr %own, i64 %word
  %mine = load i64, ptr %mine_at
  %theirs_at = getelementptr i64, ptr %process, i64 %word
  %theirs = load atomic i64, ptr %theirs_at monotonic, align 8
  %both = and i64 %mine, %theirs
  %some = call i64 @llvm.ctpop.i64(i64 %both)
  %cores_so_far = add i64 %cores, %some
  %w_next = add i64 %w, 1
  %more = icmp ult i64 %w_next, {CORE_WORDS}
  br i1 %more, label %loop, label %end
end:
  ret i64 %cores_so_far
}}

; Threads of other processes at work on calls of higher priority, on cores of this one. %looks: find out who is dead.
define internal i64 @others_above(ptr %board, i1 %is_low, i1 %looks) {{
entry:
  %shared = call ptr @shared_of(ptr %board)
  %alone = icmp eq ptr %shared, null
  br i1 %alone, label %none, label %begin
none:
  ret i64 0
begin:
  %used = call i64 @processes_of(ptr %shared)
  br label %loop
loop:
  %p = phi i64 [ 0, %begin ], [ %p_next, %next ]
  %sum = phi i64 [ 0, %begin ], [ %sum_next, %next ]
  %more = icmp ult i64 %p, %used
  br i1 %more, label %see, label %end
see:
  %process = call ptr @process_at(ptr %shared, i64 %p)
  %at = getelementptr i64, ptr %process, i64 {AT_WORK}
  %word = load atomic i64, ptr %at seq_cst, align 8
  %above = call i64 @above_in(i64 %word, i1 %is_low)
  %idle = icmp eq i64 %above, 0
  br i1 %idle, label %next, label %judge
judge:
  br i1 %looks, label %ask, label %count
ask:
  %was_out = call i1 @is_out(ptr %board, ptr %process, i64 %p, i64 %word)
  br i1 %was_out, label %next, label %look
look:
  call void @look_after(ptr %board, i64 %p, i64 %word)
  br label %count
count:
  %is_out = call i1 @is_out(ptr %board, ptr %process, i64 %p, i64 %word)
  br i1 %is_out, label %next, label %add
add:
  %common = call i64 @common_cores(ptr %board, ptr %process)
  %there = call i64 @llvm.umin.i64(i64 %above, i64 %common)
  %with_it = add i64 %sum, %there
  br label %next
next:
  %sum_next = phi i64 [ %sum, %see ], [ %sum, %ask ], [ %sum, %count ], [ %with_it, %add ]
  %p_next = add i64 %p, 1
  br label %loop
end:
  ret i64 %sum
}}

; A call of this priority is over: threads of lower priority in other processes that paused look again.
define internal void @ring_others(ptr %board, i64 %level) {{
entry:
  %shared = call ptr @shared_of(ptr %board)
  %alone = icmp eq ptr %shared, null
  %is_lowest = icmp eq i64 %level, {LOW}
  %nobody = or i1 %alone, %is_lowest
  br i1 %nobody, label %end, label %begin
begin:
  %used = call i64 @processes_of(ptr %shared)
  %bits = shl i64 %level, 4
  %above = shl i64 1, %bits
  %mask = sub i64 %above, 1
  br label %loop
loop:
  %p = phi i64 [ 0, %begin ], [ %p_next, %next ]
  %more = icmp ult i64 %p, %used
  br i1 %more, label %see, label %end
see:
  %process = call ptr @process_at(ptr %shared, i64 %p)
  %at = getelementptr i64, ptr %process, i64 {PAUSED_THREADS}
  %word = load atomic i64, ptr %at seq_cst, align 8
  %paused = and i64 %word, %mask
  %none = icmp eq i64 %paused, 0
  br i1 %none, label %next, label %judge
judge:
  %is_out = call i1 @is_out(ptr %board, ptr %process, i64 %p, i64 %word)
  br i1 %is_out, label %next, label %ring
ring:
  %low = and i64 %paused, 65535
  %woken_low = call i64 @ring_one(ptr %process, i64 0, i64 %low)
  %normal = lshr i64 %paused, 16
  %woken_normal = call i64 @ring_one(ptr %process, i64 1, i64 %normal)
  %woken = add i64 %woken_low, %woken_normal
  %silent = icmp eq i64 %woken, 0
  br i1 %silent, label %look, label %next
look:
  call void @look_after(ptr %board, i64 %p, i64 %word)
  br label %next
next:
  %p_next = add i64 %p, 1
  br label %loop
end:
  ret void
}}

; Ring the bell of a process for threads of this priority, if any paused; returns how many threads that woke.
define internal i64 @ring_one(ptr %process, i64 %level, i64 %paused) {{
entry:
  %none = icmp eq i64 %paused, 0
  br i1 %none, label %silent, label %ring
silent:
  ret i64 0
ring:
  %word = add i64 %level, {ENDS_OF_CALLS}
  %ends = getelementptr i64, ptr %process, i64 %word
  %_ = atomicrmw add ptr %ends, i64 1 seq_cst, align 8
  %woken = call i64 @wake_shared(ptr %ends)
  ret i64 %woken
}}

; As `@sleep` and `@wake`, of a word that several processes share. 9, 10: FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET.
define internal void @sleep_shared(ptr %word, i64 %seen) {{
  %low = trunc i64 %seen to i32
  %_ = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 9, i32 %low, ptr null, ptr null, i32 -1)
  ret void
}}

define internal i64 @wake_shared(ptr %word) {{
  %n = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 10, i32 2147483647, ptr null, ptr null, i32 -1)
  ret i64 %n
}}
"""
"""`@publish`, `@publish_pause`, `@others_above`, `@ring_others`, `@sleep_shared` and `@wake_shared`."""
