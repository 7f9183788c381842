"""Which tensors a descriptor can move: their tiles are boxes, moved by a GPU's copy unit beside the program's threads.

The limits are those of NVIDIA's tensor maps (CUDA Driver API, `cuTensorMapEncodeTiled`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.scf import WhileOp
from xdsl.ir import Attribute

from ..dialect import AccessOp, DotOp, KernelOp, LoadOp, RangeOp, StoreOp, TensorArgumentType, arith, axes_of_box
from ..facts import UNKNOWN, Facts
from .accesses import ancestors

MOST_DIMENSIONS = 5
MOST_POSITIONS = 256
"""Positions of a box along one dimension."""
LEAST_BYTES = 16
"""Bytes of a box along the dimension in which elements are side by side."""
ELEMENT_BYTES: Mapping[str, int] = {
    "f8E4M3FN": 1, "f8E5M2": 1, "i8": 1, "f16": 2, "bf16": 2, "i16": 2, "f32": 4, "i32": 4, "f64": 8,
    "i64": 8,
}  # fmt: skip
"""Elements that the copy unit and Triton 3.6 and 3.9 both take."""


def why_not_described(kernel: KernelOp, name: str) -> str | None:
    """Why no descriptor can move a tensor of a kernel, whatever the call; None if one can."""
    if name not in [parameter.data for parameter in kernel.parameters]:
        return f"there is no parameter {name} of {kernel.sym_name.data}"
    tensor = kernel.parameter(name)
    if not isinstance(tensor.type, TensorArgumentType):
        return f"{name} is no tensor"
    if str(tensor.type.element) not in ELEMENT_BYTES:
        return f"{name} has elements of {tensor.type.element}; a descriptor takes {', '.join(ELEMENT_BYTES)}"
    rank = len(tensor.type.shape)
    if not 0 < rank <= MOST_DIMENSIONS:
        return f"{name} has {rank} dimensions; a descriptor takes 1 to {MOST_DIMENSIONS}"
    users = [use.operation for use in tensor.uses]
    if not any(is_box(user) for user in users):
        return f"no access takes an unmasked box of {name}: one axis a dimension, in steps of 1"
    if any(isinstance(user, StoreOp) for user in users):
        return _why_not_stored(name, users)
    is_read = all(isinstance(user, AccessOp) and user.results for user in users)
    return None if is_read else f"{name} is read and written: nothing orders what threads and descriptors move"


def _why_not_stored(name: str, users: Sequence[object]) -> str | None:
    """Boxes are stored while the program goes on, so two of them must not meet."""
    if len(users) > 1:
        return f"{name} is stored, and accessed elsewhere too: nothing orders what threads and descriptors move"
    (store,) = users
    assert isinstance(store, StoreOp), "stored"
    if any(isinstance(op, RangeOp | WhileOp) for op in ancestors(store)):
        return f"{name} is stored in a loop, whose iterations' boxes may meet"
    return None


def is_box(op: object) -> bool:
    """Whether an operation of a kernel as written is an access that takes an unmasked box of a tensor."""
    if not isinstance(op, LoadOp | StoreOp) or op.mask is not None or op.within.data:
        return False
    is_atomic = isinstance(op, StoreOp) and op.atomic is not None
    is_scalar = all(not isinstance(offset.type, TensorType) for offset in op.offsets)
    return isinstance(op.base.type, TensorArgumentType) and is_scalar and not is_atomic and bool(axes_of_box(op.index))


def feeds_dots(op: object) -> bool:
    """Whether everything that a load gives, or that is extended from it, is an operand of a dot: then tensor cores that
    read operands from shared memory find it there, and no thread handles it."""
    if not isinstance(op, LoadOp):
        return False
    extended = arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp
    users = [use for use in op.result.uses if not isinstance(use.operation, extended)]
    for use in op.result.uses:
        if isinstance(use.operation, extended):
            users += use.operation.results[0].uses
    return bool(users) and all(isinstance(use.operation, DotOp) and use.index < 2 for use in users)


def contiguous_dimension(facts: Facts, name: str) -> int | None:
    """The dimension of a tensor in which elements are side by side, if facts allow descriptors of it; else None.

    Its address and all its other strides are multiples of 16 bytes, and no offset needs 64 bits.
    """
    strides = facts.strides.get(name, ())
    if name not in facts.aligned or name in facts.large or not facts.distinct:
        return None
    ones = [number for number, stride in enumerate(strides) if stride == 1]
    others = [stride for stride in strides if stride != 1]
    return ones[0] if len(ones) == 1 and all(stride == UNKNOWN for stride in others) else None


def why_not_of_sizes(sizes: Sequence[int], contiguous: int, element: Attribute) -> str | None:
    """Why no box has so many positions along its dimensions; None if one has."""
    if max(sizes) > MOST_POSITIONS:
        return f"a box has {max(sizes)} positions along a dimension; a descriptor takes {MOST_POSITIONS}"
    row = sizes[contiguous] * ELEMENT_BYTES[str(element)]
    if row < LEAST_BYTES:
        return f"a box has rows of {row} bytes side by side; a descriptor takes {LEAST_BYTES} or more"
    return None
