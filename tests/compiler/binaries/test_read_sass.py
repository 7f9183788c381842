"""NVIDIA's disassembly is read with its control words, and text that is no disassembly is refused."""

from __future__ import annotations

import pytest

from vkernels.compiler.binaries.classify_sass import wide_tensor
from vkernels.compiler.binaries.find_loops import find_loops, find_versions
from vkernels.compiler.binaries.instructions import Instruction, Kind
from vkernels.compiler.binaries.loop_use import use_of
from vkernels.compiler.binaries.read_sass import control_of, read_sass
from vkernels.compiler.binaries.roles import warps_of_roles
from vkernels.ir.errors import FileError

# A loop as nvdisasm prints one: encodings of sm_90, in which bits 41 to 61 of the second half are the control word.
TEXT = """
//--------------------- .text.other              --------------------------
.text.other:
        /*0000*/                   EXIT ;                                    /* 0x000000000000794d */
                                                                             /* 0x000fea0003800000 */
//--------------------- .text.kernel              --------------------------
.text.kernel:
	//## File "kernel.ttir", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;                    /* 0x00000a00ff017b82 */
                                                                             /* 0x000fe20000000800 */
.L_x_0:
	//## File "kernel.ttir", line 7
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;          /* 0x0000000402047981 */
                                                                             /* 0x000ea2000c1e1d00 */
        /*0020*/                   HGMMA.64x256x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0 ; /* 0x43e00000081879f0 */
                                                                             /* 0x000fe20008000818 */
        /*0030*/                   LDL.64 R8, [R1+0x8] ;                     /* 0x0000080001087983 */
                                                                             /* 0x000ee80000100a00 */
        /*0040*/               @P0 FFMA R4, R4, R5, R8 ;                     /* 0x0000000504040223 */
                                                                             /* 0x004fe20000000008 */
        /*0050*/              @!P1 BRA `(.L_x_0) ;                           /* 0xfffffffc00ec9947 */
                                                                             /* 0x000fea000383ffff */
        /*0060*/                   EXIT ;                                    /* 0x000000000000794d */
                                                                             /* 0x000fea0003800000 */
.L_x_1:
        /*0070*/                   BRA `(.L_x_1);                            /* 0xfffffffc00fc7947 */
                                                                             /* 0x000fc0000383ffff */
        /*0080*/                   NOP ;                                     /* 0x0000000000007918 */
                                                                             /* 0x000fc00000000000 */
"""


def test_instructions_have_their_kinds_lines_and_targets() -> None:
    code = read_sass(TEXT, "kernel")
    assert [each.opcode for each in code] == [
        "LDC", "LDG.E.128", "HGMMA.64x256x16.F32", "LDL.64", "FFMA", "BRA", "EXIT", "BRA",
    ]  # fmt: skip
    assert [each.line for each in code[:3]] == [3, 7, 7]
    assert (code[1].kind, code[1].bytes) == (Kind.GLOBAL_LOAD, 16)
    assert (code[3].kind, code[3].bytes) == (Kind.SPILL_LOAD, 8)
    assert str(code[2].tensor) == "64x256x16"
    assert code[5].target == 0x10
    assert [each.falls_through for each in code[4:]] == [True, True, False, False]


def test_control_words_say_what_waits_for_what() -> None:
    ldc, ldg, *_, ffma, bra, _, _ = read_sass(TEXT, "kernel")
    assert ldc.control == control_of(0x000FE20000000800)
    assert (ldc.control.stall, ldc.control.writes, ldc.control.waits) == (1, None, 0)
    assert ldg.control is not None
    assert ffma.control is not None
    assert bra.control is not None
    assert (ldg.control.writes, ldg.control.reads) == (2, None)
    assert ffma.control.waits == 1 << 2, "it uses what the load brings"
    assert bra.control.stall == 5


