"""Loops of machine code whose speed says what a CPU can do; `calibrate_cpu` times them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .backends.llvm import host_features, host_processor
from .calibration_accesses import access_loops
from .calibration_text import function_text, passes_text, steps_text, sums_text

MULTIPLY_ADDS = 10
"""Independent multiply-adds of vectors in a step: more than two units with a latency of four cycles can hold."""

LOADED_VECTORS = 8
"""Vectors that one block has, each loaded into an accumulator of its own, or stored."""

CHAIN_CYCLES = 16
"""Cycles of a step of `chain`: additions and exclusive ors by turns, each waiting for the one before."""

BESIDE = 8
"""Multiply-adds of vectors beside them: of the slowest units they take half of the cycles."""

BUSY = 6
"""Multiply-adds with each vector that `multiply_read` reads: about as long as level 3 takes for it."""

WORK = 80
"""Multiply-adds of a vector that `work` stores: they take longer than the store."""

LINKS = 16
"""Multiply-adds of a chain of `straight`: as of a polynomial."""

LARGE = 1 << 27
"""Bytes of arrays that are large."""

HALVES = 0x3F0000003F000000
"""Two floats of 0.5: multiplied and added up they stay ordinary numbers."""

WAITS = 8
"""Multiply-adds of a step of `wait`, each waiting for the one before."""


@dataclass(frozen=True)
class Loops:
    """Functions that hold no Python lock. All take the address of memory first, and a number of steps last.

    `multiply(memory, steps)`, `wait(memory, steps)`, `chain(memory, steps)`; `read(memory, blocks, steps)`,
    `multiply_read(memory, blocks, steps)`, which multiplies and adds `BUSY` times with each vector that it reads,
    `store(memory, blocks, steps)`; `work(memory, vectors, steps)`, which stores each vector after `WORK` multiply-adds,
    and `work_past`, which does so past the caches if the address allows it; `straight(memory, blocks, steps)`, which
    stores the end of a chain of `LINKS` multiply-adds for each vector, with those of a block interleaved, and
    `straight_past`, where a test of each address keeps them apart; `copy(memory, blocks, steps)` to as many
    blocks after these, and `copy_past`; `gather(memory, places, blocks, steps)`, where `places` has the position of
    each vector, an i32 counted in vectors, and `gather_2` and `gather_4`, where it has those of the first of as many
    vectors side by side. The rest: see `calibration_accesses`.
    """

    multiply: Callable[..., None]
    wait: Callable[..., None]
    read: Callable[..., None]
    multiply_read: Callable[..., None]
    store: Callable[..., None]
    work: Callable[..., None]
    work_past: Callable[..., None]
    straight: Callable[..., None]
    straight_past: Callable[..., None]
    copy: Callable[..., None]
    copy_past: Callable[..., None]
    gather: Callable[..., None]
    gather_2: Callable[..., None]
    gather_4: Callable[..., None]
    chain: Callable[..., None]
    scatter: Callable[..., None]
    apart: Callable[..., None]
    store_apart: Callable[..., None]
    apart_narrow: Callable[..., None]
    store_apart_narrow: Callable[..., None]
    computed: Callable[..., None]
    apart_computed: Callable[..., None]
    found: Callable[..., None]
    found_twice: Callable[..., None]
    whole: Callable[..., None]
    masked: Callable[..., None]
    across: Callable[..., None]
    atomic: Callable[..., None]
    update: Callable[..., None]


def buffer(size: int, word: int = HALVES) -> Any:
    """Memory aligned to 64 bytes, full of a word of 8 bytes: so the system has allocated every page."""
    words = np.full(-(-size // 8) + 8, word, dtype=np.int64)
    return words[-words.ctypes.data % 64 // 8 :]


class LargeMemory:
    """Arrays for loops that only read or copy. Large ones are parts of one, as writing pages for the first time takes
    longer than most measurements."""

    def __init__(self) -> None:
        self._kept: Any = None

    def arrays(self, size: int, count: int = 1) -> list[Any]:
        """So many arrays of `size` bytes, a multiple of 64."""
        if size * count < LARGE:
            return [buffer(size) for _ in range(count)]
        if self._kept is None or self._kept.nbytes < size * count:
            self._kept = None
            self._kept = buffer(size * count)
        return [self._kept[number * size // 8 :][: size // 8] for number in range(count)]


WORDS = {
    "multiply": 2, "wait": 2, "chain": 2, "gather": 4, "gather_2": 4, "gather_4": 4, "scatter": 4, "found": 4,
    "found_twice": 4, "atomic": 4, "update": 4,
}  # fmt: skip
"""Parameters of each loop that has not three: memory, blocks and steps."""


@contextmanager
def loops(register_bytes: int) -> Iterator[Loops]:
    """The loops, for vector registers of this size; they live until the context ends."""
    with compiled_loops(_text(register_bytes), {each.name: WORDS.get(each.name, 3) for each in fields(Loops)}) as code:
        yield Loops(**code)


@contextmanager
def compiled_loops(text: str, words: Mapping[str, int]) -> Iterator[dict[str, Callable[..., None]]]:
    """Functions of a text for this processor, by name; `words`: their parameters, each a number of 64 bits."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=host_processor(), features=host_features(), opt=2, jit=True, codemodel="jitdefault"
    )
    module = llvm.parse_assembly(text)
    with llvm.create_mcjit_compiler(module, machine) as engine:
        engine.finalize_object()

        def function(name: str, count: int) -> Callable[..., None]:
            return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)(engine.get_function_address(name))

        yield {name: function(name, count) for name, count in words.items()}


