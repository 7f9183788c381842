"""Plans that came of a choice are found again by the next process; what is damaged counts as not there."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.plan_cache import CachedPlan
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import SourceRange
from vkernels.ir.slow_plan import SlowPlan
from vkernels.runtime.dispatch import Launcher, limits


@vk.kernel
def twice(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, j] / vk.max(x[i, j], axis=j)


KERNEL = kernel_in(twice.build(twice.signature(x="float32", out="float32")))
SIZES, STRIDES = {"M": 30, "N": 50}, {"x": (50, 1), "out": (50, 1)}
PLAN = vk.Plan({"i": 2}, {"j": 16}, lanes="j", order=("i",))


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path)


def process(cache):
    """The session of a new process."""
    return CompilerSession(cache, patience=600.0)


def asked(**changed):
    given = {"sizes": SIZES, "limits": limits(), "strides": STRIDES, "pin": None, **changed}
    kernel = vk.kernel(twice.function) if given["pin"] is None else vk.kernel(plan=given["pin"])(twice.function)
    session = CompilerSession()
    return session.plans_for(kernel, KERNEL, given["sizes"], {}, given["limits"], given["strides"]).cache_key


def test_a_plan_is_found_by_the_next_process(cache):
    process(cache).plan_cache.put(asked(), PLAN, "shared")
    assert process(cache).plan_cache.get(asked()) == CachedPlan(PLAN, "shared")


def test_how_a_plan_is_slow_is_kept_with_it(cache):
    slow = SlowPlan(2.0, 0.5, ("one element at a time",), SourceRange("some.py", 3, 4, 5))
    process(cache).plan_cache.put(asked(), PLAN, "bottom", slow)
    assert process(cache).plan_cache.get(asked()) == CachedPlan(PLAN, "bottom", slow)


def test_whatever_a_choice_depends_on_is_asked_for():
    keys = [
        asked(),
        asked(sizes={**SIZES, "M": 31}),
        asked(strides={**STRIDES, "x": (51, 1)}),
        asked(limits=replace(limits(), registers=8)),
        asked(limits=replace(limits(), memory_bandwidth=1.0)),
        asked(pin=vk.Pin(tiles={"i": 2})),
        asked(pin=vk.Pin(homes={"x": "shared"})),
    ]
    assert len(set(keys)) == len(keys)
    assert asked() == keys[0]


GOOD = {"plan": {"tiles": {"i": 2}, "chunks": {"j": 16}}, "rung": "shared"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({**GOOD, "rung": "top"}).encode(),
        json.dumps({**GOOD, "rung": ["shared"]}).encode(),
        json.dumps({"rung": "shared"}).encode(),
        json.dumps({**GOOD, "slow": {"seconds": "many"}}).encode(),
        json.dumps({**GOOD, "plan": {"tiles": {"i": -1}}}).encode(),
        json.dumps({**GOOD, "plan": {"tiles": "i", "code": "import os"}}).encode(),
    ],
)
def test_what_is_no_plan_counts_as_not_there(cache, data):
    cache.put(asked(), data)
    assert process(cache).plan_cache.get(asked()) is None


def test_a_remembered_plan_that_the_kernel_cannot_have_is_left_for_another(cache):
    x = np.random.default_rng().standard_normal((30, 50), np.float32) ** 2 + 1
    out = np.full_like(x, np.nan)
    process(cache).plan_cache.put(asked(), replace(PLAN, tiles={"q": 3}), "shared")
    seen = []
    with vk.on_launch(seen.append):
        Launcher(twice, process(cache))(x, out)
    np.testing.assert_allclose(out, x / x.max(1, keepdims=True), rtol=1e-6)
    assert set(seen[0].plan.tiles) == {"i"}
    assert process(cache).plan_cache.get(asked()) == CachedPlan(seen[0].plan, seen[0].rung)


@pytest.mark.parametrize(
    "absurd", [{"splits": {"j": 1 << 40}}, {"tiles": {"i": 1 << 30}}, {"chunks": {"j": 1 << 50}}], ids=str
)
def test_a_remembered_plan_of_absurd_numbers_is_one_warning_and_not_used(cache, caplog, absurd):
    x = np.random.default_rng().standard_normal((30, 50), np.float32) ** 2 + 1
    out = np.full_like(x, np.nan)
    process(cache).plan_cache.put(asked(), replace(PLAN, homes={}, **absurd), "launches")
    session, seen = process(cache), []
    with caplog.at_level("WARNING"), vk.on_launch(seen.append):
        Launcher(twice, session)(x, out)
        Launcher(twice, session)(x, out)
    np.testing.assert_allclose(out, x / x.max(1, keepdims=True), rtol=1e-6)
    assert caplog.text.count("of the cache on disk is not used") == 1
    assert seen[0].plan != replace(PLAN, homes={}, **absurd)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    session = process(DiskCache(tmp_path / "file" / "folder"))
    session.plan_cache.put(asked(), PLAN, "shared")
    assert session.plan_cache.get(asked()) == CachedPlan(PLAN, "shared")  # in this process