def test_a_loop_is_found_with_what_its_trip_does() -> None:
    outside, loop = (use_of(region, "sm_90", 4) for region in find_loops(read_sass(TEXT, "kernel")))
    assert (loop.first, loop.last, loop.instructions, loop.is_innermost) == (0x10, 0x50, 5, True)
    assert loop.spills == 1
    assert loop.bytes == {"global load": 16, "spill load": 8}
    assert loop.wide_accesses == 1
    assert loop.lines == {7: 5}
    (tensor,) = loop.tensor
    assert tensor.multiply_adds(8) == 2 * 64 * 256 * 16, "each of two warp groups has one"
    assert tensor.operand_bytes == (64 + 256) * 16 * 2
    assert loop.latency >= 200 > loop.stalls, "a warp waits for its load"
    assert outside.instructions == 2, "what is behind the end is no part of the kernel"


def test_descriptors_of_the_fifth_generation_say_shape_and_dtype() -> None:
    assert str(wide_tensor("UTCHMMA", 0x08210010)) == "128x128x16"
    assert wide_tensor("UTCHMMA", 0x08210010 | 2 << 7).dtype == "tf32"
    assert str(wide_tensor("UTCQMMA", 0x08400010)) == "128x256x32"
    assert (str(wide_tensor("UTCOMMA", 0x08400010)), wide_tensor("UTCOMMA", 0).dtype) == ("128x256x64", "mxfp4")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "without instructions of the kernel"),
        (TEXT.replace(".text.kernel", ".text.hernel"), "without instructions"),
        (TEXT.replace("LDG.E.128 R4", "(!) ?"), "cannot be read"),
        (TEXT.replace("@!P1 BRA `(.L_x_0)", "@!P1 BRA `(.L_x_9)"), "branch to nowhere"),
        (TEXT.replace("/*0020*/", "/*0001*/"), "out of order"),
        ("\0" * 1000 + "/*0000*/ " * 1000, "without instructions"),
    ],
)
def test_hostile_text_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FileError, match=reason):
        read_sass(text, "kernel")


def made(*flow: tuple[str, int | None, bool]) -> list[Instruction]:
    """Instructions at 0, 1, …: opcode, target, and whether the next may follow."""
    kinds = {"FFMA": Kind.FLOAT, "BRA": Kind.BRANCH, "SYNCS": Kind.WAIT, "UTCHMMA": Kind.TENSOR, "CALL": Kind.BRANCH}
    return [
        Instruction(n, opcode, "", kinds.get(opcode, Kind.OTHER), target=target, falls_through=follows,
                    once=opcode == "UTCHMMA")
        for n, (opcode, target, follows) in enumerate(flow)
    ]  # fmt: skip


def test_loops_are_nested_and_waits_are_none() -> None:
    outside, outer, inner = find_loops(
        made(
            ("FFMA", None, True),
            ("FFMA", None, True),  # outer
            ("FFMA", None, True),  # inner
            ("BRA", 2, True),
            ("SYNCS", None, True),  # waits
            ("BRA", 4, True),
            ("BRA", 1, True),
            ("EXIT", None, False),
        )
    )
    assert (outer.first, outer.last, outer.parent, outer.is_innermost) == (1, 6, 0, False)
    assert (inner.first, inner.last, inner.parent, inner.is_innermost) == (2, 3, 1, True)
    assert [each.address for each in outer.instructions] == [1, 4, 5, 6]
    assert [each.address for each in outside.instructions] == [0, 7]


def test_code_behind_a_branch_whose_ways_both_have_loops_is_a_version() -> None:
    versions = find_versions(
        made(
            ("FFMA", None, True),
            ("BRA", 6, True),
            ("FFMA", None, True),  # one way
            ("FFMA", None, True),  # loop
            ("BRA", 3, True),
            ("BRA", 9, False),
            ("FFMA", None, True),  # the other way
            ("FFMA", None, True),  # loop
            ("BRA", 7, True),
            ("EXIT", None, False),
        )
    )
    assert [[each.address for each in version.instructions] for version in versions] == [[6], [2, 5]]


def test_code_that_nothing_leads_to_has_no_versions() -> None:
    assert not find_versions(
        made(
            ("FFMA", None, True),
            ("BRA", 0, True),
            ("EXIT", None, False),
            ("FFMA", None, True),  # nothing leads here
            ("BRA", 6, True),
            ("EXIT", None, False),
            ("EXIT", None, False),
        )
    )


