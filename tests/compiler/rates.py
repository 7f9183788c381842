"""Rates of CPUs that tests take for measured."""

from __future__ import annotations

from vkernels.targets.cpu_rates import CpuRates

SOME = CpuRates(
    clock=3e9, memory=4e10, core_memory=1.5e10, cache=2e11, core_cache=6e10, shared=4e11, multiply_adds=1e11,
    register_bytes=64, loads=1.5, stores=1.0, latency=4.0, stored_2=2.5, stored_3=1.2, stored=1.5, past_3=0.5, past=0.5,
    past_3_alone=0.5, past_alone=0.5, past_store=0.0, waited_3=0.0, waited=0.6, cache_share=0.25,
    apart=0.8, store_apart=1.1, apart_alone=1.0, found=0.8, index=0.1, masked=0.0, across=1.8,
    atomic=20.0, atomic_far=0.0, update=1.0, update_far=1.3, hop=13.0, line_3=0.2, line=9.0,
    lost_3=0.1, lost=0.25, pages=4096.0, fetched_store=40.0, launch=1e-5, wake=3e-5,
)  # fmt: skip
"""Of a server core with few lines on the way: stores past the caches win much."""

OTHER = CpuRates(
    clock=2e9, memory=2e11, core_memory=1e11, cache=8e11, core_cache=1e11, shared=9e11, multiply_adds=2e10,
    register_bytes=32, loads=3.0, stores=2.0, latency=2.0, stored_2=1.0, stored_3=1.0, stored=1.0, past_3=4.0, past=4.0,
    past_3_alone=4.0, past_alone=4.0, past_store=9.0, waited_3=1.0, waited=2.0, cache_share=1.0,
    apart=4.0, store_apart=6.0, apart_alone=0.0, found=5.0, index=2.0, masked=8.0, across=6.0,
    atomic=40.0, atomic_far=90.0, update=4.0, update_far=20.0, hop=60.0, line_3=40.0, line=90.0,
    lost_3=1.0, lost=2.0, pages=512.0, fetched_store=0.0, launch=1e-4, wake=2e-4,
)  # fmt: skip
"""Of a core with fast memory and narrow vectors: stores past the caches lose."""
