"""The thread pool's native part, as LLVM IR: no C compiler is needed at run time.

Words are i64, alone on a cache line where several threads write them.

A *call* describes launches that run one after another:

    0 launches   1 arguments   2 threads   3 workspaces of the helpers   4 bytes of each   5 the caller's workspace
    8 joined: helpers that have asked to take part
    16 + 24 l, of launch l:   0 function   1 programs   2 grain   |   8 next program   |   16 done   17 sleepers

The *pool* is what threads share between calls:

    0 generation: counts calls   |   8 helpers asleep   |   16 active: helpers that may be reading the call
    17 the caller sleeps until `active` is 0   |   24 busy: a call is running   |   32 the call, 0 outside one
    33 stop   34 spins: turns of a waiting loop before it sleeps   35 the caller's core, plus 1, when helpers last
    were kept off it   36 helpers that have begun   40 their thread ids, of the first 64   104 a set of 1024 cores

A helper that comes late finds everything taken and does no harm; nobody waits for it. Helpers count themselves
in `active` before they look at the call, so once the caller has taken the call away and `active` is 0, nobody
reads it any more. Every "set mine, then look at yours" pair is sequentially consistent, and a sleeper hands
the kernel the value that it saw, so no wake-up is lost.
"""

from __future__ import annotations

from .pool_work_ir import WAIT_AND_WORK

POOL_WORDS = 120
CALL_WORDS = 16
LAUNCH_WORDS = 24

FUTEX = {"x86_64": 202, "aarch64": 98}
"""The number of the futex system call, by machine."""

YIELD = {"x86_64": 24, "aarch64": 124}
"""The number of the sched_yield system call, by machine."""

AFFINITY = {"x86_64": (204, 203, 186), "aarch64": (123, 122, 178)}
"""The numbers of the system calls sched_getaffinity, sched_setaffinity and gettid, by machine."""

PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
"""How a waiting loop tells the core that it waits: declaration and call."""


def pool_ir(machine: str) -> str:
    """The LLVM IR of the pool for a machine that `FUTEX` names; exports `vk_run`, `vk_helper` and `vk_stop`."""
    declaration, call = PAUSE[machine]
    text = (_THREADS + WAIT_AND_WORK).replace("PAUSE_DECLARATION", declaration).replace("PAUSE", call)
    numbers = zip(("GETAFFINITY", "SETAFFINITY", "GETTID"), AFFINITY[machine], strict=True)
    for name, number in (("FUTEX", FUTEX[machine]), ("YIELD", YIELD[machine]), *numbers):
        text = text.replace(name, str(number))
    return text


