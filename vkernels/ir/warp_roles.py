"""Which plans leave room for warps with roles, of any kernel (`analysis/warp_roles.py` says of which kernel)."""

from __future__ import annotations

from .plan import Home, Plan

ROLE_WARPS = (4, 8)
"""Warps of a program that can have roles: with fewer Triton fails on sm_100, and more do not reach tensor memory."""


def why_no_roles(plan: Plan) -> str | None:
    """Why warps of a plan cannot have roles; None if they can."""
    if plan.warps not in ROLE_WARPS:
        return f"a program has {plan.warps} warps; it takes {' or '.join(map(str, ROLE_WARPS))}"
    if plan.stages < 2:
        return "it has one stage; tiles are handed over in two or more"
    if plan.resident_programs:
        return "its programs are persistent"
    kept = [label for label, home in plan.homes.items() if home in (Home.SHARED, Home.MEMORY)]
    if kept:
        return f"{kept[0]} has a home that all warps of a program share"
    return None if plan.descriptors else "no tensor is moved by descriptors"
