"""What each of AMD's instructions does, by its name: v_mfma_f32_32x32x8_f16, global_load_dwordx4, s_waitcnt."""

from __future__ import annotations

import re
from dataclasses import replace

from .instructions import Instruction, Kind, TensorShape

_TENSOR = re.compile(
    r"v_(?P<sparse>smfmac|swmmac)?(?:mfma|wmma)?(?:_scale)?_(?P<result>[a-z]+\d+)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
    r"_?(?:(?P<blocks>\d+)b_)?(?P<rest>\w+)"
)
_IS_TENSOR = ("v_mfma", "v_wmma", "v_smfmac", "v_swmmac")
_DTYPES = (
    ("f8f6f4", "float8"), ("fp8", "float8"), ("bf8", "float8"), ("xf32", "tf32"), ("bf16", "bfloat16"),
    ("f16", "float16"), ("f32", "float32"), ("f64", "float64"), ("i8", "int8"), ("iu8", "int8"), ("iu4", "int8"),
)  # fmt: skip

_MEMORY = re.compile(r"(?:global|buffer|flat)_(load|store|atomic)")
_SHARED = re.compile(r"ds_(read|load|write|store|add|max|min|cmpst|swizzle|bpermute|permute)\w*")
_SPECIAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos|s_exp|s_log|rcp_iflag)_|v_s_")
_FLOAT = re.compile(
    r"v_(?:pk_|dual_)?(fma|fmac|mad|mac|add|sub|subrev|mul|fmaak|fmamk|fma_mix|fma_mixlo|fma_mixhi|div_fmas|div_fixup|div_scale"
    r"|ldexp|dot2c?)_(?:legacy_)?f(?P<bits>16|32|64)|v_fma_mix|v_dot"
)
_MULTIPLY = re.compile(r"v_(mul_lo|mul_hi|mad_u64|mad_i64|mul_u64)")


def classify(instruction: Instruction, comment: str = "") -> Instruction:
    """The instruction with its kind, and what follows from its name. `comment`: behind it in the text."""
    name = instruction.opcode
    if name.startswith(_IS_TENSOR):
        return replace(instruction, kind=Kind.TENSOR, tensor=_shape(name, instruction.operands))
    kind, size, weight = _kind(name, instruction.operands, comment)
    return replace(instruction, kind=kind, bytes=size, weight=weight)


def _shape(name: str, operands: str) -> TensorShape | None:
    found = _TENSOR.match(name)
    if found is None:
        return None
    rest = found["rest"]
    dtype = next((dtype for key, dtype in _DTYPES if key in rest), "float32")
    if "f8f6f4" in rest and "cbsz:4" in operands and "blgp:4" in operands:  # both operands are fp4
        dtype = "mxfp4"
    return TensorShape(int(found["m"]) * int(found["blocks"] or 1), int(found["n"]), int(found["k"]), dtype)


def _kind(name: str, operands: str, comment: str) -> tuple[Kind, int, float]:
    if name.startswith("scratch_") or ("Folded" in comment and name.startswith("buffer_")):
        return (Kind.SPILL_LOAD if "_load" in name else Kind.SPILL_STORE), _bytes(name), 1.0
    if access := _MEMORY.match(name):
        if access[1] == "atomic":
            return Kind.ATOMIC, _bytes(name), 1.0
        to_shared = "lds" in name.split("_") or operands.endswith(" lds")
        kind = Kind.COPY if to_shared else Kind.GLOBAL_LOAD if access[1] == "load" else Kind.GLOBAL_STORE
        return kind, _bytes(name), 1.0
    if shared := _SHARED.match(name):
        if "permute" in shared[1] or shared[1] == "swizzle":
            return Kind.SHUFFLE, 4, 1.0
        if shared[1] in ("read", "load"):
            return Kind.SHARED_LOAD, _bytes(name), 1.0
        return (Kind.SHARED_STORE if shared[1] in ("write", "store") else Kind.ATOMIC), _bytes(name), 1.0
    if name in ("s_barrier", "s_barrier_wait", "s_barrier_signal"):
        return Kind.BARRIER, 0, 1.0
    if name.startswith(("s_wait", "s_nop", "s_delay", "s_sleep", "s_sched", "s_setprio", "s_endpgm", "s_clause")):
        return (Kind.BRANCH if name == "s_endpgm" else Kind.WAIT), 0, 1.0
    if name.startswith(("s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_getpc")):
        return Kind.BRANCH, 0, 1.0
    if name.startswith(("s_load", "s_buffer_load")):
        return Kind.CONSTANT_LOAD, 0, 1.0
    return _arithmetic(name), 0, 1.0


def _arithmetic(name: str) -> Kind:
    if name.startswith("s_"):
        return Kind.UNIFORM
    if _SPECIAL.match(name):
        return Kind.DOUBLE if name.endswith("f64") or "_f64_" in name else Kind.SPECIAL
    if found := _FLOAT.match(name):
        bits = found["bits"]
        return {"64": Kind.DOUBLE, "16": Kind.HALF}.get(bits or "", Kind.FLOAT)
    if _MULTIPLY.match(name):
        return Kind.INTEGER_MULTIPLY
    if "f64" in name:
        return Kind.DOUBLE
    if name.startswith(("v_mov", "v_accvgpr", "v_readlane", "v_readfirstlane", "v_writelane")):
        return Kind.MOVE
    return Kind.INTEGER if name.startswith("v_") else Kind.OTHER


def _bytes(name: str) -> int:
    """Bytes a thread that an access moves, by its name: buffer_store_dwordx2, ds_read2st64_b64, global_load_u8."""
    if words := re.search(r"dword(?:x(\d+))?", name):
        return 4 * int(words[1] or 1)
    bits = re.search(r"_[biuf](\d+)(?:_|$)", name)
    one = int(bits[1]) // 8 if bits else {"ubyte": 1, "sbyte": 1, "ushort": 2, "short": 2, "byte": 1}.get(
        name.split("_")[2] if name.count("_") > 1 else "", 4
    )  # fmt: skip
    return one * (2 if re.search(r"(read|write|load|store)(_)?2", name) else 1)
