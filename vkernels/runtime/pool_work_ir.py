"""How the threads of a pool wait and work, as LLVM IR; `pool_ir` describes the memory that they share."""

from __future__ import annotations

WAIT_AND_WORK = r"""
; Sleep until somebody wakes this word, unless its low half no longer is %seen. 128: FUTEX_WAIT_PRIVATE.
define internal void @sleep(ptr %word, i64 %seen) {
  %low = trunc i64 %seen to i32
  %_ = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 128, i32 %low, ptr null, ptr null, i32 0)
  ret void
}

; Wake at most %count threads that sleep on this word. 129: FUTEX_WAKE_PRIVATE.
define internal void @wake(ptr %word, i32 %count) {
  %_ = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}

; Wait until the word is (%until_equal) or is no longer (otherwise) %value: spin for a while, then sleep.
; Spinning gives way now and then: the thread that is waited for may be on this very core.
; %sleepers counts those asleep, so that who changes the word knows whether to wake.
define internal i64 @await(ptr %pool, ptr %word, i64 %value, i1 %until_equal, ptr %sleepers) {
entry:
  %spins_at = getelementptr i64, ptr %pool, i64 34
  %spins = load i64, ptr %spins_at
  br label %spin
spin:
  %turn = phi i64 [ 0, %entry ], [ %next_turn, %count ]
  %now = load atomic i64, ptr %word seq_cst, align 8
  %equal = icmp eq i64 %now, %value
  %arrived = icmp eq i1 %equal, %until_equal
  br i1 %arrived, label %done, label %again
again:
  PAUSE
  %phase = and i64 %turn, 31
  %yields = icmp eq i64 %phase, 31
  br i1 %yields, label %yield, label %count
yield:
  %status = call i64 (i64, ...) @syscall(i64 YIELD)
  br label %count
count:
  %next_turn = add i64 %turn, 1
  %patient = icmp ult i64 %next_turn, %spins
  br i1 %patient, label %spin, label %doze
doze:
  %_ = atomicrmw add ptr %sleepers, i64 1 seq_cst, align 8
  br label %look
look:
  %seen = load atomic i64, ptr %word seq_cst, align 8
  %seen_equal = icmp eq i64 %seen, %value
  %over = icmp eq i1 %seen_equal, %until_equal
  br i1 %over, label %woken, label %nap
nap:
  call void @sleep(ptr %word, i64 %seen)
  br label %look
woken:
  %__ = atomicrmw sub ptr %sleepers, i64 1 seq_cst, align 8
  br label %done
done:
  %result = phi i64 [ %now, %spin ], [ %seen, %woken ]
  ret i64 %result
}

; Take programs of one launch and run them until none is left. A turn takes a share of what is left that shrinks
; towards the grain: large pieces first, small ones to finish together.
define internal void @take(ptr %call, ptr %launch, ptr %workspace) {
entry:
  %arguments_at = getelementptr i64, ptr %call, i64 1
  %arguments = load ptr, ptr %arguments_at
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %shares = shl i64 %threads, 2
  %function = load ptr, ptr %launch
  %programs_at = getelementptr i64, ptr %launch, i64 1
  %programs = load i64, ptr %programs_at
  %grain_at = getelementptr i64, ptr %launch, i64 2
  %grain = load i64, ptr %grain_at
  %next = getelementptr i64, ptr %launch, i64 8
  %finished = getelementptr i64, ptr %launch, i64 16
  %sleepers = getelementptr i64, ptr %launch, i64 17
  %first = load atomic i64, ptr %next seq_cst, align 8
  br label %turn
turn:
  %begin = phi i64 [ %first, %entry ], [ %other, %try ], [ %following, %after ]
  %left = sub i64 %programs, %begin
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %try, label %empty
try:
  %share = udiv i64 %left, %shares
  %coarse = icmp ugt i64 %share, %grain
  %wanted = select i1 %coarse, i64 %share, i64 %grain
  %fits = icmp ult i64 %wanted, %left
  %size = select i1 %fits, i64 %wanted, i64 %left
  %end = add i64 %begin, %size
  %pair = cmpxchg ptr %next, i64 %begin, i64 %end seq_cst seq_cst, align 8
  %other = extractvalue { i64, i1 } %pair, 0
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %run, label %turn
run:
  call void %function(ptr %arguments, i64 %begin, i64 %end, ptr %workspace)
  %before = atomicrmw add ptr %finished, i64 %size seq_cst, align 8
  %sum = add i64 %before, %size
  %complete = icmp eq i64 %sum, %programs
  br i1 %complete, label %last, label %after
last:
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %somebody = icmp ne i64 %asleep, 0
  br i1 %somebody, label %rouse, label %after
rouse:
  call void @wake(ptr %finished, i32 2147483647)
  br label %after
after:
  %following = load atomic i64, ptr %next seq_cst, align 8
  br label %turn
empty:
  ret void
}

; Take part in every launch of a call. Each begins when the one before is done; the caller also sees the last one done.
define internal void @work(ptr %pool, ptr %call, ptr %workspace, i1 %caller) {
entry:
  %count = load i64, ptr %call
  %last = sub i64 %count, 1
  br label %loop
loop:
  %l = phi i64 [ 0, %entry ], [ %l_next, %on ]
  %more = icmp slt i64 %l, %count
  br i1 %more, label %launch, label %end
launch:
  %offset = mul i64 %l, 24
  %index = add i64 %offset, 16
  %this = getelementptr i64, ptr %call, i64 %index
  call void @take(ptr %call, ptr %this, ptr %workspace)
  %is_last = icmp eq i64 %l, %last
  %stays = xor i1 %is_last, true
  %waits = or i1 %stays, %caller
  br i1 %waits, label %wait, label %end
wait:
  %programs_at = getelementptr i64, ptr %this, i64 1
  %programs = load i64, ptr %programs_at
  %finished = getelementptr i64, ptr %this, i64 16
  %sleepers = getelementptr i64, ptr %this, i64 17
  %_ = call i64 @await(ptr %pool, ptr %finished, i64 %programs, i1 true, ptr %sleepers)
  br label %on
on:
  %l_next = add i64 %l, 1
  br label %loop
end:
  ret void
}

; Run every launch of a call on this thread alone.
define internal void @alone(ptr %call) {
entry:
  %count = load i64, ptr %call
  %arguments_at = getelementptr i64, ptr %call, i64 1
  %arguments = load ptr, ptr %arguments_at
  %workspace_at = getelementptr i64, ptr %call, i64 5
  %workspace = load ptr, ptr %workspace_at
  br label %loop
loop:
  %l = phi i64 [ 0, %entry ], [ %l_next, %on ]
  %more = icmp slt i64 %l, %count
  br i1 %more, label %launch, label %end
launch:
  %offset = mul i64 %l, 24
  %index = add i64 %offset, 16
  %this = getelementptr i64, ptr %call, i64 %index
  %function = load ptr, ptr %this
  %programs_at = getelementptr i64, ptr %this, i64 1
  %programs = load i64, ptr %programs_at
  %any = icmp sgt i64 %programs, 0
  br i1 %any, label %run, label %on
run:
  call void %function(ptr %arguments, i64 0, i64 %programs, ptr %workspace)
  br label %on
on:
  %l_next = add i64 %l, 1
  br label %loop
end:
  ret void
}
"""
"""`@await`, `@work` and `@alone`, with what `pool_ir` fills in for a machine."""
