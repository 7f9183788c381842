"""Rates of CPUs that tests take for measured."""

from __future__ import annotations

from dataclasses import replace

from vkernels.targets.cpu_rates import RANGES, CpuRates

SOME = CpuRates(
    clock=3e9, memory=4e10, core_memory=1.5e10, cache=2e11, core_cache=6e10, shared=4e11, multiply_adds=1e11,
    register_bytes=64, loads=1.5, stores=1.0, latency=4.0, stored_2=2.5, stored_3=1.2, stored=1.5, past_3=0.5,
    past=0.5,
    past_3_alone=0.5, past_alone=0.5, past_store=0.0, past_straight=0.0, waited_3=0.0, waited=0.6, cache_share=0.25,
    own=0.6, gradual=0.33, apart_narrow=1.0, store_apart_narrow=1.1,
    apart=0.8, store_apart=1.1, apart_alone=1.0, found=0.8, index=0.1, masked=0.0, across=1.8,
    atomic=20.0, atomic_far=0.0, update=1.0, update_far=1.3, hop=13.0, line_3=0.2, line=9.0,
    lost_3=0.1, lost=0.25, pages=4096.0, fetched_store=40.0, begun_3=5.0, begun=225.0, contended=110.0, way=65536.0,
    buffered=104.0, crossed=0.5, doubled=1.75, carried=7.0, divided=6.0, mispredicted=20.0, widened=1.0, shuffled=1.0,
    packed=0.2, packed_turned=0.1, worded=0.4, matrix_row=1.0, matrix_latency=17.0, settled=110.0, given_back=1.5,
    staged=1.5, chunked=0.25, passed=0.8, reshaped=170.0, streams=8.0, launch=1e-5, wake=3e-5,
)  # fmt: skip
"""Of a server core with few lines on the way: stores past the caches win much."""

OTHER = CpuRates(
    clock=2e9, memory=2e11, core_memory=1e11, cache=8e11, core_cache=1e11, shared=9e11, multiply_adds=2e10,
    register_bytes=32, loads=3.0, stores=2.0, latency=2.0, stored_2=1.0, stored_3=1.0, stored=1.0, past_3=4.0,
    past=4.0,
    past_3_alone=4.0, past_alone=4.0, past_store=9.0, past_straight=18.0, waited_3=1.0, waited=2.0, cache_share=1.0,
    own=0.9, gradual=0.1, apart_narrow=3.0, store_apart_narrow=5.0,
    apart=4.0, store_apart=6.0, apart_alone=0.0, found=5.0, index=2.0, masked=8.0, across=6.0,
    atomic=40.0, atomic_far=90.0, update=4.0, update_far=20.0, hop=60.0, line_3=40.0, line=90.0,
    lost_3=1.0, lost=2.0, pages=512.0, fetched_store=0.0, begun_3=900.0, begun=2000.0, contended=300.0, way=32768.0,
    buffered=40.0, crossed=2.0, doubled=6.0, carried=20.0, divided=40.0, mispredicted=8.0, widened=3.0, shuffled=3.0,
    packed=6.0, packed_turned=12.0, worded=2.0, matrix_row=4.0, matrix_latency=100.0, settled=400.0, given_back=9.0,
    staged=9.0, chunked=1.0, passed=4.0, reshaped=900.0, streams=8.0, launch=1e-4, wake=2e-4,
)  # fmt: skip
"""Of a core with fast memory and narrow vectors: stores past the caches lose."""

