"""Whether a kernel has what its author's pin names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp

from ..dialect import KernelOp, PhaseOp, ScratchOp, SizeOp, TensorArgumentType, TileOp, WholeOp
from ..errors import PlanError
from ..nearest import meant
from ..pin import Pin


def check_pin(pin: Pin, kernel: KernelOp) -> None:
    """Raise `PlanError` where a pin names what the kernel, as its author wrote it, does not have."""
    name = kernel.sym_name.data
    axes = [op for op in kernel.body.block.ops if isinstance(op, TileOp | WholeOp)]
    tiles = [op.axis.data for op in axes if isinstance(op, TileOp)]
    whole = [op.axis.data for op in axes if isinstance(op, WholeOp)]
    behind = {_size(op): op.axis.data for op in axes if _size(op) is not None}
    tensors = [
        parameter.data
        for parameter, argument in zip(kernel.parameters, kernel.body.block.args, strict=True)
        if isinstance(argument.type, TensorArgumentType)
    ]
    scratchpads = [op.label.data for op in kernel.body.block.ops if isinstance(op, ScratchOp)]
    _check(name, "tiles", "tile axis", pin.tiles, tiles, behind)
    _check(name, "chunks", "whole axis", pin.chunks, whole, behind)
    _check(name, "splits", "whole axis", pin.splits, whole, behind)
    _check(name, "online", "whole axis", pin.online or (), whole, behind)
    _check(name, "order", "tile axis", pin.order or (), tiles, behind)
    _check(name, "lanes", "axis", () if pin.lanes is None else (pin.lanes,), [*tiles, *whole], behind)
    _check(name, "packs", "tensor", pin.packs or (), tensors)
    _check(name, "streams", "tensor", pin.streams or (), tensors)
    _check(name, "copies", "scratchpad", pin.copies or (), scratchpads)
    if pin.homes or pin.launches:
        phases, crossing = _phases(kernel)
        homed = [*crossing, *scratchpads]
        _check(name, "homes", "value that crosses phases, or scratchpad,", pin.homes, homed)
        _check(name, "launches", "phase", pin.launches or (), phases)
    if pin.order is not None and sorted(pin.order) != sorted(tiles):
        once = f"it must have each tile axis once: {', '.join(tiles)}"
        raise PlanError(f"{name}: order pins {', '.join(pin.order) or 'nothing'}; {once}")


def _phases(kernel: KernelOp) -> tuple[list[str], list[str]]:
    """The labels of a kernel's phases, and of the values that leave one, or a loop or conditional around phases."""
    from ..passes.apply_plan.schedule import label_of
    from ..passes.split_phases import split_phases

    module = ModuleOp([kernel.clone()])
    if not any(isinstance(op, PhaseOp) for op in module.walk()):
        split_phases(module)
    operations = list(module.walk())
    phases = [op.phase.data for op in operations if isinstance(op, PhaseOp)]
    crossing = (label_of(result) for op in operations if op.regions for result in op.results)
    return phases, list(dict.fromkeys(crossing))


def _size(axis: TileOp | WholeOp) -> str | None:
    """The size that an axis runs over, where it is just that."""
    owner = axis.extent.owner
    return owner.size.data if isinstance(owner, SizeOp) else None


def _check(
    kernel: str,
    option: str,
    what: str,
    named: Collection[str],
    known: Sequence[str],
    behind: Mapping[str | None, str] = {},
) -> None:
    for name in named:
        if name in known:
            continue
        axis = behind.get(name)
        help_ = f"did you mean {axis}, the axis over {name}?" if axis in known else meant(name, known or ["none"])
        raise PlanError(f"{kernel}: {option} pins {name!r}, but there is no {what} of that name; {help_}")
