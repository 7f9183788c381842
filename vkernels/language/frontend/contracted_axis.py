"""Choose the axis that a dot contracts, of several along which products are summed: the others are summed afterwards.

Dots read operands fastest along dimensions that are contiguous, by convention the last one. Axes of windows
(`x[i + r]`), of which there are few positions, come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from vkernels.ir.dialect import AccessOp, IndexAttr


def contracted_axis(factors: Sequence[SSAValue], axes: Sequence[str]) -> str:
    """The axis to contract, the first one where nothing tells them apart."""
    indices = [op.index.data for factor in factors for op in _loads(factor)]

    def order(axis: str) -> tuple[int, int]:
        found = [(index, each) for index in indices for each in index if axis in dict(each.terms)]
        return sum(len(each.terms) > 1 for _, each in found), -sum(_is_last(index, axis) for index, _ in found)

    return min(axes, key=order)


def _loads(value: SSAValue) -> Iterator[AccessOp]:
    """The loads that a factor is computed from, element by element."""
    seen, todo = set[SSAValue](), [value]
    while todo:
        op = (value := todo.pop()).owner
        if value in seen or not isinstance(op, Operation) or op.regions:
            continue
        seen.add(value)
        if isinstance(op, AccessOp):
            yield op
        else:
            todo += op.operands


def _is_last(index: Sequence[IndexAttr], axis: str) -> bool:
    """Whether an axis alone indexes the last dimension."""
    return bool(index) and index[-1].terms == ((axis, 1),)