ZEN_3 = replace(
    OTHER, clock=3.6e9, memory=3.5e10, core_memory=2.6e10, cache=1.8e11, core_cache=9e10, shared=4.6e11,
    multiply_adds=1.15e11, loads=2.0, stores=1.0, latency=4.0, stored_2=1.8, stored_3=1.9, stored=2.0, past_3=1.0,
    past=1.0,
    past_3_alone=1.0, past_alone=1.0, past_store=3.0, past_straight=6.0, waited_3=0.3, waited=0.2, cache_share=0.5,
    own=0.6, gradual=0.33, apart_narrow=1.0, store_apart_narrow=1.1, apart=0.6,
    store_apart=1.1, found=1.4, index=0.6, masked=2.0, across=2.0, atomic=8.0, atomic_far=15.0, update=1.0,
    update_far=5.0,
    hop=15.0, line_3=3.0, line=20.0, lost_3=0.2, lost=0.4, pages=2048.0, begun_3=75.0, begun=500.0, buffered=64.0,
    crossed=0.6, doubled=2.0, carried=9.0, divided=7.0, mispredicted=14.0, widened=1.0, shuffled=1.0, packed=1.0,
    packed_turned=1.0, worded=1.2,
)  # fmt: skip
"""Of cores like Zen 3's: 32 bytes a vector, two multiply-adds a cycle, a large and fast level 3."""
ZEN_4 = replace(
    ZEN_3, register_bytes=64, multiply_adds=1.12e11, loads=1.0, stores=0.5, apart=1.2, store_apart=2.1,
    apart_narrow=1.2, store_apart_narrow=2.1, found=2.0,
    across=3.0, way=131072.0, shuffled=1.0, widened=2.0, doubled=2.2, packed=2.0, packed_turned=2.5,
)  # fmt: skip
"""Of cores like Zen 4's, which take wide vectors in two steps."""
ZEN_5 = replace(
    ZEN_4, clock=4.1e9, multiply_adds=2.6e11, shared=9e11, loads=2.0, stores=1.0, apart=0.8, store_apart=1.1,
    apart_alone=1.0, found=0.8, index=0.1, masked=0.0, across=1.8, atomic=20.0, atomic_far=0.0, hop=13.0, line_3=0.2,
    line=9.0, begun_3=5.0, begun=225.0, buffered=104.0, fetched_store=31.0, shuffled=0.5, widened=0.5,
    own=1.05, gradual=0.3, apart_narrow=0.46, store_apart_narrow=0.5, streams=16.0,
)  # fmt: skip
"""Of server cores like Zen 5's, with whole paths of 64 bytes."""
CASCADE_LAKE = replace(
    SOME, clock=2.7e9, memory=2.2e10, core_memory=1.1e10, cache=4e10, core_cache=2e10, shared=2.5e11,
    multiply_adds=1.6e11,
    loads=2.0, stores=1.0, stored_3=1.4, past_store=2.0, past_straight=4.0, cache_share=0.1,
    apart=1.3, found=1.6, index=0.3, hop=20.0,
    line_3=20.0, line=60.0, lost_3=0.4, lost=0.6, pages=1536.0, begun_3=500.0, begun=1500.0, buffered=56.0,
    divided=40.0,
    mispredicted=18.0, packed=1.5, packed_turned=1.0, worded=0.8,
)  # fmt: skip
"""Of server cores like Cascade Lake's: slow level 3 and memory, slow divisions."""
AMX = replace(
    SOME, clock=3.7e9, memory=2.2e10, core_memory=1.6e10, cache=5.9e10, core_cache=3e10, shared=3.4e11,
    multiply_adds=2.4e11, loads=1.4, cache_share=0.13, apart=0.4, found=0.5, atomic=16.0, hop=14.0, line_3=0.0,
    line=40.0,
    begun_3=0.0, begun=900.0, way=131072.0, buffered=112.0,
)  # fmt: skip
"""Of server cores with AMX."""
LEAST = CpuRates(**{**{name: low for name, (low, _) in RANGES.items()}, "register_bytes": 16})
MOST = CpuRates(**{**{name: high for name, (_, high) in RANGES.items()}, "register_bytes": 64})
ZIGZAG = CpuRates(
    **{**{name: ends[number % 2] for number, (name, ends) in enumerate(RANGES.items())}, "register_bytes": 32}
)
"""Absurd ones: every rate at an end of what it can be."""
PLAUSIBLE = {"zen3": ZEN_3, "zen4": ZEN_4, "zen5": ZEN_5, "cascade lake": CASCADE_LAKE, "amx": AMX}
ABSURD = {"least": LEAST, "most": MOST, "zigzag": ZIGZAG}
