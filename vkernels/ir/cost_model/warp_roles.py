"""What plans take and save whose loop of a dot is divided among warps by role (`analysis/warp_roles.py`)."""

from __future__ import annotations

from ..analysis.needs import NeedsDevice
from ..analysis.needs.device import OTHER_WARPS
from ..limits import Limits
from .plan_batch import Numbers, PlanBatch

ROLE_REGISTERS = 40
"""Registers that each thread keeps which moves operands, as Triton 3.6 and 3.9 say for sm_90; 24 for later ones."""


def multiplying_warps(at: PlanBatch, limits: Limits) -> Numbers:
    """Warps of a program that multiply."""
    found: Numbers = NeedsDevice.of(limits).multiplying_warps(at.warps, bool(at.choices.warp_specialized))
    return found


def all_warps(at: PlanBatch, limits: Limits) -> Numbers:
    """Warps of a program, those that move operands included."""
    found: Numbers = NeedsDevice.of(limits).all_warps(at.warps, bool(at.choices.warp_specialized))
    return found


def role_registers(at: PlanBatch, limits: Limits) -> Numbers:
    """The most registers of a thread that multiplies: what the others leave, in steps of 8."""
    left = NeedsDevice.of(limits).block_registers - OTHER_WARPS * limits.warp * ROLE_REGISTERS
    return left // (multiplying_warps(at, limits) * limits.warp) // 8 * 8


def handed_over_part(at: PlanBatch, limits: Limits) -> float:
    """The part of the wait for operands in each iteration that remains: half where two groups of warps take turns; none
    where results are in tensor memory, since nothing waits for a product before it begins the next."""
    if not at.choices.warp_specialized:
        return 1.0
    return 0.0 if limits.tensor_memory else 1 / NeedsDevice.of(limits).multiplying_groups
