"""The thread pool's native part, as LLVM IR: no C compiler is needed at run time.

Words are i64, alone on a cache line where several threads write them.

A *call* describes launches that run one after another:

    0 launches   1 arguments   2 threads   3 workspaces of the helpers   4 bytes of each   5 the caller's workspace
    6 nanoseconds that it takes on one thread, as far as known   7 words of a launch, w
    8 + w l, of launch l:   0 function   1 programs   2 grain   |   8 programs done   9 sleepers
    |   16 + 8 t: what is left of thread t's part: its first unit in the low half, its end in the high half

A unit is `grain` programs; there are fewer than 2^31. Thread 0 is the caller, thread h + 1 is helper h. Each begins
with its own part, the same in all calls of this kind, so that its core's caches hold the data of the last call. Then it
takes what is left of other parts: whatever a helper has not begun, nobody waits for.

The *pool* is what threads share between calls:

    0 generation: counts calls   1 helpers that the latest call wants   2 the call, 0 outside one
    8 helpers asleep, a bit each (see below)
    16 active: helpers that may be reading the call   17 the caller sleeps until `active` is 0
    18, 19, 20, 21 only with low priority: the number of the last call that is done, of the latest, whether its caller
    sleeps until it is done, and of the last one of which a helper has found no more to do
    24 busy: a call is running   25 nanoseconds of calls that sleeping helpers missed   26 when the last one ended
    27 the process's id
    22 the thread that has a team of OpenMP's   29, 30 functions that give how many threads the calling thread's team
    has, and the number of one   31 the id of the second   28 when it last ended a call
    127 the function that runs another on a team, 0 without
    32 nanoseconds that a thread spins within a call before it sleeps   33 stop   34 the same of a helper that waits for
    a call   35 the caller's core, plus 1, when helpers last were kept off it   36 helpers that have begun
    37 nanoseconds of the shortest call that is shared   38 of the shortest that wakes helpers
    39 cores left for helpers, as last counted
    40 thread ids of the first 64 helpers   104 a set of 1024 cores
    120 the board of priorities, 0 without one   121 priority   122, 123 the pools of high and low priority
    124 the thread that was asked for its class   125 turns since   126 whether it was idle
    128 when the team was last seen at rest   129 the clock of its second thread when last seen

Helper h sets bit min(h, 31) of `asleep` before it sleeps; who wakes it clears the bit. A wake-up names the bits of the
helpers that the call wants, so that no other ones run.

Helpers count themselves in `active` before they look at the call, so once the caller has taken the call away and
`active` is 0, nobody reads it any more, and all that helpers took is done. Every "set mine, then look at yours" pair is
sequentially consistent, and a sleeper hands the kernel the value that it saw, so no wake-up is lost.
"""

from __future__ import annotations

from .pool_board_ir import BOARD, LOW, SCHED_IDLE
from .pool_call_ir import CALL
from .pool_cores_ir import AFFINITY, KEEP_OFF, POLICY
from .pool_gate_ir import GATE
from .pool_priority_ir import PRIORITY
from .pool_shared_ir import FCNTL, SHARED
from .pool_team_ir import TEAM
from .pool_wait_ir import FUTEX, PAUSE, WAIT, YIELD
from .pool_work_ir import WORK

POOL_WORDS = 136
CALL_WORDS = 8
LAUNCH_WORDS = 16
PART_WORDS = 8
"""Words of a launch beside `LAUNCH_WORDS`, for each thread."""


def pool_ir(machine: str) -> str:
    """The LLVM IR of the pool for a machine that `FUTEX` names; exports `vk_run`, `vk_call`, `vk_helper`,
    `vk_stop`, `vk_bell`, `vk_stop_bell`, `vk_meet` and `this_thread`."""
    declaration, call = PAUSE[machine]
    text = (_DECLARED + WAIT + KEEP_OFF + WORK + SHARED + BOARD + GATE + PRIORITY + _THREADS + TEAM + CALL).replace(
        "PAUSE_DECLARATION", declaration
    )
    text = text.replace("PAUSE", call)
    names = "GETAFFINITY", "SETAFFINITY", "GETTID", "GETPOLICY", "SETPOLICY"
    calls = zip(names, (*AFFINITY[machine], *POLICY[machine]), strict=True)
    numbers = ("FUTEX", FUTEX[machine]), ("YIELD", YIELD[machine]), ("FCNTL", FCNTL[machine]), *calls
    for name, number in numbers:
        text = text.replace(name, str(number))
    return text


