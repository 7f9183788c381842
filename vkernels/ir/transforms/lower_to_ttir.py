"""`lower-to-ttir` as a pass, for `vk-opt`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..dialect import MappedOp


@dataclass(frozen=True)
class LowerToTtir(ModulePass):
    """Replace every `vk.mapped` by one `tt.func` for each launch. `resident_programs`: above 0, each is persistent;
    `stages`: above 1, its loops of dots go on from program to program where they can."""

    name = "lower-to-ttir"

    resident_programs: int = 0
    stages: int = 1

    def apply(self, context: Context, module: ModuleOp) -> None:
        from ..lowering.ttir import lower_to_ttir

        block = module.body.block
        for mapped in [op for op in block.ops if isinstance(op, MappedOp)]:
            lowered = lower_to_ttir(mapped, self.resident_programs, self.stages)
            block.erase_op(mapped)
            for function in [function for launch in lowered.launches for function in launch.module.ops]:
                function.detach()
                block.add_op(function)
