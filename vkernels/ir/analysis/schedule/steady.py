"""Values that are the same wherever a kernel computes them: from parameters, positions and what nothing writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Block, Operation, SSAValue

from ...dialect import SCANS, AccessOp, BroadcastOp, RangeOp, TensorArgumentType, arith, axes_of, element_of
from ...facts import Facts
from ..accesses import CONTROL, has_effect, inputs_of
from ..kernel_analysis import KernelAnalysis


@dataclass
class SteadyValues:
    """Answers for one kernel under one plan. `facts`: tell which tensors are distinct."""

    analysis: KernelAnalysis
    facts: Facts
    _steady: dict[SSAValue, bool] = field(default_factory=dict)
    _cheap: dict[SSAValue, bool] = field(default_factory=dict)

    def is_known(self, value: SSAValue) -> bool:
        """Whether a value can be computed before any loop over chunks."""
        return not self.analysis.chunks_of_value(value) and self.is_steady(value)

    def is_cheap(self, value: SSAValue, axis: str) -> bool:
        """Whether a truth value can be computed for each chunk of an axis, from positions, loads and integers alone."""
        return self.analysis.chunks_of_value(value) <= {axis} and self.is_steady(value) and self._is_cheap(value)

    def is_steady(self, value: SSAValue) -> bool:
        value = self.analysis.source(value)
        if value not in self._steady:
            self._steady[value] = self._computes_steady(value)
        return self._steady[value]

    def _computes_steady(self, value: SSAValue) -> bool:
        op = value.owner
        if isinstance(op, Block):
            return op is self.analysis.kernel.body.block
        if isinstance(op, (*CONTROL, RangeOp, *SCANS)) or op.regions or has_effect(op):
            return False
        if self.analysis.is_chunk_reduction(op) or (isinstance(op, AccessOp) and self._is_written(op)):
            return False
        return all(map(self.is_steady, inputs_of(op)))

    def _is_cheap(self, value: SSAValue) -> bool:
        value = self.analysis.source(value)
        if value not in self._cheap:
            op = value.owner
            self._cheap[value] = not isinstance(op, Operation) or (
                _costs_little(op) and all(map(self._is_cheap, inputs_of(op)))
            )
        return self._cheap[value]

    def _is_written(self, op: AccessOp) -> bool:
        """Whether the kernel may write what a load reads; scratchpads always are."""
        if not isinstance(op.base.type, TensorArgumentType):
            return True
        return bool(self.analysis.overwritten(op, self.facts.distinct))


def _costs_little(op: Operation) -> bool:
    """Whether an operation is no arithmetic of floats."""
    is_float = any(isinstance(element_of(result), AnyFloat) and axes_of(result) for result in op.results)
    return not is_float or isinstance(op, AccessOp | BroadcastOp | arith.ConstantOp | arith.ExtFOp)
