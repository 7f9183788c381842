"""AMD's assembly is read with its waits."""

from __future__ import annotations

import pytest

from vkernels.compiler.binaries.classify_amdgcn import classify
from vkernels.compiler.binaries.find_loops import find_loops
from vkernels.compiler.binaries.instructions import Instruction, Kind
from vkernels.compiler.binaries.loop_use import use_of
from vkernels.compiler.binaries.read_amdgcn import read_amdgcn

TEXT = """
kernel:                                 ; @kernel
	.loc	1 3 5                           ; kernel.ttir:3:5
	s_load_dwordx2 s[0:1], s[4:5], 0x0
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	.loc	1 7 5 is_stmt 1                 ; kernel.ttir:7:5
	global_load_dwordx4 v[2:5], v[0:1], off
	scratch_load_dwordx2 v[8:9], off, off   ; 8-byte Folded Reload
	s_waitcnt vmcnt(0)
	ds_write2st64_b64 v6, v[2:3], v[4:5] offset1:4
	v_mfma_f32_32x32x8_f16 v[16:31], v[2:3], v[4:5], v[16:31]
	.loc	1 0 5                           ; kernel.ttir:0:5
	v_exp_f32_e32 v7, v7
	s_cbranch_scc1 .LBB0_1
; %bb.2:
	s_endpgm
.Lfunc_end0:
"""


def test_a_loop_is_found_with_what_its_trip_does() -> None:
    outside, loop = (use_of(region, "gfx942", 4) for region in find_loops(read_amdgcn(TEXT, "kernel")))
    assert (outside.instructions, loop.instructions, loop.is_innermost) == (2, 7, True)
    assert loop.bytes == {"global load": 16, "spill load": 8, "shared store": 16}
    assert (loop.spills, loop.wide_accesses, loop.waits) == (1, 1, 1)
    assert loop.lines == {7: 7}, "line 0 is no line"
    (tensor,) = loop.tensor
    assert (str(tensor.shape), tensor.shape.dtype, tensor.multiply_adds(4)) == ("32x32x8", "float16", 4 * 8192)
    assert loop.latency >= 300 > loop.stalls == 4 * 7, "a wave waits for its load"


FOR_EACH_RESOURCE = """
kernel:                                 ; @kernel
	s_mov_b64 s[2:3], exec
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	.loc	1 7 5 is_stmt 1                 ; kernel.ttir:7:5
	v_readfirstlane_b32 s4, v64
	v_readfirstlane_b32 s5, v65
	v_readfirstlane_b32 s6, v66
	v_readfirstlane_b32 s7, v67
	v_cmp_eq_u64_e32 vcc, s[4:5], v[64:65]
	v_cmp_eq_u64_e64 s[0:1], s[6:7], v[66:67]
	s_and_b64 s[0:1], vcc, s[0:1]
	s_and_saveexec_b64 s[0:1], s[0:1]
	buffer_load_ushort v86, v68, s[4:7], 0 offen
	s_xor_b64 exec, exec, s[0:1]
	s_cbranch_execnz .LBB0_1
; %bb.2:
	s_mov_b64 exec, s[2:3]
	s_endpgm
.Lfunc_end0:
"""


def test_a_loop_over_the_buffers_that_lanes_access_is_no_loop() -> None:
    """All lanes access one tensor, so it runs once: the load belongs to the code around it."""
    (outside,) = (use_of(region, "gfx950", 4) for region in find_loops(read_amdgcn(FOR_EACH_RESOURCE, "kernel")))
    assert (outside.instructions, outside.bytes) == (14, {"global load": 2})


@pytest.mark.parametrize(
    ("opcode", "kind", "size"),
    [
        ("v_fma_f32", Kind.FLOAT, 0), ("v_pk_fma_f32", Kind.FLOAT, 0), ("v_pk_mul_f16", Kind.HALF, 0),
        ("v_fma_f64", Kind.DOUBLE, 0), ("v_mul_lo_u32", Kind.INTEGER_MULTIPLY, 0), ("v_add_u32_e32", Kind.INTEGER, 0),
        ("v_cvt_f16_f32_e32", Kind.INTEGER, 0), ("v_rcp_f32_e32", Kind.SPECIAL, 0), ("s_add_u32", Kind.UNIFORM, 0),
        ("buffer_load_ushort", Kind.GLOBAL_LOAD, 2), ("global_store_b16", Kind.GLOBAL_STORE, 2),
        ("buffer_store_dwordx2", Kind.GLOBAL_STORE, 8), ("ds_load_b128", Kind.SHARED_LOAD, 16),
        ("ds_read2_b32", Kind.SHARED_LOAD, 8), ("ds_bpermute_b32", Kind.SHUFFLE, 4), ("s_barrier", Kind.BARRIER, 0),
        ("global_atomic_add_f32", Kind.ATOMIC, 4), ("s_wait_loadcnt", Kind.WAIT, 0),
        ("s_buffer_load_b64", Kind.CONSTANT_LOAD, 0),
    ],
)  # fmt: skip
def test_names_tell_kind_and_bytes(opcode: str, kind: Kind, size: int) -> None:
    found = classify(Instruction(0, opcode, "", Kind.OTHER))
    assert (found.kind, found.bytes) == (kind, size)


@pytest.mark.parametrize(
    ("opcode", "shape", "dtype"),
    [
        ("v_mfma_f32_16x16x16_bf16", "16x16x16", "bfloat16"), ("v_mfma_f32_32x32x8f16", "32x32x8", "float16"),
        ("v_mfma_f32_32x32x8bf16_1k", "32x32x8", "bfloat16"), ("v_mfma_f32_16x16x32_fp8_fp8", "16x16x32", "float8"),
        ("v_mfma_i32_32x32x16_i8", "32x32x16", "int8"), ("v_wmma_f32_16x16x16_f16", "16x16x16", "float16"),
        ("v_mfma_f32_16x16x8_xf32", "16x16x8", "tf32"), ("v_mfma_f32_32x32x2f32", "32x32x2", "float32"),
        ("v_mfma_f64_16x16x4_f64", "16x16x4", "float64"), ("v_mfma_f32_4x4x4_16b_f16", "64x4x4", "float16"),
    ],
)  # fmt: skip
def test_matrix_instructions_have_shape_and_dtype(opcode: str, shape: str, dtype: str) -> None:
    found = classify(Instruction(0, opcode, "", Kind.OTHER)).tensor
    assert found is not None
    assert (str(found), found.dtype) == (shape, dtype)


@pytest.mark.parametrize(("formats", "dtype"), [("", "float8"), (" cbsz:1", "float8"), (" cbsz:4 blgp:4", "mxfp4")])
def test_operands_say_whether_scaled_matrices_are_fp4(formats: str, dtype: str) -> None:
    operands = f"v[0:15], v[20:27], v[30:37], v[0:15], v40, v41 op_sel_hi:[0,0,0]{formats}"
    found = classify(Instruction(0, "v_mfma_scale_f32_32x32x64_f8f6f4", operands, Kind.OTHER)).tensor
    assert found is not None
    assert (str(found), found.dtype) == ("32x32x64", dtype)
