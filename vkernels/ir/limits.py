"""What a device or a slice of it physically offers, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes of one target or slice, in the words that every kind of device shares.

    `registers`: the most registers a thread can have (CPU: vector registers); `register_bytes`: bytes of
    one; `shared`: the most bytes of on-chip memory one program can have, asked for where a device gives
    less unasked (CPU: a core's share of L2); `multiprocessors`: cores on a CPU; `cache`: bytes of the last
    cache all share; `threads`: the most threads a program can have; `warp`: threads that run in step. A
    CPU's programs are one thread each: `warp > 1` tells a GPU.
    """

    registers: int
    register_bytes: int
    shared: int
    multiprocessors: int
    cache: int
    threads: int = 1
    warp: int = 1