def _text(register_bytes: int) -> str:
    floats, words = f"<{register_bytes // 4} x float>", f"<{register_bytes // 8} x i64>"
    return f"""
declare {floats} @llvm.fmuladd({floats}, {floats}, {floats})
{_arithmetic("multiply", floats, MULTIPLY_ADDS, 1)}
{_arithmetic("wait", floats, 1, WAITS)}
{_reading("read", words)}
{_multiplying(floats)}
{_storing(floats, register_bytes)}
{_working("work", floats, register_bytes, False)}
{_working("work_past", floats, register_bytes, True)}
{_straight("straight", floats, register_bytes, False)}
{_straight("straight_past", floats, register_bytes, True)}
{_copying("copy", floats, register_bytes, "")}
{_copying("copy_past", floats, register_bytes, ", !nontemporal !0")}
{_gathering("gather", floats, 1)}
{_gathering("gather_2", floats, 2)}
{_gathering("gather_4", floats, 4)}
{_chain(floats)}
{access_loops(register_bytes)}
!0 = !{{i32 1}}
"""


def _arithmetic(name: str, floats: str, sums: int, links: int) -> str:
    """Each step adds `links` products to each of `sums` vectors, one after another."""
    body = [f"%s{n}_0 = phi {floats} [zeroinitializer, %entry], [%s{n}_{links}, %loop]" for n in range(sums)]
    body += [
        f"%s{n}_{k + 1} = call {floats} @llvm.fmuladd({floats} %s{n}_{k}, {floats} %a, {floats} %a)"
        for k in range(links)
        for n in range(sums)
    ]
    kept = [f"store volatile {floats} %s{n}_{links}, ptr %out, align 8" for n in range(sums)]
    first = [f"%a = load {floats}, ptr %at, align 8"]
    return steps_text(name, first, body, [f"%out = getelementptr {floats}, ptr %at, i64 1", *kept])


def _reading(name: str, words: str) -> str:
    body = [f"%s{n} = phi {words} [%r{n}, %pass], [%t{n}, %loop]" for n in range(LOADED_VECTORS)]
    for n in range(LOADED_VECTORS):
        body += [f"%p{n} = getelementptr {words}, ptr %here, i64 {n}", f"%v{n} = load {words}, ptr %p{n}, align 8"]
        body += [f"%t{n} = xor {words} %s{n}, %v{n}"]
    return _over_blocks(name, body, words, words)


