"""How the threads of a pool wait for one another, as LLVM IR; `pool_ir` describes the memory that they share."""

from __future__ import annotations

FUTEX = {"x86_64": 202, "aarch64": 98}
"""The number of the futex system call, by machine."""

YIELD = {"x86_64": 24, "aarch64": 124}
"""The number of the sched_yield system call, by machine."""

PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
"""How a waiting loop tells the core that it waits: declaration and call."""


def _spinning(spins: int, before: str, attempt: str) -> str:
    """The beginning of a function that waits: it spins for as long as the pool's word `spins` says, and goes to `%doze`
    when that is over. `before`: what it does once; `attempt`: each turn, which goes to `%again` or leaves the loop."""
    return f"""entry:
  %spins_at = getelementptr i64, ptr %pool, i64 {spins}
  %spins = load i64, ptr %spins_at
  %never = icmp eq i64 %spins, 0
  %began = alloca i64, align 8
  store i64 0, ptr %began
{before}  br label %spin
spin:
  %turn = phi i64 [ 0, %entry ], [ %next_turn, %turn_over ]
{attempt}
again:
  br i1 %never, label %doze, label %turn_over
turn_over:
  %sleeps = call i1 @linger(ptr %pool, i64 %turn, ptr %began, i64 %spins)
  %next_turn = add i64 %turn, 1
  br i1 %sleeps, label %doze, label %spin"""


_UNTIL_A_VALUE = _spinning(
    32,
    "",
    """  %now = load atomic i64, ptr %word seq_cst, align 8
  %arrived = icmp eq i64 %now, %value
  br i1 %arrived, label %done, label %again""",
)

_UNTIL_A_CALL = _spinning(
    34,
    """  %asleep = getelementptr i64, ptr %pool, i64 8
  %shared = icmp ugt i64 %number, 30
  %shift = select i1 %shared, i64 31, i64 %number
  %bit = shl i64 1, %shift
  %bit32 = trunc i64 %bit to i32
""",
    """  %known = phi i64 [ %seen, %entry ], [ %now, %turn_over ]
  %now = load atomic i64, ptr %pool seq_cst, align 8
  %changed = icmp ne i64 %now, %known
  br i1 %changed, label %judge, label %again
judge:
  %comes = call i1 @comes(ptr %pool, i64 %number)
  br i1 %comes, label %done, label %again""",
)

