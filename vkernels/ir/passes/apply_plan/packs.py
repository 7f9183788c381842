"""Packed operands: a launch of its own copies a tensor panel by panel, in the order it will be read."""

from __future__ import annotations

from .work import Work


def emit_packs(work: Work) -> None:
    pass