def _multiplying(floats: str) -> str:
    """Two vectors by turns have sums of their own, which thus wait for one another half as often."""
    count = 2 * BUSY
    body = [f"%s{n} = phi {floats} [%r{n}, %pass], [%t{n}, %loop]" for n in range(count)]
    sums = [f"%s{n}" for n in range(count)]
    for vector in range(LOADED_VECTORS):
        body += [f"%p{vector} = getelementptr {floats}, ptr %here, i64 {vector}"]
        body += [f"%v{vector} = load {floats}, ptr %p{vector}, align 8"]
        for n in range(vector % 2 * BUSY, vector % 2 * BUSY + BUSY):
            name = f"%t{n}" if vector >= LOADED_VECTORS - 2 else f"%m{n}_{vector}"
            body += [f"{name} = call {floats} @llvm.fmuladd({floats} %v{vector}, {floats} %a, {floats} {sums[n]})"]
            sums[n] = name
    passes = passes_text(body, "%at", floats, LOADED_VECTORS, *sums_text(floats, count))
    return function_text("multiply_read", f"%a = load {floats}, ptr %at, align 8", passes)


def _storing(floats: str, register_bytes: int) -> str:
    body = []
    for n in range(LOADED_VECTORS):
        body += [f"%p{n} = getelementptr {floats}, ptr %here, i64 {n}"]
        body += [f"store {floats} %a, ptr %p{n}, align {register_bytes}"]
    return _over_blocks("store", body, floats, None, f"%a = load {floats}, ptr %at, align 8")


def _working(name: str, floats: str, register_bytes: int, past: bool) -> str:
    """Each step computes and stores `%blocks` vectors, one at a time."""
    sums, links = range(MULTIPLY_ADDS), WORK // MULTIPLY_ADDS
    body = [f"%s{n}_0 = phi {floats} [%a, %pass], [%s{n}_{links}, %stored]" for n in sums]
    body += [
        f"%s{n}_{k + 1} = call {floats} @llvm.fmuladd({floats} %s{n}_{k}, {floats} %a, {floats} %a)"
        for k in range(links)
        for n in sums
    ]
    value = f"%s0_{links}"
    ordinary = f"store {floats} {value}, ptr %here, align 4\n  br label %stored\nstored:"
    body.append(_tested("", floats, value, "%here", register_bytes) if past else ordinary)
    kept = [f"store volatile {floats} %s{n}_{links}, ptr %at, align 8" for n in sums]
    return function_text(
        name, f"%a = load {floats}, ptr %at, align 8", passes_text(body, "%at", floats, 1, (), kept, "stored")
    )


def _tested(name: str, floats: str, value: str, to: str, register_bytes: int) -> str:
    """A store past the caches if the address allows it, else an ordinary one; goes on in block `stored` + `name`."""
    return f"""%address{name} = ptrtoint ptr {to} to i64
  %low{name} = and i64 %address{name}, {register_bytes - 1}
  %aligned{name} = icmp eq i64 %low{name}, 0
  br i1 %aligned{name}, label %past{name}, label %ordinary{name}
past{name}:
  store {floats} {value}, ptr {to}, align {register_bytes}, !nontemporal !0
  br label %stored{name}
ordinary{name}:
  store {floats} {value}, ptr {to}, align 4
  br label %stored{name}
stored{name}:"""


def _straight(name: str, floats: str, register_bytes: int, past: bool) -> str:
    """Each step computes and stores `%blocks` blocks of vectors, each at the end of a chain of its own. A chain begins
    with the first link of the one before, so that blocks wait for one another no longer than that."""
    vectors, last = range(LOADED_VECTORS), f"stored{LOADED_VECTORS - 1}" if past else "loop"
    links = [
        f"%s{n}_{k + 1} = call {floats} @llvm.fmuladd({floats} %s{n}_{k}, {floats} %a, {floats} %a)"
        for k in range(LINKS)
        for n in vectors
    ]
    places = [f"%p{n} = getelementptr {floats}, ptr %here, i64 {n}" for n in vectors]
    body = [f"%s{n}_0 = phi {floats} [%a, %pass], [%s{n}_1, %{last}]" for n in vectors] + places
    if past:
        for n in vectors:
            body += [*links[n::LOADED_VECTORS], _tested(f"{n}", floats, f"%s{n}_{LINKS}", f"%p{n}", register_bytes)]
    else:
        body += [*links, *(f"store {floats} %s{n}_{LINKS}, ptr %p{n}, align 4" for n in vectors)]
    kept = [f"store volatile {floats} %s{n}_{LINKS}, ptr %at, align 8" for n in vectors]
    passes = passes_text(body, "%at", floats, LOADED_VECTORS, (), kept, last)
    return function_text(name, f"%a = load {floats}, ptr %at, align 8", passes)


