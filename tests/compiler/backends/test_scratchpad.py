"""Scratchpad accesses become plain accesses of shared memory: in LLVM IR text, and in every vendor's code."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.compiler.backends.llvm_scratchpad import place_scratchpad, scratchpad_start
from vkernels.compiler.backends.resources import read_resources

from . import texts
from .texts import REVERSE, SWAP, N, compiled

NVIDIA = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_110", "sm_120"]
AMD = ["gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"]
SMEM = "@global_smem = external local_unnamed_addr addrspace(3) global [0 x i8], align 16\n"


def module(body: str, *, head: str = SMEM, convention: str = "ptx_kernel", arguments: str = "i32 %0, i64 %1") -> str:
    return (
        f"{head}\n; Function Attrs: nounwind\ndefine {convention} void @kernel({arguments}) local_unnamed_addr #0 {{\n"
        f"{body}  ret void\n}}\n\nattributes #0 = {{ nounwind }}\n"
    )


def parsed(text: str) -> str:
    """The text as LLVM prints it, once it has verified it; locations are not there to be looked up."""
    with llvm.create_context() as context, llvm.parse_assembly(re.sub(r", !dbg !\d+", "", text), context) as read:
        read.verify()
        return str(read)


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if " = " in line or "store" in line]


def test_an_nvidia_load_becomes_a_load() -> None:
    body = '  %3 = tail call i32 asm sideeffect "vk.load.i32", "=r,r"(i32 %0) #0, !dbg !21\n  %4 = add i32 %3, 1\n'
    found = place_scratchpad(module(body), 4096)
    lines = lines_of(found)
    assert any(re.fullmatch(r"%3 = load i32, ptr addrspace\(3\) %vk\.\S+, align 4, !dbg !21", line) for line in lines)
    assert any(
        "getelementptr (i8, ptr addrspace(3) @global_smem, i32 4096), i32 %0, !dbg !21" in line for line in lines
    )
    assert "asm" not in found
    parsed(found)


def test_an_amd_store_becomes_a_store_and_later_numbers_stay() -> None:
    body = '  %3 = call i32 asm sideeffect "vk.store.i64", "=r,r,r"(i32 128, i64 %1)\n  %4 = add i32 %0, %3\n'
    text = module(body, convention="amdgpu_kernel", arguments="i32 inreg %0, i64 inreg %1")
    found = parsed(place_scratchpad(text, 0))
    assert re.search(r"store i64 %1, ptr addrspace\(3\) .*, align 8", found)
    assert re.search(r"%4 = add i32 %0, %3", found)
    assert "asm" not in found


@pytest.mark.parametrize(("bits", "kind"), [(8, "i32"), (16, "i32"), (32, "i32"), (64, "i64")])
def test_every_width_is_stored_and_loaded(bits: int, kind: str) -> None:
    value = "%0" if kind == "i32" else "%1"
    body = (
        f'  %3 = tail call i32 asm sideeffect "vk.store.i{bits}", "=r,r,r"(i32 %0, {kind} {value}) #0\n'
        f'  %4 = tail call {kind} asm sideeffect "vk.load.i{bits}", "=r,r"(i32 %3) #0\n'
        f"  %5 = add {kind} %4, 1\n"
    )
    found = parsed(place_scratchpad(module(body), 128))
    assert f"store i{bits} " in found
    assert f"load i{bits}, ptr addrspace(3)" in found
    assert ("zext" in found) == ("trunc" in found) == (bits < 32)


def test_shared_memory_is_declared_once() -> None:
    body = '  %3 = tail call i32 asm sideeffect "vk.load.i32", "=r,r"(i32 %0) #0\n'
    for head in (SMEM, ""):
        assert parsed(place_scratchpad(module(body, head=head), 0)).count("@global_smem = ") == 1


def test_text_without_accesses_stays() -> None:
    text = module('  %3 = tail call i32 asm sideeffect "mov.u32 $0, 0;", "=r"() #0\n', head="")
    assert place_scratchpad(text, 0) == text


@pytest.mark.parametrize(
    "call",
    [
        '%3 = tail call { i32, i32 } asm sideeffect "vk.load.i32", "=r,=r,r"(i32 %0)',
        '%3 = tail call i32 asm sideeffect "vk.load.i24", "=r,r"(i32 %0)',
        '%3 = tail call i32 asm sideeffect "vk.load.i64", "=r,r"(i32 %0)',
        '%3 = tail call i32 asm sideeffect "vk.load.i32", "=r,r"(i64 %1)',
        '%3 = tail call i32 asm sideeffect "vk.store.i32", "=r,r,r"(i32 %0, i64 %1)',
        '%3 = tail call i32 asm sideeffect "vk.store.i32", "=r,r"(i32 %0)',
        '%3 = tail call i32 asm "vk.load.i32", "=r,r"(i32 %0)',
        '%3 = tail call i32 asm sideeffect "vk.exchange.i32", "=r,r,r"(i32 %0, i32 %0)',
    ],
)
def test_an_access_of_another_form_is_refused(call: str) -> None:
    with pytest.raises(RuntimeError, match="unknown form"):
        place_scratchpad(module(f"  {call}\n"), 0)


accesses = st.lists(
    st.tuples(
        st.sampled_from(["load", "store"]), st.sampled_from([8, 16, 32, 64]), st.integers(0, 2**20),
        st.sampled_from(["tail call", "call"]), st.sampled_from(["", " #0", " #0 #0"]),
    ),
    min_size=1, max_size=20,
)  # fmt: skip


@given(accesses, st.integers(0, 2**16))
def test_any_accesses_give_a_module_that_llvm_accepts(calls: list[tuple[str, int, int, str, str]], start: int) -> None:
    body = ""
    for number, (name, bits, offset, call, groups) in enumerate(calls, 3):
        wide = "i64" if bits == 64 else "i32"
        result, value = (wide, "") if name == "load" else ("i32", f", {wide} 7")
        body += f'  %{number} = {call} {result} asm sideeffect "vk.{name}.i{bits}", "…"(i32 {offset}{value}){groups}\n'
    found = parsed(place_scratchpad(module(body), start))
    assert "asm" not in found
    for name in ("load", "store"):
        wanted = sum(call[0] == name for call in calls)
        assert len(re.findall(rf"\b{name} i\d+.*addrspace\(3\)", found)) == wanted


@given(st.integers(0, 2**20))
def test_the_scratchpad_starts_aligned_behind_what_triton_uses(shared: int) -> None:
    assert shared <= scratchpad_start(shared) < shared + 128
    assert scratchpad_start(shared) % 128 == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("architecture", NVIDIA + AMD)
def test_a_tile_through_scratchpad_stays_in_shared_memory(architecture: str) -> None:
    binary, plain = compiled(REVERSE, architecture, scratch=4 * N), compiled(texts.COPY, architecture)
    found, without = read_resources(binary), read_resources(plain)
    assert found.mix.shared_stores > 0
    assert found.mix.shared_loads > 0
    assert without.mix.shared_stores == without.mix.shared_loads == 0
    assert (found.stack, found.spill_bytes, found.static_shared) == (0, 0, 0)
    assert 4 * N <= binary.shared == found.dynamic_shared
    assert "vk." not in binary.assembly


@pytest.mark.parametrize("architecture", NVIDIA)
def test_nvidia_stores_before_the_barrier_and_loads_after(architecture: str) -> None:
    assembly = compiled(REVERSE, architecture, scratch=4 * N).assembly
    order = re.findall(r"^\s*(?:@\S+ )?(st\.shared|bar\.sync|ld\.shared)", assembly, re.MULTILINE)
    first = order.index("bar.sync")
    assert set(order[:first]) == {"st.shared"}
    assert order[first + 1] == "ld.shared"


@pytest.mark.parametrize("architecture", AMD)
def test_amd_waits_for_shared_stores_before_the_barrier(architecture: str) -> None:
    """One that is not waited for could be overtaken: s_barrier itself orders nothing."""
    before, after = _around_barrier(compiled(REVERSE, architecture, scratch=4 * N).assembly)
    last = max(i for i, line in enumerate(before) if re.match(r"ds_(write|store)", line))
    assert any(re.match(r"s_waitcnt .*lgkmcnt\(0\)|s_wait_dscnt 0x0", line) for line in before[last:])
    assert any(re.match(r"ds_(read|load)", line) for line in after)
    assert not any(re.match(r"ds_(read|load)", line) for line in before)


@pytest.mark.parametrize("architecture", AMD)
def test_amd_orders_stores_to_swap_space_and_loads_across_the_barrier(architecture: str) -> None:
    """gfx9 has a program's accesses in order in its one compute unit's cache; later ones must wait, and drop lines."""
    before, after = _around_barrier(compiled(SWAP, architecture).assembly)
    stores = [i for i, line in enumerate(before) if line.startswith(("global_store", "buffer_store"))]
    assert stores
    assert any(line.startswith(("global_load", "buffer_load")) for line in after)
    if not architecture.startswith("gfx9"):
        wait = r"s_waitcnt_vscnt null, 0x0|s_wait_storecnt 0x0|s_wait_storecnt_dscnt 0x0"
        assert any(re.match(wait, line) for line in before[stores[-1] :])


def _around_barrier(assembly: str) -> tuple[list[str], list[str]]:
    """Instructions before and after the first barrier."""
    lines = [line.strip() for line in assembly.split("\n") if re.match(r"\t[a-z]", line)]
    first = next(i for i, line in enumerate(lines) if re.match(r"s_barrier(_signal)?\b", line))
    return lines[:first], lines[first + 1 :]


@pytest.mark.parametrize("architecture", NVIDIA + AMD)
def test_no_pass_moves_an_access_of_a_loop_over_a_barrier(architecture: str) -> None:
    """The loads' places are the same in every step: a pass that thought them plain would take them out of the loop."""
    binary = compiled(texts.exchange_in_a_loop(), architecture, stages=3, scratch=4 * N)
    pattern = r"^\s*(?:@\S+ )?(st\.shared|ld\.shared|bar\.sync|ds_\w+|s_barrier\b|s_barrier_wait|bra\b|s_cbranch)"
    found = [_short(name) for name in re.findall(pattern, binary.assembly, re.MULTILINE)]
    loop = found[: found.index("branch")]
    assert {"store", "load", "barrier"} <= set(loop)
    circle = "".join({"store": "s", "load": "l", "barrier": "|"}[name] for name in loop + loop[:1])
    assert not re.search("sl|ls", circle)


def _short(name: str) -> str:
    for word, starts in (
        ("store", ("st.", "ds_write", "ds_store")),
        ("load", ("ld.", "ds_read", "ds_load")),
        ("branch", ("bra", "s_cbranch")),
    ):
        if name.startswith(starts):
            return word
    return "barrier"
