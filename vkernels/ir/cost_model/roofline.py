"""The least time that a call can take within limits, whatever its plan.

It is the longest of these, and one launch on top, which no call goes without:
- memory: the bytes of all tensors that the call reads and of all that it writes, each element once, at the memory's
  bandwidth, or at what programs draw from the last cache where that is less: of a GPU's slice of few multiprocessors;
- operations: elementwise work, reductions, scans and dots that no tensor core takes, at the peak of plain units, two
  for each multiply-add, as if every operation found another to be fused with;
- tensor cores: dots at the peak for their dtype, where the device has them for it;
- shared memory, on a GPU: what is moved to and from the author's scratchpads, as their elements are found by indices
  that registers do not take.
Operations are those that `annotate_needs` counts of one program that takes every axis whole: nothing is read or
computed twice, and no tile has anything in excess.

Where indices come out of other tensors they may point anywhere: of a tensor larger than the last cache, what that does
not hold is read again for every element. A loop whose bounds come out of tensors makes as many trips
as planning takes it to make; of such kernels this is the roofline of data of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from ..analyses import annotate_needs
from ..analysis.axes import known_value
from ..analysis.needs import Needs, NeedsDevice
from ..analysis.needs.device import UNKNOWN_TRIPS
from ..analysis.needs.spaces import width
from ..analysis.needs.traffic import narrow
from ..dialect import DotOp, GatherOp, KernelOp, RangeOp, TensorArgumentType, axes_of, element_of
from ..facts import Facts
from ..limits import Limits
from ..plan import Plan
from .gpu import CACHE_REACHED

A_MULTIPLY_ADD = 2
"""Operations."""

_UNBOUNDED = NeedsDevice(warp=32, registers=1 << 30)
_TENSOR_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "tf32", "i8": "int8"}


@dataclass(frozen=True)
class Roofline:
    """Seconds by what takes them, and of one launch. `moved`: bytes to and from memory."""

    parts: Mapping[str, float]
    launch: float
    moved: float

    @property
    def seconds(self) -> float:
        """The longest part and the launch."""
        return max(self.parts.values()) + self.launch

    @property
    def bottleneck(self) -> str:
        """The longest part."""
        return max(self.parts, key=lambda name: self.parts[name])


def roofline(kernel: KernelOp, sizes: Mapping[str, int], limits: Limits, needs: Needs | None = None) -> Roofline:
    """The roofline of a kernel for a call's sizes by name. `needs`: the kernel's, where they are at hand.

    Raises `PlanError` for a size that is missing, `UnsupportedError` for a kernel that cannot be read.
    """
    needs = annotate_needs(kernel) if needs is None else needs
    extents = {name: max(1, extent) for name, extent in needs.extents(sizes).items()}
    whole = Plan(
        tiles={axis.name: extents[axis.name] for axis in needs.axes if axis.is_tile},
        chunks={axis.name: extents[axis.name] for axis in needs.axes if not axis.is_tile},
    )
    use = needs.evaluate(whole, sizes, _UNBOUNDED)
    moved = use.distinct_read_bytes + use.global_write_bytes + _found_again(kernel, sizes, extents, limits)
    plain, tensor = use.operations, use.tensor_operations
    tensor_rate = max((limits.tensor_multiply_adds.get(dtype, 0.0) for dtype in _dot_dtypes(kernel)), default=0.0)
    if not tensor_rate:
        plain, tensor = plain + tensor, 0.0
    rate = limits.multiply_adds["float64" if element_bytes(kernel) == 8 else "float32"]
    drawn = limits.cache_bandwidth * (CACHE_REACHED if limits.warp > 1 else 1)
    parts = {
        "memory": moved / min(limits.memory_bandwidth, drawn),
        "operations": plain / (A_MULTIPLY_ADD * rate),
        "tensor cores": tensor / (A_MULTIPLY_ADD * tensor_rate) if tensor else 0.0,
        "shared memory": use.shared_bytes_moved / limits.shared_bandwidth if limits.warp > 1 else 0.0,
    }
    return Roofline(parts, limits.launch_seconds, moved)


def _found_again(kernel: KernelOp, sizes: Mapping[str, int], extents: Mapping[str, int], limits: Limits) -> float:
    """Bytes that are read more than once because the indices may point anywhere."""
    asked: dict[SSAValue, float] = {}
    for op in kernel.walk():
        if not isinstance(op, GatherOp) or not isinstance(op.base.type, TensorArgumentType):
            continue
        elements = prod(extents[axis] for axis in axes_of(op.tile)) * _trips(op, sizes)
        asked[op.base] = asked.get(op.base, 0.0) + elements * width(op.base.type.element)
    again = 0.0
    for base, moved in asked.items():
        assert isinstance(base.type, TensorArgumentType)
        whole = prod(sizes[each] if isinstance(each, str) else each for each in base.type.shape) * width(
            base.type.element
        )
        again += max(0.0, moved - whole) * max(0.0, 1 - limits.cache / max(1, whole))
    return again


def _trips(op: Operation, sizes: Mapping[str, int]) -> int:
    facts, found, around = Facts(dict(sizes)), 1, op.parent_op()
    while around is not None:
        if isinstance(around, RangeOp):
            start, stop = known_value(around.start, facts), known_value(around.stop, facts)
            found *= UNKNOWN_TRIPS if start is None or stop is None else max(0, stop - start)
        around = around.parent_op()
    return found


def _dot_dtypes(kernel: KernelOp) -> set[str]:
    """The dtypes of dot operands, as `Limits.tensor_multiply_adds` names them."""
    texts = [str(element_of(narrow(op.left).type)) for op in kernel.walk() if isinstance(op, DotOp)]
    return {"float8" if text.startswith("f8") else _TENSOR_DTYPES.get(text, text) for text in texts}


def element_bytes(kernel: KernelOp) -> int:
    """Bytes of what most lanes compute in: 8 if any tensor holds 64-bit floats, else 4."""
    types = (argument.type for argument in kernel.body.block.args)
    return 8 if any(isinstance(each, TensorArgumentType) and str(each.element) == "f64" for each in types) else 4