WAIT = rf"""
; Nanoseconds of the monotonic clock.
define internal i64 @now() {{
  %now = call i64 @time_of(i32 1)
  ret i64 %now
}}

; Nanoseconds of a clock; 0 where there is none.
define internal i64 @time_of(i32 %clock) {{
  %time = alloca [2 x i64], align 8
  store [2 x i64] zeroinitializer, ptr %time
  %status = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %part_at = getelementptr i64, ptr %time, i64 1
  %part = load i64, ptr %part_at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %part
  ret i64 %sum
}}

; Sleep until somebody wakes this word and one of these bits, unless its low half no longer is %seen.
; 137: FUTEX_WAIT_BITSET_PRIVATE.
define internal void @sleep(ptr %word, i64 %seen, i32 %bits) {{
  %low = trunc i64 %seen to i32
  %_ = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 137, i32 %low, ptr null, ptr null, i32 %bits)
  ret void
}}

; Wake all threads that sleep on this word with one of these bits. 138: FUTEX_WAKE_BITSET_PRIVATE.
define internal void @wake(ptr %word, i32 %bits) {{
  %_ = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 138, i32 2147483647, ptr null, ptr null, i32 %bits)
  ret void
}}

; The bits of so many helpers, the first ones.
define internal i64 @bits_of(i64 %helpers) {{
  %many = icmp sgt i64 %helpers, 31
  %shift = select i1 %many, i64 32, i64 %helpers
  %above = shl i64 1, %shift
  %bits = sub i64 %above, 1
  ret i64 %bits
}}

; One turn, the %turn-th, of a loop that waits; returns whether to sleep now: when %most nanoseconds are over. %began:
; when waiting began, 0 at first. It gives way if there are fewer cores than threads, for the one that is waited for
; may be on this very core. It does not otherwise: other work, however unimportant, keeps a core for milliseconds.
define internal i1 @linger(ptr %pool, i64 %turn, ptr %began_at, i64 %most) {{
entry:
  PAUSE
  %phase = and i64 %turn, 31
  %looks = icmp eq i64 %phase, 31
  br i1 %looks, label %look, label %stay
look:
  %time = call i64 @now()
  %began = load i64, ptr %began_at
  %known = icmp ne i64 %began, 0
  br i1 %known, label %compare, label %begin
begin:
  store i64 %time, ptr %began_at
  br label %judge
compare:
  %waited = sub i64 %time, %began
  %late = icmp ugt i64 %waited, %most
  br i1 %late, label %sleep, label %judge
judge:
  %wanted_at = getelementptr i64, ptr %pool, i64 1
  %wanted = load atomic i64, ptr %wanted_at monotonic, align 8
  %free_at = getelementptr i64, ptr %pool, i64 39
  %free = load atomic i64, ptr %free_at monotonic, align 8
  %crowded = icmp sgt i64 %wanted, %free
  br i1 %crowded, label %yield, label %stay
yield:
  %status = call i64 (i64, ...) @syscall(i64 YIELD)
  br label %stay
stay:
  ret i1 false
sleep:
  ret i1 true
}}

; Wait within a call until the word is %value: spin for a while, then sleep.
; %sleepers counts those asleep, so that who changes the word knows whether to wake.
define internal void @await(ptr %pool, ptr %word, i64 %value, ptr %sleepers) {{
{_UNTIL_A_VALUE}
doze:
  %_ = atomicrmw add ptr %sleepers, i64 1 seq_cst, align 8
  br label %look
look:
  %seen = load atomic i64, ptr %word seq_cst, align 8
  %over = icmp eq i64 %seen, %value
  br i1 %over, label %woken, label %nap
nap:
  call void @sleep(ptr %word, i64 %seen, i32 -1)
  br label %look
woken:
  %__ = atomicrmw sub ptr %sleepers, i64 1 seq_cst, align 8
  br label %done
done:
  ret void
}}

; Whether the latest call wants helper %number, or the helpers are to end.
define internal i1 @comes(ptr %pool, i64 %number) {{
  %wanted_at = getelementptr i64, ptr %pool, i64 1
  %stop_at = getelementptr i64, ptr %pool, i64 33
  %helpers = load atomic i64, ptr %wanted_at seq_cst, align 8
  %wanted = icmp slt i64 %number, %helpers
  %stop = load atomic i64, ptr %stop_at seq_cst, align 8
  %ends = icmp ne i64 %stop, 0
  %comes = or i1 %wanted, %ends
  ret i1 %comes
}}

; Wait for a call after generation %seen that wants helper %number, or for the end; returns its generation.
; Calls for fewer threads pass unnoticed: they do not keep the helper awake, nor do they wake it. A caller that was held
; up after it began a call may wake helpers that have taken part and gone to sleep since: they say again that they do.
define internal i64 @await_call(ptr %pool, i64 %seen, i64 %number) {{
{_UNTIL_A_CALL}
doze:
  %dozing_at = phi i64 [ %now, %again ], [ %now, %turn_over ], [ %found, %judge_again ], [ %found, %nap ]
  %_ = atomicrmw or ptr %asleep, i64 %bit seq_cst, align 8
  br label %look
look:
  %found = load atomic i64, ptr %pool seq_cst, align 8
  %differs = icmp ne i64 %found, %dozing_at
  br i1 %differs, label %judge_again, label %nap
judge_again:
  %comes_now = call i1 @comes(ptr %pool, i64 %number)
  br i1 %comes_now, label %woken, label %doze
nap:
  call void @sleep(ptr %pool, i64 %found, i32 %bit32)
  br label %doze
woken:
  br i1 %shared, label %done, label %clear
clear:
  %others = xor i64 %bit, -1
  %__ = atomicrmw and ptr %asleep, i64 %others seq_cst, align 8
  br label %done
done:
  %result = phi i64 [ %now, %judge ], [ %found, %woken ], [ %found, %clear ]
  ret i64 %result
}}
"""
"""`@await` and `@await_call`, with what `pool_ir` fills in for a machine."""
