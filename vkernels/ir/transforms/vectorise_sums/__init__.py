"""Add several positions and several lanes at once to sums of elements that are gathered from the scratchpad.

A loop over single positions loads an index and a weight, and adds the elements that the index names. Each of these
instructions serves one element of a thread. Here a thread holds `vector` neighbouring lanes, which one access of the
scratchpad loads, and which share the index and the weight; and it loads indices and weights of `block` positions at
once. Tiles put the lanes first, so that the threads of a warp read whole rows of the scratchpad, which meet no bank
twice, and the block last, so that each thread holds all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...dialect import LaunchOp, MappedOp
from ...facts import Facts
from .find import gather_sum
from .rewrite import vectorise


@dataclass(frozen=True)
class VectoriseSums(ModulePass):
    """Rewrite loops that add up what they gather from the scratchpad; `threads` are those of a program.

    Relies on barriers being there: reads keep their order to writes, which these loops do not make.
    """

    name = "vectorise-sums"
    result = "mapped IR in which sums of gathered elements take several positions and lanes at once"

    threads: int = 128

    def apply(self, context: Context, module: ModuleOp) -> None:
        for mapped in module.ops:
            if isinstance(mapped, MappedOp) and mapped.lanes is not None:
                facts = Facts.from_attribute(mapped.facts)
                launches = [op for op in mapped.body.block.ops if isinstance(op, LaunchOp)]
                for loop in [op for launch in launches for op in launch.body.walk() if isinstance(op, scf.ForOp)]:
                    found = gather_sum(loop, mapped.lanes.data, self.threads, facts)
                    if found is not None:
                        vectorise(found)


__all__ = ["VectoriseSums"]
