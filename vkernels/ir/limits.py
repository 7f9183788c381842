"""What a device or a slice of it physically offers, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes of one target or slice, in the words that every kind of device shares.

    `registers`: registers a thread (CPU: vector registers); `register_bytes`: bytes of one;
    `shared`: bytes of on-chip memory a program can have (CPU: a core's share of L2); `multiprocessors`:
    cores on a CPU; `cache`: bytes of the last cache all share.
    """

    registers: int
    register_bytes: int
    shared: int
    multiprocessors: int
    cache: int
