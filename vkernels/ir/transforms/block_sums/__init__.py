"""Add long sums in blocks, because a running sum loses one bit of accuracy each time its length doubles.

The error of n additions one after another is up to n * u * sum(|x|), where u is the unit roundoff. In blocks of b it is
that of b additions and of n / b more. Sums of several blocks are added with compensation (Kahan, Further remarks on
reducing truncation errors, 1965), whose error does not grow with n (Higham, Accuracy and Stability of Numerical
Algorithms, 2002, section 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...analysis.block_lengths import BlockLengths
from ...dialect import MappedOp
from ...facts import Facts
from .blocks import add_in_blocks, spill_totals
from .paths import PathReader

THREADS = 128
"""Threads of a GPU's program, where nothing is said of them."""


@dataclass(frozen=True)
class BlockSums(ModulePass):
    """Cut every loop of a mapped kernel that may make more float additions than one block into loops over blocks.

    Loops that are short by the facts remain as they are. `gpu`: so do sums of matrix units. `threads`: of a GPU's
    program.
    """

    name = "block-sums"
    result = "mapped IR in which long sums are added up in blocks"

    gpu: bool = False
    threads: int = THREADS

    def apply(self, context: Context, module: ModuleOp) -> None:
        block_sums(module, self.gpu, self.threads)


def block_sums(module: ModuleOp, on_gpu: bool = False, threads: int = THREADS) -> None:
    """Run the pass on every mapped kernel of a module."""
    for mapped in module.ops:
        if isinstance(mapped, MappedOp):
            lanes = None if mapped.lanes is None else mapped.lanes.data
            reader = PathReader(Facts.from_attribute(mapped.facts), lanes, on_gpu)
            loops = [op for op in mapped.walk() if isinstance(op, scf.ForOp)]
            inside_out = reversed(loops)
            lengths = BlockLengths.on(on_gpu)
            bodies = [body for loop in inside_out for body in add_in_blocks(loop, reader, lengths, threads)]
            for body in () if on_gpu else bodies:
                spill_totals(body)


__all__ = ["BlockSums", "block_sums"]
