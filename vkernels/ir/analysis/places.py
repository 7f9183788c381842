"""Where the author wrote what a plan's error is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.ir import Operation

from ..dialect import AccessOp, KernelOp, PhaseOp, ScratchOp, TileOp, WholeOp
from ..errors import PlanError, SourceRange
from ..locations import place_of


@contextmanager
def located(kernel: KernelOp) -> Iterator[None]:
    """Raise `PlanError`s of the body with the line of what they are about, where they give none: the kernel's own,
    where they are about nothing in it."""
    try:
        yield
    except PlanError as error:
        if error.place is not None:
            raise
        place = None if error.about is None else place_of_name(kernel, error.about)
        raise PlanError(error.message, place or place_of(kernel), error.about, error.help) from None


def place_of_name(kernel: KernelOp, name: str) -> SourceRange | None:
    """Where a kernel declares an axis or a scratchpad, computes a value, or first accesses a tensor, by name."""
    operations = list(kernel.walk())
    found = next((op for op in operations if _declares(op, name)), None)
    found = found or next((op for op in operations if not op.regions and _computes(op, name)), None)
    found = found or next((op for op in operations if _computes(op, name)), None)
    found = found or next((op for op in operations if _accesses(op, name)), None)
    return None if found is None else place_of(found)


def _declares(op: Operation, name: str) -> bool:
    if isinstance(op, TileOp | WholeOp):
        return op.axis.data == name
    if isinstance(op, PhaseOp):
        return op.phase.data == name
    return isinstance(op, ScratchOp) and op.label.data == name


def _computes(op: Operation, name: str) -> bool:
    return any(result.name_hint == name for result in op.results)


def _accesses(op: Operation, name: str) -> bool:
    return isinstance(op, AccessOp) and op.base.name_hint == name
