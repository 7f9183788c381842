"""What each SASS instruction does, by its opcode: LDG.E.128, HMMA.16816.F32, HGMMA.64x256x16.F32."""

from __future__ import annotations

import re
from dataclasses import replace

from .instructions import Instruction, Kind, TensorShape

_KINDS: dict[Kind, tuple[str, ...]] = {
    Kind.FLOAT: ("FFMA", "FADD", "FMUL", "FFMA2", "FADD2", "FMUL2", "FFMA32I", "FADD32I", "FMUL32I", "FSWZADD"),
    Kind.HALF: ("HFMA2", "HADD2", "HMUL2", "HFMA2_MMA", "HADD2_32I", "HMUL2_32I"),
    Kind.DOUBLE: ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX"),
    Kind.INTEGER: (
        "IADD3", "IADD", "VIADD", "LOP3", "LOP", "SHF", "SHL", "SHR", "LEA", "ISETP", "FSETP", "FMNMX", "FMNMX3",
        "IMNMX", "VIMNMX", "VIMNMX3", "VIADDMNMX", "SEL", "FSEL", "PRMT", "SGXT", "BMSK", "PLOP3", "P2R", "R2P", "IABS",
        "I2FP", "F2FP", "F2IP", "I2IP", "HMNMX2", "HSETP2", "HSET2", "FSET", "FCHK", "BREV", "VABSDIFF", "VABSDIFF4",
        "VHMNMX", "ISCADD", "CSET", "CSETP", "IDE",
    ),
    Kind.INTEGER_MULTIPLY: ("IMAD", "IMUL", "IDP", "IDP4A", "XMAD", "IMAD32I"),
    Kind.SPECIAL: ("MUFU", "POPC", "FLO", "I2F", "F2I", "F2F", "FRND", "I2I", "REDUX", "CREDUX", "MATCH"),
    Kind.MOVE: ("MOV", "CS2R", "S2R", "S2UR", "R2UR", "MOVM", "MOV32I", "CS2UR"),
    Kind.SHUFFLE: ("SHFL",),
    Kind.GLOBAL_LOAD: ("LDG", "LD"),
    Kind.GLOBAL_STORE: ("STG", "ST"),
    Kind.COPY: ("LDGSTS",),
    Kind.BULK_COPY: ("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED", "UTMACMDFLUSH", "UTMAPF", "UBLKPF"),
    Kind.SHARED_LOAD: ("LDS", "LDSM"),
    Kind.SHARED_STORE: ("STS", "STSM"),
    Kind.SPILL_LOAD: ("LDL",),
    Kind.SPILL_STORE: ("STL",),
    Kind.TENSOR_MEMORY: ("LDTM", "STTM", "UTCCP", "UTCSHIFT", "LDT", "STT"),
    Kind.CONSTANT_LOAD: ("LDC", "LDCU", "ULDC"),
    Kind.ATOMIC: ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS", "REDAS"),
    Kind.BARRIER: ("BAR", "B2R", "UCGABAR_ARV", "UCGABAR_WAIT", "BARRIER"),
    Kind.WAIT: (
        "DEPBAR", "LDGDEPBAR", "WARPGROUP", "WARPGROUPSET", "SYNCS", "MEMBAR", "FENCE", "ERRBAR", "UTCBAR", "ARRIVES",
        "UTMACCTL", "CCTL", "CCTLL", "ACQBULK", "LDGMC", "NANOSLEEP", "YIELD", "WARPSYNC", "DEPBAR_LE", "PREEXIT",
        "USETMAXREG", "UTCATOMSWS", "UTMAPREF", "UVIRTCOUNT", "ACQSHMINIT",
    ),
    Kind.BRANCH: ("BRA", "BRX", "BRXU", "JMP", "EXIT", "CALL", "RET", "BSSY", "BSYNC", "BREAK", "BPT", "KILL", "BMOV"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}

_SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "96": 12, "128": 16, "256": 32}
_MATRICES = {"4": 16, "2": 8}
_MEMORY = frozenset({
    Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.COPY, Kind.SHARED_LOAD, Kind.SHARED_STORE, Kind.SPILL_LOAD,
    Kind.SPILL_STORE, Kind.ATOMIC,
})  # fmt: skip


