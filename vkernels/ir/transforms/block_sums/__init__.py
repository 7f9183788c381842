"""Long sums are added up in blocks: a float that a loop only adds to would lose a bit each time its length doubles.

A loop of additions one after another has an error that grows with its length n: n * u * sum(|x|), u being the unit
roundoff. In blocks of b the error is that of b additions and of n / b more. Blocks of blocks are added with
compensation (Kahan, Further remarks on reducing truncation errors, 1965), whose error does not grow with n
(Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...dialect import MappedOp
from ...facts import Facts
from .blocks import add_in_blocks
from .lengths import Lengths
from .paths import PathReader
from .spill_totals import spill_totals


@dataclass(frozen=True)
class BlockSums(ModulePass):
    """Cut every loop of a mapped kernel that may make more float additions than a block has into loops over blocks.

    A loop that facts show to be short stays as it is. `gpu`: sums that matrix units make stay too.
    """

    name = "block-sums"
    result = "mapped IR in which long sums are added up in blocks"

    gpu: bool = False

    def apply(self, context: Context, module: ModuleOp) -> None:
        block_sums(module, self.gpu)


def block_sums(module: ModuleOp, on_gpu: bool = False) -> None:
    """Run the pass on every mapped kernel of a module."""
    for mapped in module.ops:
        if isinstance(mapped, MappedOp):
            lanes = None if mapped.lanes is None else mapped.lanes.data
            reader = PathReader(Facts.from_attribute(mapped.facts), lanes, on_gpu)
            loops = [op for op in mapped.walk() if isinstance(op, scf.ForOp)]
            from_inside_out = reversed(loops)
            bodies = [body for loop in from_inside_out for body in add_in_blocks(loop, reader, Lengths.on(on_gpu))]
            for body in () if on_gpu else bodies:
                spill_totals(body)


__all__ = ["BlockSums", "block_sums"]
