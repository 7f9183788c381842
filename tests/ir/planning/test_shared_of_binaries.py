"""Foretold shared memory against what binaries have (Triton 3.9, each compiled once)."""

from __future__ import annotations

import pytest

from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.plan import Home, Plan
from vkernels.library.attention_blocks import attention_blocks
from vkernels.library.attention_gradients import attention_key_gradients, attention_query_gradient
from vkernels.library.dense import mlp_rows
from vkernels.targets import limits_of, target_named

from .test_attention_on_gpus import PLACES, built, sizes_of, space_of

BARRIERS = 1024
"""Bytes that those of sm_100 take besides, at most."""
FEATURES = {"M": 512, "K": 256, "H": 1024, "N": 256}


def close(foretold: float, stored: int, over: float) -> bool:
    """Whether a binary has room in what was foretold, which is no more than a part above it."""
    return stored - BARRIERS <= foretold <= stored * (1 + over)


@pytest.mark.parametrize(
    ("device", "width", "keys", "warps", "stages", "stored"),
    [
        ("mi300x", 64, 64, 4, 1, 16384),
        ("mi300x", 64, 64, 4, 2, 16384),
        ("mi300x", 64, 64, 4, 3, 32768),
        ("mi300x", 128, 64, 4, 1, 32768),
        ("mi300x", 128, 64, 4, 2, 32768),
        ("mi300x", 128, 64, 4, 3, 65536),
        ("mi300x", 256, 32, 4, 1, 65536),
        ("mi300x", 256, 32, 4, 2, 65536),
        ("mi350x", 256, 32, 8, 3, 110256),
        ("a100-sxm4-80", 64, 64, 4, 4, 65536),
        ("h100-sxm5-80", 256, 32, 8, 4, 196608),
        ("b200-sxm-180", 64, 64, 4, 4, 81952),
        ("b200-sxm-180", 128, 128, 8, 3, 229920),
    ],
)
def test_queries_only_pass_through_the_shared_memory_of_amd(device, width, keys, warps, stages, stored):
    """Of 128 queries: units of AMD's take them from registers in all iterations, NVIDIA's read them again."""
    kernel = built(attention_blocks, kept=True, size=128, keys=keys)
    plan = Plan(PLACES, {"m": 128, "a": keys, "d": width, "e": width}, warps=warps, stages=stages)
    use = space_of(kernel, sizes_of(width), device).use_of(plan)
    assert close(use.shared_bytes, stored, 0.01)


@pytest.mark.parametrize(
    ("device", "block", "step", "width", "warps", "stages", "of_queries", "of_keys"),
    [
        ("h100-sxm5-80", 64, 64, 64, 4, 4, 81920, 83456),
        ("b200-sxm-180", 128, 64, 64, 4, 4, 122928, 149056),
        ("b200-sxm-180", 128, 64, 128, 8, 4, 229424, 263744),
        ("mi300x", 64, 64, 64, 4, 2, None, 24576),
        ("mi300x", 64, 16, 128, 4, 3, None, 18432),
        ("mi300x", 64, 32, 64, 2, 2, 8192, None),
        ("mi350x", 128, 64, 128, 4, 4, 131072, None),
        ("mi350x", 128, 16, 128, 8, 4, None, 36864),
        ("mi350x", 128, 64, 64, 4, 4, None, 65536),
    ],
)
def test_gradients_copy_each_operand_once_for_all_their_products(
    device, block, step, width, warps, stages, of_queries, of_keys
):
    """Operands of two products have one place; what is computed goes through shared memory where warps have other
    parts of it, and on sm_100."""
    for kernel, own, stored in (
        (attention_query_gradient, "m", of_queries),
        (attention_key_gradients, "n", of_keys),
    ):
        if stored is not None:
            chunks = {own: block, "a": step, "d": width, "e": width}
            module = built(kernel, kept=True, masks=False, size=block)
            use = space_of(module, sizes_of(width, block), device).use_of(
                Plan(PLACES, chunks, warps=warps, stages=stages)
            )
            assert close(use.shared_bytes, stored, 0.02), (kernel.name, use.shared_bytes, stored)


@pytest.mark.parametrize(
    ("device", "home", "rows", "hidden", "results", "warps", "stages", "stored"),
    [
        ("h100-sxm5-80", "hidden", 64, 128, 64, 4, 2, (49152, 65536)),
        ("h100-sxm5-80", "hidden", 64, 128, 64, 4, 3, (73728, 98304)),
        ("h100-sxm5-80", "hidden", 64, 128, 64, 4, 4, (98304, 131072)),
        ("h100-sxm5-80", "product", 128, 128, 128, 8, 2, (65536, 131072)),
        ("h100-sxm5-80", "product", 128, 128, 128, 8, 3, (98304, 229376)),
        ("b200-sxm-180", "hidden", 64, 128, 64, 4, 3, (73744, 98320)),
        ("b200-sxm-180", "product", 128, 128, 128, 8, 3, (98320, 262160)),
        ("a100-sxm4-80", "hidden", 64, 128, 64, 4, 2, (24576, 32768)),
        ("a100-sxm4-80", "product", 128, 128, 128, 8, 2, (32768, 98304)),
        ("mi300x", "hidden", 64, 128, 64, 4, 2, (24576, 32768)),
        ("mi300x", "product", 128, 128, 128, 8, 2, (32768, 98304)),
        ("mi350x", "product", 128, 128, 128, 8, 2, (65536, 200640)),
    ],
)
def test_loops_copy_what_earlier_launches_stored(device, home, rows, hidden, results, warps, stages, stored):
    """As tensors: for all stages where units read it there, and in its own width where it is converted between."""
    plan = Plan(
        {"i": rows}, {"k": 64, "h": hidden, "n": results}, {home: Home.MEMORY}, warps=warps, stages=stages,
        launches=(home,), parallel=("h", "n"),
    )  # fmt: skip
    space = space_of(built(mlp_rows), FEATURES, device)
    phases = {each.name: each.shared_bytes for each in space.use_of(plan).phases}
    names = list(phases)
    cut = names.index(home) + 1
    for some, each in zip((names[:cut], names[cut:]), stored, strict=True):
        assert close(max(phases[name] for name in some), each, 0.05)


def test_loops_keep_what_their_own_launch_stored_once():
    """Copies ahead would be read before they are stored."""
    chunks = {"k": 64, "h": 128, "n": 128}
    space = space_of(built(mlp_rows), {"M": 32768, "K": 1024, "H": 4096, "N": 1024}, "h100-sxm5-80")
    for stages, stored in ((2, 98320), (3, 131096), (4, 163872)):
        plan = Plan({"i": 128}, chunks, {"hidden": Home.MEMORY}, warps=8, stages=stages)
        assert close(space.use_of(plan).shared_bytes, stored, 0.01)


def test_wide_heads_of_causal_attention_fit_on_cdna():
    """Whole rows of 256 elements were refused for queries that are gone before the loop begins."""
    kernel = built(attention_blocks, kept=True, size=128, keys=32)
    space = space_of(kernel, sizes_of(256), "mi300x")
    limits = limits_of(target_named("mi300x"))
    plan = Plan(PLACES, {"m": 128, "a": 32, "d": 256, "e": 256}, warps=4, stages=2)
    assert space.use_of(plan).shared_bytes <= limits.shared
    assert not space.needs.evaluate(plan, sizes_of(256), NeedsDevice.of(limits)).spills
