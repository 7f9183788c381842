"""What a thread holds of a tile that has one element for each row or column of a dot."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from ...dialect import DotOp, axes_of
from ..dot_orientation import prefers_turned
from .algebra import ONE, Expr, least, most, number, product, symbol
from .flow import Flow
from .spaces import width
from .traffic import on_tensor_cores


def along_dots(flow: Flow, value: SSAValue, spread: Expr) -> Expr:
    """Bytes per thread of a tile, `spread` where nothing is known of it. One for each row or column of a dot alone
    follows the dot's results: NVIDIA's tensor cores give a thread two of 16 rows, and two of 8 columns."""
    axes = frozenset(axes_of(value)) if isinstance(value.type, TensorType) else frozenset()
    for op in (op for op in flow.items if isinstance(op, DotOp)):
        left, right, result = (frozenset(axes_of(each)) for each in (op.left, op.right, op.result))
        rows, columns = (right - left, left - right) if prefers_turned(op) else (left - right, right - left)
        if axes <= result and bool(axes & rows) != bool(axes & columns):
            count = product(flow.sizes[axis] for axis in axes & (rows | columns))
            few = most((ONE, count / (8 * symbol("plan.warps") if axes & rows else number(4))))
            inside = on_tensor_cores(flow, op) * (1 - symbol("device.is_amd"))
            return (1 - inside) * spread + inside * least((spread, number(max(width(value.type), 2)) * few))
    return spread