def classify(instruction: Instruction) -> Instruction:
    """The instruction with its kind, and what follows from its opcode."""
    name, *modifiers = instruction.opcode.split(".")
    if name.endswith("MMA") and name != "HFMA2_MMA":
        return _tensor(instruction, name, modifiers)
    kind = _KIND_OF.get(name)
    if kind is None:
        kind = Kind.UNIFORM if name.startswith("U") or name in ("VOTEU", "ELECT") else Kind.OTHER
    size = 0
    if kind in _MEMORY:
        sizes = (_SIZES.get(modifier, 0) for modifier in modifiers)
        size = next((_MATRICES.get(m, 4) for m in reversed(modifiers) if m in ("2", "4")), 0) or max(sizes, default=0)
        size = size or 4
    return replace(
        instruction, kind=kind, bytes=size, weight=2.0 if name in ("FFMA2", "FADD2", "FMUL2") else 1.0,
        once=kind is Kind.BULK_COPY or name in ("UTCCP", "UTCBAR"),
    )  # fmt: skip


_WARP_SHAPES = {
    "884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32),
    "16864": (16, 8, 64), "8816": (8, 8, 16), "8832": (8, 8, 32), "168128": (16, 8, 128), "168256": (16, 8, 256),
}  # fmt: skip
_GROUP_SHAPE = re.compile(r"(\d{2,3})x(\d{1,3})x(\d{1,3})")


def _tensor(instruction: Instruction, name: str, modifiers: list[str]) -> Instruction:
    once = name.startswith("UTC")
    shape = None
    for modifier in modifiers:
        if (group := _GROUP_SHAPE.fullmatch(modifier)) is not None:
            shape = TensorShape(int(group[1]), int(group[2]), int(group[3]), _dtype(name, modifiers), warps=4)
        elif modifier in _WARP_SHAPES and not once:
            shape = TensorShape(*_WARP_SHAPES[modifier], _dtype(name, modifiers), legacy=True)
    return replace(instruction, kind=Kind.TENSOR, tensor=shape, once=once)


def _dtype(name: str, modifiers: list[str]) -> str:
    if "TF32" in modifiers:
        return "tf32"
    if name.startswith(("IMMA", "IGMMA", "UTCIMMA")):
        return "int8"
    if name.startswith(("OMMA", "UTCOMMA")):  # of nvfp4 too, at the same rate
        return "mxfp4"
    if name.startswith(("QMMA", "QGMMA", "UTCQMMA")):
        return "float8"
    if name.startswith("DMMA"):
        return "float64"
    return "bfloat16" if "BF16" in modifiers else "float16"


def wide_tensor(opcode: str, descriptor: int) -> TensorShape:
    """The shape of a fifth-generation matrix instruction by its descriptor (PTX ISA, "Instruction descriptor"): N / 8
    in bits 17 to 22, M / 16 in bits 24 to 28, the format of A in bits 7 to 9, where 2 is tf32 among floats."""
    name, *modifiers = opcode.split(".")
    dtype = _dtype(name, modifiers)
    bytes_ = 2.0
    if name.startswith("UTCHMMA"):
        dtype = {0: "float16", 1: "bfloat16", 2: "tf32"}.get(descriptor >> 7 & 7, dtype)
        bytes_ = 4 if dtype == "tf32" else 2
    elif dtype in ("float8", "int8", "mxfp4"):
        bytes_ = 0.5 if dtype == "mxfp4" else 1
    m = (descriptor >> 24 & 31) * 16
    return TensorShape(m, (descriptor >> 17 & 63) * 8, int(32 / bytes_), dtype, warps=0)
