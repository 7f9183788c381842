"""Limits of CPUs that users have, for tests that must hold on all of them, whichever runs the tests."""

from __future__ import annotations

from vkernels.ir.limits import Limits

CPUS = {
    "AVX-512": Limits(
        registers=32, register_bytes=64, shared=1 << 20, multiprocessors=96, cache=384 << 20, memory=1 << 38
    ),
    "AVX2": Limits(
        registers=16, register_bytes=32, shared=512 << 10, multiprocessors=8, cache=32 << 20, memory=1 << 34
    ),
    "NEON": Limits(registers=32, register_bytes=16, shared=128 << 10, multiprocessors=4, cache=2 << 20, memory=1 << 32),
    "one core": Limits(
        registers=16, register_bytes=32, shared=256 << 10, multiprocessors=1, cache=8 << 20, memory=1 << 31
    ),
    "large caches": Limits(
        registers=32, register_bytes=64, shared=2 << 20, multiprocessors=2, cache=256 << 20, memory=1 << 34
    ),
    "SSE": Limits(registers=16, register_bytes=16, shared=256 << 10, multiprocessors=2, cache=4 << 20, memory=1 << 32),
}
