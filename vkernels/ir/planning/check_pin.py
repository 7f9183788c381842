"""Whether a kernel has what its author's pin names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ..analyses import phases_of
from ..analysis.places import located
from ..analysis.schedule.nests import label_of
from ..analysis.warp_roles import why_not_divided
from ..dialect import KernelOp, PhaseOp, ScratchOp, SizeOp, TileOp, WholeOp
from ..did_you_mean import did_you_mean
from ..errors import PlanError
from ..pin import Pin, with_pin
from ..plan import Plan
from ..warp_roles import why_no_roles
from .bounds import tensors_of
from .decisions.decision import PlanDecision
from .decisions.decisions import DECISIONS

ROOM_FOR_ROLES = Plan(warps=4, stages=2, descriptors=("any",))
"""A plan whose warps can have roles, but for what is pinned."""


def check_pin(pin: Pin, kernel: KernelOp) -> None:
    """Raise `PlanError` where a pin names what the kernel, as its author wrote it, does not have."""
    with located(kernel):
        _check_names(pin, kernel)


def _check_names(pin: Pin, kernel: KernelOp) -> None:
    name = kernel.sym_name.data
    axes = [op for op in kernel.body.block.ops if isinstance(op, TileOp | WholeOp)]
    tiles = [op.axis.data for op in axes if isinstance(op, TileOp)]
    whole = [op.axis.data for op in axes if isinstance(op, WholeOp)]
    axes_by_size = {_size(op): op.axis.data for op in axes if _size(op) is not None}
    scratchpads = [op.label.data for op in kernel.body.block.ops if isinstance(op, ScratchOp)]
    known: dict[str, Callable[[], Sequence[str]]] = {
        "tile axis": lambda: tiles,
        "whole axis": lambda: whole,
        "axis": lambda: [*tiles, *whole],
        "tensor": lambda: list(tensors_of(kernel)),
        "scratchpad": lambda: scratchpads,
        "phase": lambda: _phases(kernel)[0],
        "value that crosses phases, or scratchpad,": lambda: [*_phases(kernel)[1], *scratchpads],
    }
    for axis in pin.warp_specialized or ():
        described = tensors_of(kernel) if pin.descriptors is None else pin.descriptors
        room = why_no_roles(with_pin(ROOM_FOR_ROLES, replace(pin, warp_specialized=None)))
        if axis in whole and (reason := room or why_not_divided(kernel, axis, described)):
            raise PlanError(f"{name}: warp_specialized pins {axis!r}; {reason}", about=axis)
    for decision in DECISIONS:
        named = _names(getattr(pin, decision.field))
        if decision.subject and named:
            _check(name, decision, named, known[decision.subject](), axes_by_size)
    if pin.order is not None and sorted(pin.order) != sorted(tiles):
        once = f"it must have each tile axis once: {', '.join(tiles)}"
        raise PlanError(f"{name}: order pins {', '.join(pin.order) or 'nothing'}; {once}")


def _names(pinned: object) -> Sequence[str]:
    """The names in a pin's field: of a mapping or of a list, or the only one."""
    if isinstance(pinned, str):
        return [pinned]
    return [str(name) for name in pinned] if isinstance(pinned, Collection) else []


def _phases(kernel: KernelOp) -> tuple[list[str], list[str]]:
    """The labels of a kernel's phases, and of the values that cross phases."""
    operations = list(phases_of(kernel).walk())
    phases = [op.phase.data for op in operations if isinstance(op, PhaseOp)]
    crossing = (label_of(result) for op in operations if op.regions for result in op.results)
    return phases, list(dict.fromkeys(crossing))


def _size(axis: TileOp | WholeOp) -> str | None:
    owner = axis.extent.owner
    return owner.size.data if isinstance(owner, SizeOp) else None


def _check(
    kernel: str,
    decision: PlanDecision,
    named: Sequence[str],
    known: Sequence[str],
    axes_by_size: Mapping[str | None, str],
) -> None:
    """Raise `PlanError` for a name that the kernel does not have. If it is a size, the error names the axis over it."""
    for name in named:
        if name in known:
            continue
        axis = axes_by_size.get(name)
        help_ = (
            f"did you mean {axis}, the axis over {name}?" if axis in known else did_you_mean(name, known or ["none"])
        )
        what = f"{decision.field} pins {name!r}, but there is no {decision.subject} of that name"
        raise PlanError(f"{kernel}: {what}; {help_}")