_DECLARED = r"""
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
PAUSE_DECLARATION
"""

_THREADS = rf"""
; Whether a call that found helpers asleep is to wake them: it takes long enough, or it and those right before it do.
; Calls count together while they follow each other so closely that helpers, once awake, would not have gone to sleep.
define internal i1 @worth_waking(ptr %pool, i64 %takes) {{
entry:
  %least_at = getelementptr i64, ptr %pool, i64 38
  %least = load i64, ptr %least_at
  %long = icmp uge i64 %takes, %least
  %missed_at = getelementptr i64, ptr %pool, i64 25
  br i1 %long, label %yes, label %sum
sum:
  %now = call i64 @now()
  %last_at = getelementptr i64, ptr %pool, i64 26
  %last = load i64, ptr %last_at
  store i64 %now, ptr %last_at
  %spins_at = getelementptr i64, ptr %pool, i64 34
  %spins = load i64, ptr %spins_at
  %window = add i64 %spins, %least
  %passed = sub i64 %now, %last
  %apart = icmp ugt i64 %passed, %window
  %missed = load i64, ptr %missed_at
  %counts = select i1 %apart, i64 0, i64 %missed
  %total = add i64 %counts, %takes
  %enough = icmp uge i64 %total, %least
  br i1 %enough, label %yes, label %no
no:
  store i64 %counts, ptr %missed_at
  ret i1 false
yes:
  store i64 0, ptr %missed_at
  ret i1 true
}}

; Run a call alone that sleeping helpers miss, and count how long it really took: the first ones take longer than said.
define internal void @miss(ptr %pool, ptr %call, ptr %gate) {{
  %last_at = getelementptr i64, ptr %pool, i64 26
  %missed_at = getelementptr i64, ptr %pool, i64 25
  %began = load i64, ptr %last_at
  call void @alone(ptr %pool, ptr %call, ptr %gate)
  %ended = call i64 @now()
  %took = sub i64 %ended, %began
  %counts = load i64, ptr %missed_at
  %total = add i64 %counts, %took
  store i64 %total, ptr %missed_at
  store i64 %ended, ptr %last_at
  ret void
}}

; Run a call and return when it is complete.
define void @vk_run(ptr %pool, ptr %call) {{
entry:
  %board_at = getelementptr i64, ptr %pool, i64 120
  %board = load ptr, ptr %board_at
  %none = icmp eq ptr %board, null
  br i1 %none, label %plain, label %ask
ask:
  %gives_way = call i1 @gives_way(ptr %board, ptr %call)
  br i1 %gives_way, label %by_priority, label %plain
by_priority:
  call void @run_by_priority(ptr %pool, ptr %board, ptr %call)
  ret void
plain:
  call void @run_in(ptr %pool, ptr %call, ptr null)
  ret void
}}

; Run a call: with helpers of this pool if that pays and no other call has them. %gate: the caller's, or null.
define internal void @run_in(ptr %pool, ptr %call, ptr %gate) {{
entry:
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %takes_at = getelementptr i64, ptr %call, i64 6
  %takes = load i64, ptr %takes_at
  %least_at = getelementptr i64, ptr %pool, i64 37
  %least = load i64, ptr %least_at
  %several = icmp sgt i64 %threads, 1
  %long = icmp uge i64 %takes, %least
  %wants = and i1 %several, %long
  br i1 %wants, label %ask, label %by_itself
ask:
  %busy = getelementptr i64, ptr %pool, i64 24
  %pair = cmpxchg ptr %busy, i64 0, i64 1 seq_cst seq_cst, align 8
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %cores, label %by_itself
cores:
  %helpers = sub i64 %threads, 1
  %is_idle = call i1 @is_idle_here(ptr %pool)
  br i1 %is_idle, label %release, label %team
team:
  %ran = call i1 @run_on_team(ptr %pool, ptr %call)
  br i1 %ran, label %done, label %place
done:
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret void
place:
  %has_cores = call i1 @keep_off(ptr %pool)
  br i1 %has_cores, label %look, label %release
look:
  %bits = call i64 @bits_of(i64 %helpers)
  %asleep_at = getelementptr i64, ptr %pool, i64 8
  %asleep = load atomic i64, ptr %asleep_at seq_cst, align 8
  %lie = and i64 %asleep, %bits
  %all_awake = icmp eq i64 %lie, 0
  br i1 %all_awake, label %open, label %weigh
weigh:
  %wakes = call i1 @worth_waking(ptr %pool, i64 %takes)
  %all_lie = icmp eq i64 %lie, %bits
  %stays = xor i1 %wakes, true
  %alone = and i1 %all_lie, %stays
  br i1 %alone, label %leave, label %open
leave:
  store atomic i64 0, ptr %busy seq_cst, align 8
  call void @miss(ptr %pool, ptr %call, ptr %gate)
  ret void
release:
  store atomic i64 0, ptr %busy seq_cst, align 8
  br label %by_itself
by_itself:
  call void @alone(ptr %pool, ptr %call, ptr %gate)
  ret void

open:
  %rouses = phi i1 [ true, %look ], [ %wakes, %weigh ]
  call void @deal(ptr %call)
  %wanted_at = getelementptr i64, ptr %pool, i64 1
  store atomic i64 %helpers, ptr %wanted_at release, align 8
  %current = getelementptr i64, ptr %pool, i64 2
  store atomic ptr %call, ptr %current release, align 8
  %_ = atomicrmw add ptr %pool, i64 1 seq_cst, align 8
  br i1 %rouses, label %see, label %share
see:
  call void @rouse(ptr %pool, i64 %helpers)
  br label %share
share:
  %own_at = getelementptr i64, ptr %call, i64 5
  %own = load ptr, ptr %own_at
  call void @work(ptr %pool, ptr %call, ptr %own, i64 0, ptr %gate)
  call void @end_call(ptr %pool)
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret void
}}

; Wake those of the first helpers that sleep, also those that fell asleep just now: they no longer see the generation.
define internal void @rouse(ptr %pool, i64 %helpers) {{
entry:
  %bits = call i64 @bits_of(i64 %helpers)
  %asleep_at = getelementptr i64, ptr %pool, i64 8
  %asleep = load atomic i64, ptr %asleep_at seq_cst, align 8
  %lie = and i64 %asleep, %bits
  %somebody = icmp ne i64 %lie, 0
  br i1 %somebody, label %rouse, label %done
rouse:
  %others = xor i64 %lie, -1
  %_ = atomicrmw and ptr %asleep_at, i64 %others seq_cst, align 8
  %named = trunc i64 %lie to i32
  call void @wake(ptr %pool, i32 %named)
  br label %done
done:
  ret void
}}

; Take the call away from helpers, and wait until none reads it any more.
define internal void @end_call(ptr %pool) {{
  %current = getelementptr i64, ptr %pool, i64 2
  store atomic ptr null, ptr %current seq_cst, align 8
  %active = getelementptr i64, ptr %pool, i64 16
  %closing = getelementptr i64, ptr %pool, i64 17
  call void @await(ptr %pool, ptr %active, i64 0, ptr %closing)
  ret void
}}

; The life of a helper: wait for a call, take part in it, wait again.
define ptr @vk_helper(ptr %pool) {{
entry:
  %gate_at = alloca [8 x i64], align 8
  %priority_at = getelementptr i64, ptr %pool, i64 121
  %priority = load i64, ptr %priority_at
  %is_low = icmp eq i64 %priority, {LOW}
  br i1 %is_low, label %idle, label %adopt
idle:
  call void @set_policy(i64 {SCHED_IDLE})
  br label %enrol
adopt:
  call void @adopt_policy(ptr %pool)
  br label %enrol
enrol:
  %begun_at = getelementptr i64, ptr %pool, i64 36
  %id = call i64 (i64, ...) @syscall(i64 GETTID)
  %number = atomicrmw add ptr %begun_at, i64 1 seq_cst, align 8
  %room = icmp slt i64 %number, 64
  br i1 %room, label %enlist, label %begin
enlist:
  %slot = add i64 %number, 40
  %id_at = getelementptr i64, ptr %pool, i64 %slot
  store atomic i64 %id, ptr %id_at seq_cst, align 8
  br label %begin
begin:
  %last_at = getelementptr i64, ptr %pool, i64 35
  store atomic i64 0, ptr %last_at seq_cst, align 8
  %active = getelementptr i64, ptr %pool, i64 16
  %closing = getelementptr i64, ptr %pool, i64 17
  %current = getelementptr i64, ptr %pool, i64 2
  %stop_at = getelementptr i64, ptr %pool, i64 33
  ; Callers of low priority do not work themselves: the first helper stands in for them.
  %after = add i64 %number, 1
  %thread = select i1 %is_low, i64 %number, i64 %after
  %parts_before = mul i64 %thread, 8
  %part_word = add i64 %parts_before, 24
  br label %wait
wait:
  %seen = phi i64 [ 0, %begin ], [ %generation, %leave ], [ %generation, %farewell ], [ %generation, %rouse ]
  %generation = call i64 @await_call(ptr %pool, i64 %seen, i64 %number)
  %stop = load atomic i64, ptr %stop_at seq_cst, align 8
  %ends = icmp ne i64 %stop, 0
  br i1 %ends, label %end, label %enter
enter:
  ; What is read first, on the way while `active` is: there is no harm in it if the call has ended.
  %soon = load atomic ptr, ptr %current monotonic, align 8
  %launch = getelementptr i64, ptr %soon, i64 8
  %part = getelementptr i64, ptr %soon, i64 %part_word
  call void @llvm.prefetch.p0(ptr %soon, i32 0, i32 3, i32 1)
  call void @llvm.prefetch.p0(ptr %launch, i32 0, i32 3, i32 1)
  call void @llvm.prefetch.p0(ptr %part, i32 1, i32 3, i32 1)
  %_ = atomicrmw add ptr %active, i64 1 seq_cst, align 8
  %call = load atomic ptr, ptr %current seq_cst, align 8
  %order_at = getelementptr i64, ptr %pool, i64 19
  %order = load atomic i64, ptr %order_at seq_cst, align 8
  %none = icmp eq ptr %call, null
  br i1 %none, label %leave, label %join
join:
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %wanted = icmp slt i64 %thread, %threads
  br i1 %wanted, label %help, label %leave
help:
  %workspace = call ptr @workspace_of(ptr %call, i64 %thread)
  %gate = call ptr @gate_for(ptr %pool, ptr %call, i64 %thread, ptr %gate_at)
  call void @work(ptr %pool, ptr %call, ptr %workspace, i64 %thread, ptr %gate)
  br i1 %is_low, label %note, label %leave
note:
  %emptied_at = getelementptr i64, ptr %pool, i64 21
  %__ = atomicrmw umax ptr %emptied_at, i64 %order seq_cst, align 8
  br label %leave
leave:
  %before = atomicrmw sub ptr %active, i64 1 seq_cst, align 8
  %was_last = icmp eq i64 %before, 1
  br i1 %was_last, label %last, label %wait
last:
  br i1 %is_low, label %serve, label %farewell
serve:
  call void @say_served(ptr %pool)
  br label %farewell
farewell:
  %sleeper = load atomic i64, ptr %closing seq_cst, align 8
  %somebody = icmp ne i64 %sleeper, 0
  br i1 %somebody, label %rouse, label %wait
rouse:
  call void @wake(ptr %active, i32 -1)
  br label %wait
end:
  ret ptr null
}}

; Tell every helper to end after what it is doing.
define void @vk_stop(ptr %pool) {{
  %stop_at = getelementptr i64, ptr %pool, i64 33
  store atomic i64 1, ptr %stop_at seq_cst, align 8
  %_ = atomicrmw add ptr %pool, i64 1 seq_cst, align 8
  call void @wake(ptr %pool, i32 -1)
  ret void
}}
"""
"""`@vk_run`, `@vk_helper` and `@vk_stop`."""
