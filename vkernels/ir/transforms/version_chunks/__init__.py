"""Run most chunks in a version whose loads and stores are of neighbours: `version-chunks`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...dialect import MappedOp
from .versions import version_block


@dataclass(frozen=True)
class VersionChunks(ModulePass):
    """Where index tiles are piecewise linear along the lanes, run chunks that lie within one piece in a version that
    loads and stores at affine indices, and others in one that has an access for each piece.

    `x[i, (j + 3) % n]` is two contiguous pieces of a row: a chunk of `j` that does not wrap around is one vector load
    a register. Indices for which this is not known, as of chunks that wrap around twice, are gathered as before. For
    lowerings where neighbours' addresses matter; where threads gather, it would only lengthen the code.
    """

    name = "version-chunks"
    result = "mapped IR in which chunks whose indices are contiguous have versions without gathers"

    def apply(self, context: Context, module: ModuleOp) -> None:
        version_chunks(module)


def version_chunks(module: ModuleOp) -> None:
    """Run the pass on every mapped kernel of a module."""
    for mapped in module.ops:
        if isinstance(mapped, MappedOp) and mapped.lanes is not None:
            blocks = [block for op in mapped.walk() for region in op.regions for block in region.blocks]
            for block in reversed(blocks):  # inner ones first
                version_block(block, mapped.lanes.data, mapped)


__all__ = ["VersionChunks", "version_chunks"]
