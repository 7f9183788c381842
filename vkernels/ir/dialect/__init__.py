"""The vk dialect: kernels of tiles with named axes. See `docs/dialect.md` and `docs/mapped-ir.md`."""

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.math import Math
from xdsl.dialects.scf import Scf
from xdsl.ir import Dialect

from .access import AccessOp, GatherOp, LoadOp, ReadOp, ScatterOp, StoreOp, WriteOp
from .access_parts import Index
from .arith import ARITH
from .attributes import AxesAttr, IndexAttr, axes_of, element_of, sizes_of, tile_type
from .boxes import axes_of_box
from .compute import (
    REDUCTIONS,
    AssertOp,
    BelowOp,
    BroadcastOp,
    DotOp,
    MaxOp,
    MaxUIOp,
    MinOp,
    MinUIOp,
    PositionOp,
    PrintOp,
    ProductOp,
    ReductionOp,
    ReloadOp,
    ScaleOp,
    ScanOp,
    SpillOp,
    SumOp,
)
from .fetches import FetchOp
from .first import FirstOp
from .interleave import InterleaveOp
from .kernels import KernelOp, MappedOp, SizeOp, TileOp, WholeOp
from .prefetch import PrefetchOp
from .scaled import DecodeOp, RepeatOp, ScaledDotOp
from .scans import SCANS, CombinedOp, LastOp, ScanByOp
from .structure import (
    BarrierOp,
    BoundaryOp,
    BufferOp,
    LaunchOp,
    PhaseOp,
    RangeOp,
    ScratchOp,
    YieldOp,
)
from .types import BufferType, MemoryType, ScratchType, SpilledType, TensorArgumentType
from .words import WordDotOp, WordsOp

__all__ = [
    "REDUCTIONS", "SCANS", "VK", "AccessOp", "AssertOp", "AxesAttr", "BarrierOp", "BelowOp", "BoundaryOp",
    "BroadcastOp", "BufferOp", "BufferType", "CombinedOp", "DecodeOp", "DotOp", "FetchOp", "FirstOp", "GatherOp",
    "Index", "IndexAttr", "InterleaveOp", "KernelOp", "LastOp", "LaunchOp", "LoadOp", "MappedOp", "MaxOp", "MaxUIOp",
    "MemoryType", "MinOp", "MinUIOp", "PhaseOp", "PositionOp", "PrefetchOp", "PrintOp", "ProductOp", "RangeOp",
    "ReadOp", "ReductionOp", "ReloadOp", "RepeatOp", "ScaleOp", "ScaledDotOp", "ScanByOp", "ScanOp", "ScatterOp",
    "ScratchOp", "ScratchType", "SizeOp", "SpillOp", "SpilledType", "StoreOp", "SumOp", "TensorArgumentType",
    "TileOp", "WholeOp", "WordDotOp", "WordsOp", "WriteOp", "YieldOp", "axes_of", "axes_of_box", "context",
    "element_of", "sizes_of", "tile_type",
]  # fmt: skip

VK = Dialect(
    "vk",
    [
        KernelOp, MappedOp, LaunchOp, SizeOp, TileOp, WholeOp, RangeOp, YieldOp, BoundaryOp, PhaseOp,
        ScratchOp, BufferOp, BarrierOp, FirstOp, SpillOp, ReloadOp,
        LoadOp, GatherOp, PrefetchOp, StoreOp, ScatterOp, FetchOp,
        BroadcastOp, PositionOp, BelowOp, SumOp, ProductOp, MaxOp, MinOp, MaxUIOp, MinUIOp, ScanOp, DotOp, ScaleOp,
        ScanByOp, CombinedOp, LastOp,
        WordsOp, WordDotOp, DecodeOp, RepeatOp, InterleaveOp,
        ScaledDotOp, PrintOp, AssertOp,
    ],
    [AxesAttr, IndexAttr, TensorArgumentType, ScratchType, BufferType, SpilledType],
)  # fmt: skip


def context() -> Context:
    """A context that knows the vk dialect and the upstream dialects it is used with."""
    result = Context()
    for dialect in (Builtin, ARITH, Math, Scf, VK):
        result.load_dialect(dialect)
    return result
