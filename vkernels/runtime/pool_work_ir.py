"""How the threads of a pool work on a call, as LLVM IR; `pool_ir` describes the memory that they share."""

from __future__ import annotations

WORK = r"""
; The words of a call's launch.
define internal ptr @launch_of(ptr %call, i64 %number) {
  %words_at = getelementptr i64, ptr %call, i64 7
  %words = load i64, ptr %words_at
  %offset = mul i64 %number, %words
  %index = add i64 %offset, 8
  %launch = getelementptr i64, ptr %call, i64 %index
  ret ptr %launch
}

; The workspace of a call's thread; 0 is the caller, or a helper that stands in for it.
define internal ptr @workspace_of(ptr %call, i64 %thread) {
  %base_at = getelementptr i64, ptr %call, i64 3
  %base = load ptr, ptr %base_at
  %bytes_at = getelementptr i64, ptr %call, i64 4
  %bytes = load i64, ptr %bytes_at
  %helper = sub i64 %thread, 1
  %offset = mul i64 %helper, %bytes
  %of_helper = getelementptr i8, ptr %base, i64 %offset
  %callers_at = getelementptr i64, ptr %call, i64 5
  %of_caller = load ptr, ptr %callers_at
  %is_caller = icmp eq i64 %thread, 0
  %workspace = select i1 %is_caller, ptr %of_caller, ptr %of_helper
  ret ptr %workspace
}

; What is left of a thread's part of a launch.
define internal ptr @part_of(ptr %launch, i64 %thread) {
  %offset = mul i64 %thread, 8
  %index = add i64 %offset, 16
  %part = getelementptr i64, ptr %launch, i64 %index
  ret ptr %part
}

; Take units of one thread's part and run them until none is left; returns how many programs that were. A turn takes
; half of what is left: the thread itself at the front, another one at the back. With a gate, less, and after calls of
; higher priority.
define internal i64 @take(ptr %call, ptr %launch, ptr %workspace, i64 %thread, i1 %own, ptr %gate) {
entry:
  %gated = icmp ne ptr %gate, null
  %arguments_at = getelementptr i64, ptr %call, i64 1
  %arguments = load ptr, ptr %arguments_at
  %function = load ptr, ptr %launch
  %programs_at = getelementptr i64, ptr %launch, i64 1
  %programs = load i64, ptr %programs_at
  %grain_at = getelementptr i64, ptr %launch, i64 2
  %grain = load i64, ptr %grain_at
  %part = call ptr @part_of(ptr %launch, i64 %thread)
  %first = load atomic i64, ptr %part seq_cst, align 8
  br label %turn
turn:
  %word = phi i64 [ %first, %entry ], [ %other, %try ], [ %following, %on ]
  %done = phi i64 [ 0, %entry ], [ %done, %try ], [ %done_now, %on ]
  %begin = and i64 %word, 4294967295
  %end = lshr i64 %word, 32
  %any = icmp ult i64 %begin, %end
  br i1 %any, label %some, label %empty
some:
  br i1 %gated, label %pass, label %try
pass:
  %allowed = call i64 @pass_gate(ptr %gate)
  br label %try
try:
  %most = phi i64 [ 2147483648, %some ], [ %allowed, %pass ]
  %left = sub i64 %end, %begin
  %half = lshr i64 %left, 1
  %share = call i64 @llvm.umin.i64(i64 %half, i64 %most)
  %size = call i64 @llvm.umax.i64(i64 %share, i64 1)
  %front = add i64 %begin, %size
  %back = sub i64 %end, %size
  %from = select i1 %own, i64 %begin, i64 %back
  %to = select i1 %own, i64 %front, i64 %end
  %left_begin = select i1 %own, i64 %front, i64 %begin
  %left_end = select i1 %own, i64 %end, i64 %back
  %high = shl i64 %left_end, 32
  %rest = or i64 %high, %left_begin
  %pair = cmpxchg ptr %part, i64 %word, i64 %rest seq_cst seq_cst, align 8
  %other = extractvalue { i64, i1 } %pair, 0
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %run, label %turn
run:
  %first_program = mul i64 %from, %grain
  %bound = mul i64 %to, %grain
  %last_program = call i64 @llvm.umin.i64(i64 %bound, i64 %programs)
  call void %function(ptr %arguments, i64 %first_program, i64 %last_program, ptr %workspace)
  %number = sub i64 %last_program, %first_program
  %done_now = add i64 %done, %number
  br i1 %gated, label %time, label %on
time:
  call void @time_turn(ptr %gate)
  br label %on
on:
  %following = load atomic i64, ptr %part seq_cst, align 8
  br label %turn
empty:
  ret i64 %done
}

declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; Take what is left of one's own part of a launch, then of the parts of the threads after it.
define internal i64 @take_all(ptr %call, ptr %launch, ptr %workspace, i64 %thread, ptr %gate) {
entry:
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  %mine = call i64 @take(ptr %call, ptr %launch, ptr %workspace, i64 %thread, i1 true, ptr %gate)
  br label %loop
loop:
  %done = phi i64 [ %mine, %entry ], [ %done_now, %steal ]
  %last = phi i64 [ %thread, %entry ], [ %victim, %steal ]
  %after = add i64 %last, 1
  %wraps = icmp uge i64 %after, %threads
  %victim = select i1 %wraps, i64 0, i64 %after
  %all = icmp eq i64 %victim, %thread
  br i1 %all, label %end, label %steal
steal:
  %more = call i64 @take(ptr %call, ptr %launch, ptr %workspace, i64 %victim, i1 false, ptr %gate)
  %done_now = add i64 %done, %more
  br label %loop
end:
  ret i64 %done
}

; Make a call ready to be shared: every thread has its part of every launch.
define internal void @deal(ptr %call) {
entry:
  %count = load i64, ptr %call
  %threads_at = getelementptr i64, ptr %call, i64 2
  %threads = load i64, ptr %threads_at
  br label %launches
launches:
  %l = phi i64 [ 0, %entry ], [ %l_next, %dealt ]
  %more = icmp slt i64 %l, %count
  br i1 %more, label %launch, label %end
launch:
  %this = call ptr @launch_of(ptr %call, i64 %l)
  %finished = getelementptr i64, ptr %this, i64 8
  store i64 0, ptr %finished
  %sleepers = getelementptr i64, ptr %this, i64 9
  store i64 0, ptr %sleepers
  %programs_at = getelementptr i64, ptr %this, i64 1
  %programs = load i64, ptr %programs_at
  %grain_at = getelementptr i64, ptr %this, i64 2
  %grain = load i64, ptr %grain_at
  %up = add i64 %programs, %grain
  %up_less = sub i64 %up, 1
  %units = udiv i64 %up_less, %grain
  %each = udiv i64 %units, %threads
  %rest = urem i64 %units, %threads
  br label %parts
parts:
  %t = phi i64 [ 0, %launch ], [ %t_next, %part ]
  %begin = phi i64 [ 0, %launch ], [ %end_of, %part ]
  %one_more = icmp ult i64 %t, %rest
  %extra = zext i1 %one_more to i64
  %size = add i64 %each, %extra
  %end_of = add i64 %begin, %size
  %is_thread = icmp ult i64 %t, %threads
  br i1 %is_thread, label %part, label %dealt
part:
  %part_at = call ptr @part_of(ptr %this, i64 %t)
  %high = shl i64 %end_of, 32
  %both = or i64 %high, %begin
  store i64 %both, ptr %part_at
  %t_next = add i64 %t, 1
  br label %parts
dealt:
  %l_next = add i64 %l, 1
  br label %launches
end:
  ret void
}

; Take part in every launch of a call. Each begins when the one before is done; nobody waits here for the last one.
define internal void @work(ptr %pool, ptr %call, ptr %workspace, i64 %thread, ptr %gate) {
entry:
  %count = load i64, ptr %call
  %last = sub i64 %count, 1
  br label %loop
loop:
  %l = phi i64 [ 0, %entry ], [ %l_next, %on ]
  %more = icmp slt i64 %l, %count
  br i1 %more, label %launch, label %end
launch:
  %this = call ptr @launch_of(ptr %call, i64 %l)
  %mine = call i64 @take_all(ptr %call, ptr %this, ptr %workspace, i64 %thread, ptr %gate)
  %is_last = icmp eq i64 %l, %last
  br i1 %is_last, label %end, label %report
report:
  %programs_at = getelementptr i64, ptr %this, i64 1
  %programs = load i64, ptr %programs_at
  %finished = getelementptr i64, ptr %this, i64 8
  %sleepers = getelementptr i64, ptr %this, i64 9
  %idle = icmp eq i64 %mine, 0
  br i1 %idle, label %wait, label %add
add:
  %before = atomicrmw add ptr %finished, i64 %mine seq_cst, align 8
  %sum = add i64 %before, %mine
  %complete = icmp eq i64 %sum, %programs
  br i1 %complete, label %completed, label %wait
completed:
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %somebody = icmp ne i64 %asleep, 0
  br i1 %somebody, label %rouse, label %on
rouse:
  call void @wake(ptr %finished, i32 -1)
  br label %on
wait:
  call void @await(ptr %pool, ptr %finished, i64 %programs, ptr %sleepers)
  br label %on
on:
  %l_next = add i64 %l, 1
  br label %loop
end:
  ret void
}

; Run every launch of a call on this thread alone: at once, or with a gate in turns.
define internal void @alone(ptr %pool, ptr %call, ptr %gate) {
entry:
  %gated = icmp ne ptr %gate, null
  br i1 %gated, label %in_turns, label %at_once
in_turns:
  call void @deal(ptr %call)
  %own_at = getelementptr i64, ptr %call, i64 5
  %own = load ptr, ptr %own_at
  call void @work(ptr %pool, ptr %call, ptr %own, i64 0, ptr %gate)
  ret void
at_once:
  %count = load i64, ptr %call
  %arguments_at = getelementptr i64, ptr %call, i64 1
  %arguments = load ptr, ptr %arguments_at
  %workspace_at = getelementptr i64, ptr %call, i64 5
  %workspace = load ptr, ptr %workspace_at
  br label %loop
loop:
  %l = phi i64 [ 0, %at_once ], [ %l_next, %on ]
  %more = icmp slt i64 %l, %count
  br i1 %more, label %launch, label %end
launch:
  %this = call ptr @launch_of(ptr %call, i64 %l)
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
"""`@work` and `@alone`."""
