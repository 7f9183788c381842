"""Analyses that are computed once and kept with the kernel: its phases and its needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from .dialect import KernelOp, PhaseOp

if TYPE_CHECKING:
    from .analysis.needs import Needs


def phases_of(kernel: KernelOp) -> KernelOp:
    """The kernel split into phases, in a module of its own and not to be changed; itself where it has phases."""
    if any(isinstance(op, PhaseOp) for op in kernel.walk()):
        return kernel
    found = kernel.analyses.get("phases")
    if not isinstance(found, KernelOp):
        from .transforms.split_phases import split_phases

        found = kernel.clone()
        split_phases(ModuleOp([found]))
        kernel.analyses["phases"] = found
    return found


def annotate_needs(kernel: KernelOp) -> Needs:
    """The needs of a kernel, as written or in phases. Raises `UnsupportedError` where they cannot be read."""
    from .analysis.needs import Needs

    found = kernel.analyses.get("needs")
    if not isinstance(found, Needs):
        from .analysis.needs.annotate import needs_of

        found = kernel.analyses["needs"] = needs_of(phases_of(kernel))
    return found