_THREADS = r"""
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
PAUSE_DECLARATION

; Let helpers run on every core that the caller may use but its own. A woken thread is often put on the core of the one
; that wakes it, and would wait there for milliseconds while other cores are idle. Only when the caller has moved.
define internal void @keep_off(ptr %pool) {
entry:
  %core32 = call i32 @sched_getcpu()
  %core = sext i32 %core32 to i64
  %number = add i64 %core, 1
  %last_at = getelementptr i64, ptr %pool, i64 35
  %last = load atomic i64, ptr %last_at seq_cst, align 8
  %moved = icmp ne i64 %number, %last
  %sensible = icmp ult i64 %core, 1024
  %act = and i1 %moved, %sensible
  br i1 %act, label %ask, label %end
ask:
  store atomic i64 %number, ptr %last_at seq_cst, align 8
  %set = getelementptr i64, ptr %pool, i64 104
  %status = call i64 (i64, ...) @syscall(i64 GETAFFINITY, i64 0, i64 128, ptr %set)
  %known = icmp sgt i64 %status, 0
  br i1 %known, label %exclude, label %end
exclude:
  %word = lshr i64 %core, 6
  %bit = and i64 %core, 63
  %one = shl i64 1, %bit
  %others = xor i64 %one, -1
  %word_at = getelementptr i64, ptr %set, i64 %word
  %allowed = load i64, ptr %word_at
  %left = and i64 %allowed, %others
  store i64 %left, ptr %word_at
  %begun_at = getelementptr i64, ptr %pool, i64 36
  %begun = load atomic i64, ptr %begun_at seq_cst, align 8
  %few = icmp slt i64 %begun, 64
  %helpers = select i1 %few, i64 %begun, i64 64
  br label %loop
loop:
  %h = phi i64 [ 0, %exclude ], [ %h_next, %on ]
  %more = icmp slt i64 %h, %helpers
  br i1 %more, label %find, label %end
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
end:
  ret void
}

; Run a call and return when it is complete: with helpers if it wants them and no other call has them.
define void @vk_run(ptr %pool, ptr %call) {
entry:
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %wants = icmp sgt i64 %threads, 1
  br i1 %wants, label %ask, label %by_itself
ask:
  %busy = getelementptr i64, ptr %pool, i64 24
  %pair = cmpxchg ptr %busy, i64 0, i64 1 seq_cst seq_cst, align 8
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %reset, label %by_itself
by_itself:
  call void @alone(ptr %call)
  ret void

reset:
  call void @keep_off(ptr %pool)
  %joined = getelementptr i64, ptr %call, i64 8
  store i64 0, ptr %joined
  %count = load i64, ptr %call
  br label %clear
clear:
  %l = phi i64 [ 0, %reset ], [ %l_next, %clear_one ]
  %more = icmp slt i64 %l, %count
  br i1 %more, label %clear_one, label %open
clear_one:
  %offset = mul i64 %l, 24
  %index = add i64 %offset, 16
  %this = getelementptr i64, ptr %call, i64 %index
  %next = getelementptr i64, ptr %this, i64 8
  store i64 0, ptr %next
  %finished = getelementptr i64, ptr %this, i64 16
  store i64 0, ptr %finished
  %sleepers = getelementptr i64, ptr %this, i64 17
  store i64 0, ptr %sleepers
  %l_next = add i64 %l, 1
  br label %clear

open:
  %current = getelementptr i64, ptr %pool, i64 32
  store atomic ptr %call, ptr %current seq_cst, align 8
  %_ = atomicrmw add ptr %pool, i64 1 seq_cst, align 8
  %asleep_at = getelementptr i64, ptr %pool, i64 8
  %asleep = load atomic i64, ptr %asleep_at seq_cst, align 8
  %somebody = icmp ne i64 %asleep, 0
  br i1 %somebody, label %rouse, label %share
rouse:
  %helpers = sub i64 %threads, 1
  %helpers32 = trunc i64 %helpers to i32
  call void @wake(ptr %pool, i32 %helpers32)
  br label %share
share:
  %own_at = getelementptr i64, ptr %call, i64 5
  %own = load ptr, ptr %own_at
  call void @work(ptr %pool, ptr %call, ptr %own, i1 true)
  store atomic ptr null, ptr %current seq_cst, align 8
  %active = getelementptr i64, ptr %pool, i64 16
  %closing = getelementptr i64, ptr %pool, i64 17
  %__ = call i64 @await(ptr %pool, ptr %active, i64 0, i1 true, ptr %closing)
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret void
}

; The life of a helper: wait for a call, take part in it, wait again.
define ptr @vk_helper(ptr %pool) {
entry:
  %begun_at = getelementptr i64, ptr %pool, i64 36
  %id = call i64 (i64, ...) @syscall(i64 GETTID)
  %mine = atomicrmw add ptr %begun_at, i64 1 seq_cst, align 8
  %room = icmp slt i64 %mine, 64
  br i1 %room, label %enlist, label %begin
enlist:
  %slot = add i64 %mine, 40
  %id_at = getelementptr i64, ptr %pool, i64 %slot
  store atomic i64 %id, ptr %id_at seq_cst, align 8
  br label %begin
begin:
  %last_at = getelementptr i64, ptr %pool, i64 35
  store atomic i64 0, ptr %last_at seq_cst, align 8
  %asleep = getelementptr i64, ptr %pool, i64 8
  %active = getelementptr i64, ptr %pool, i64 16
  %closing = getelementptr i64, ptr %pool, i64 17
  %current = getelementptr i64, ptr %pool, i64 32
  %stop_at = getelementptr i64, ptr %pool, i64 33
  br label %wait
wait:
  %seen = phi i64 [ 0, %begin ], [ %generation, %leave ], [ %generation, %farewell ], [ %generation, %rouse ]
  %generation = call i64 @await(ptr %pool, ptr %pool, i64 %seen, i1 false, ptr %asleep)
  %stop = load atomic i64, ptr %stop_at seq_cst, align 8
  %ends = icmp ne i64 %stop, 0
  br i1 %ends, label %end, label %enter
enter:
  %_ = atomicrmw add ptr %active, i64 1 seq_cst, align 8
  %call = load atomic ptr, ptr %current seq_cst, align 8
  %none = icmp eq ptr %call, null
  br i1 %none, label %leave, label %join
join:
  %joined = getelementptr i64, ptr %call, i64 8
  %number = atomicrmw add ptr %joined, i64 1 seq_cst, align 8
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %helpers = sub i64 %threads, 1
  %wanted = icmp slt i64 %number, %helpers
  br i1 %wanted, label %help, label %leave
help:
  %base_at = getelementptr i64, ptr %call, i64 3
  %base = load ptr, ptr %base_at
  %bytes_at = getelementptr i64, ptr %call, i64 4
  %bytes = load i64, ptr %bytes_at
  %offset = mul i64 %number, %bytes
  %workspace = getelementptr i8, ptr %base, i64 %offset
  call void @work(ptr %pool, ptr %call, ptr %workspace, i1 false)
  br label %leave
leave:
  %before = atomicrmw sub ptr %active, i64 1 seq_cst, align 8
  %was_last = icmp eq i64 %before, 1
  br i1 %was_last, label %farewell, label %wait
farewell:
  %sleeper = load atomic i64, ptr %closing seq_cst, align 8
  %somebody = icmp ne i64 %sleeper, 0
  br i1 %somebody, label %rouse, label %wait
rouse:
  call void @wake(ptr %active, i32 2147483647)
  br label %wait
end:
  ret ptr null
}

; Tell every helper to end after what it is doing.
define void @vk_stop(ptr %pool) {
  %stop_at = getelementptr i64, ptr %pool, i64 33
  store atomic i64 1, ptr %stop_at seq_cst, align 8
  %_ = atomicrmw add ptr %pool, i64 1 seq_cst, align 8
  call void @wake(ptr %pool, i32 2147483647)
  ret void
}
"""
"""`@vk_run`, `@vk_helper` and `@vk_stop`."""