def test_what_follows_a_loop_that_a_branch_goes_around_is_no_version() -> None:
    assert not find_versions(
        made(
            ("BRA", 4, True),
            ("FFMA", None, True),
            ("FFMA", None, True),  # loop
            ("BRA", 2, True),
            ("FFMA", None, True),
            ("FFMA", None, True),  # loop
            ("BRA", 5, True),
            ("EXIT", None, False),
        )
    )


ROLES = """
	.section	.text.kernel,"ax",@progbits
//--------------------- .text.kernel --------------------------
        /*0000*/                   @P1 BRA `(.L_x_0) ;              /* 0x0000000000001947 */
                                                                    /* 0x000fea0003800000 */
.L_x_4:
        /*0010*/                   UTMALDG.2D [UR16], [UR10] ;      /* 0x000000100a0005b4 */
                                                                    /* 0x000fe20008000000 */
        /*0020*/                   @!P0 BRA `(.L_x_4) ;             /* 0x0000000000008947 */
                                                                    /* 0x000fea0003800000 */
        /*0030*/                   EXIT ;                           /* 0x000000000000794d */
                                                                    /* 0x000fea0003800000 */
.L_x_0:
        /*0040*/                   NOP ;                            /* 0x0000000000007918 */
                                                                    /* 0x000fea0003800000 */
        /*0050*/                   USETMAXREG.DEALLOC.CTAPOOL 0x18 ;  /* 0x00000018000079c8 */
                                                                    /* 0x000fea0003800000 */
        /*0060*/                   BRX R2 -0x70 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*) ;  /* 0x0000000002007949 */
                                                                    /* 0x000fea0003800000 */
.L_x_1:
        /*0070*/                   HGMMA.64x128x16.F32 R24, gdesc[UR12], R24, gsb0 ;  /* 0x00e000000c1879f0 */
                                                                    /* 0x000fe20008000818 */
        /*0080*/                   @!P2 BRA `(.L_x_1) ;             /* 0x0000000000008947 */
                                                                    /* 0x000fea0003800000 */
        /*0090*/                   BRA `(.L_x_0) ;                  /* 0x0000000000007947 */
                                                                    /* 0x000fea0003800000 */
.L_x_2:
        /*00a0*/                   EXIT ;                           /* 0x000000000000794d */
                                                                    /* 0x000fea0003800000 */
"""
TEXT_OF_ROLES = 'module attributes {"ttg.num-warps" = 8 : i32} {\n    default {\n    }\n' + (
    "    partition0(%a: i32) num_warps(4) {\n  ttng.warp_group_dot %a\n"
    "    partition1(%a: i32) num_warps(2) {\n  ttng.async_tma_copy_global_to_local %a\n"
)


def test_loops_of_roles_run_side_by_side_in_their_own_warps() -> None:
    """Warps wait for a role in a loop, which is none of the kernel's, and branch by a table to it; labels of padding
    are those of what follows."""
    outside, copies, multiplies = find_loops(read_sass(ROLES, "kernel"))
    assert [each.first for each in (copies, multiplies)] == [0x10, 0x70]
    assert len({outside.role, copies.role, multiplies.role}) == 3
    warps = warps_of_roles((outside, copies, multiplies), TEXT_OF_ROLES)
    assert [warps[each.role] for each in (outside, copies, multiplies)] == [8, 2, 4]
    assert warps_of_roles((outside, copies, multiplies), "") == {}


def test_what_one_warp_does_and_what_rare_values_need_stands_apart() -> None:
    _, loop = find_loops(
        made(
            ("FFMA", None, True),
            ("BRA", 4, True),  # all warps but one
            ("FFMA", None, True),
            ("UTCHMMA", None, True),
            ("BRA", 6, True),
            ("CALL", None, True),  # a slow path
            ("BRA", 0, True),
            ("EXIT", None, False),
        )
    )
    assert [each.address for each in loop.elected] == [2, 3]
    assert [each.address for each in loop.instructions] == [0, 1, 4, 6]