def _copying(name: str, floats: str, register_bytes: int, how: str) -> str:
    body = [f"%to = getelementptr {floats}, ptr %here, i64 %vectors"]
    for n in range(LOADED_VECTORS):
        body += [f"%p{n} = getelementptr {floats}, ptr %here, i64 {n}", f"%v{n} = load {floats}, ptr %p{n}, align 8"]
        body += [f"%q{n} = getelementptr {floats}, ptr %to, i64 {n}"]
        body += [f"store {floats} %v{n}, ptr %q{n}, align {register_bytes}{how}"]
    return _over_blocks(name, body, floats, None, f"%vectors = mul i64 %blocks, {LOADED_VECTORS}")


def _gathering(name: str, floats: str, row: int) -> str:
    """Each place is that of `row` vectors."""
    body = [f"%s{n} = phi {floats} [%r{n}, %pass], [%t{n}, %loop]" for n in range(LOADED_VECTORS)]
    for n in range(0, LOADED_VECTORS, row):
        body += [f"%q{n} = getelementptr i32, ptr %here, i64 {n // row}", f"%i{n} = load i32, ptr %q{n}, align 4"]
        body += [f"%p{n} = getelementptr {floats}, ptr %at, i32 %i{n}"]
        body += [f"%p{n + k} = getelementptr {floats}, ptr %p{n}, i64 {k}" for k in range(1, row)]
        for k in range(n, n + row):
            body += [f"%v{k} = load {floats}, ptr %p{k}, align 8"]
            body += [f"%t{k} = call {floats} @llvm.fmuladd({floats} %v{k}, {floats} %a, {floats} %s{k})"]
    first = f"%first = inttoptr i64 %places to ptr\n  %a = load {floats}, ptr %at, align 8"
    passes = passes_text(body, "%first", "i32", LOADED_VECTORS // row, *sums_text(floats, LOADED_VECTORS))
    return function_text(name, first, passes, "i64 %places, ")


def _over_blocks(name: str, body: list[str], element: str, kind: str | None, first: str = "") -> str:
    """A function that goes through its memory as `passes_text` has it. `kind`: of the vectors that it adds up in
    `%t0`, …; None where there are none. `first`: what it does once, before."""
    sums = ((), ()) if kind is None else sums_text(kind, LOADED_VECTORS)
    return function_text(name, first, passes_text(body, "%at", element, LOADED_VECTORS, *sums))


def _chain(floats: str) -> str:
    """Dependent additions, and multiply-adds of vectors that need less time: where these lower the clock, it shows."""
    body = [f"%c0 = phi i64 [%steps, %entry], [%c{CHAIN_CYCLES}, %loop]"]
    body += [f"%s{n} = phi {floats} [zeroinitializer, %entry], [%t{n}, %loop]" for n in range(BESIDE)]
    for n in range(CHAIN_CYCLES):
        body.append(f"%c{n + 1} = {'xor' if n % 2 else 'add'} i64 %c{n}, %steps")
        if n < BESIDE:
            body.append(f"%t{n} = call {floats} @llvm.fmuladd({floats} %s{n}, {floats} %a, {floats} %a)")
    first = ["%out = alloca i64", f"%a = load {floats}, ptr %at, align 8"]
    last = [f"store volatile i64 %c{CHAIN_CYCLES}, ptr %out", f"%end = getelementptr {floats}, ptr %at, i64 1"]
    last += [f"store volatile {floats} %t{n}, ptr %end, align 8" for n in range(BESIDE)]
    return steps_text("chain", first, body, last)
