"""The operations of Triton's `tt` dialect that `lower_to_ttir` emits, declared to be built and interpreted, and some
more that are interpreted only.

Their names and properties are the same in Triton 3.6 and later. Tiles are tensors without an encoding, of sizes that
are powers of two; one program's threads process all elements, in a layout that Triton chooses. Modules of these
operations with arith, math and scf, printed in MLIR's generic form, are what `triton.compile` reads.
"""

from __future__ import annotations

from xdsl.ir import Dialect, Operation

from .compute import (
    BroadcastOp,
    DotOp,
    DotScaledOp,
    ExpandDimsOp,
    FpToFpOp,
    JoinOp,
    MakeRangeOp,
    PreciseDivOp,
    PreciseSqrtOp,
    ReduceOp,
    ReduceReturnOp,
    ReshapeOp,
    ScanOp,
    ScanReturnOp,
    SplatOp,
    TransOp,
    UnsplatOp,
)
from .descriptors import DescriptorLoadOp, DescriptorStoreOp, MakeTensorDescriptorOp, TensorDescriptorType
from .memory import AddPtrOp, Atomic, AtomicCasOp, AtomicOp, BitcastOp, LoadOp, PtrToIntOp, ScratchpadOp, StoreOp
from .plain import CatOp, ExternOp, GatherOp, HistogramOp, SplitOp
from .programs import AssumeOp, BarrierOp, FuncOp, NumProgramsOp, ProgramIdOp, ReturnOp
from .types import MOST_ELEMENTS, PointerType, element, shape, tensor, verify_tensor

__all__ = [
    "GPU", "LLVM", "MOST_ELEMENTS", "TT", "AddPtrOp", "AssumeOp", "Atomic", "AtomicCasOp", "AtomicOp", "BarrierOp",
    "BitcastOp", "BroadcastOp", "CatOp", "DescriptorLoadOp", "DescriptorStoreOp", "DotOp", "DotScaledOp",
    "ExpandDimsOp", "ExternOp", "FpToFpOp", "FuncOp", "GatherOp", "HistogramOp", "JoinOp", "LoadOp", "MakeRangeOp",
    "MakeTensorDescriptorOp", "NumProgramsOp", "PointerType", "PreciseDivOp", "PreciseSqrtOp", "ProgramIdOp",
    "PtrToIntOp", "ReduceOp", "ReduceReturnOp", "ReshapeOp", "ReturnOp", "ScanOp", "ScanReturnOp", "ScratchpadOp",
    "SplatOp", "SplitOp", "StoreOp", "TensorDescriptorType", "TransOp", "UnsplatOp", "element", "shape", "tensor",
    "verify_tensor",
]  # fmt: skip

_OPERATIONS: list[type[Operation]] = [
    FuncOp, ReturnOp, ProgramIdOp, NumProgramsOp, MakeRangeOp, SplatOp, ExpandDimsOp, BroadcastOp, TransOp, ReshapeOp,
    JoinOp, AddPtrOp, BitcastOp, PtrToIntOp, LoadOp, StoreOp, AtomicOp, AtomicCasOp, DotOp, DotScaledOp, ReduceOp,
    ReduceReturnOp, ScanOp, ScanReturnOp, FpToFpOp, PreciseSqrtOp, PreciseDivOp, ScratchpadOp, MakeTensorDescriptorOp,
    DescriptorLoadOp, DescriptorStoreOp, UnsplatOp, SplitOp, CatOp, GatherOp, HistogramOp, ExternOp,
]  # fmt: skip
TT = Dialect("tt", _OPERATIONS, [PointerType, TensorDescriptorType])
GPU = Dialect("gpu", [BarrierOp], [])
LLVM = Dialect("llvm", [AssumeOp], [])
