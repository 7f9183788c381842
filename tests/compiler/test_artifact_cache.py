"""Lowered kernels and their native code are found again by later processes; what is damaged or made by something else
is made anew."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler import artifact_cache as kept
from vkernels.compiler import compile_cpu as compiling
from vkernels.compiler.backends import llvm as cpu
from vkernels.compiler.session import CompilerSession
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.lowering.llvm.lower_to_llvm import LlvmModule
from vkernels.ir.plan import Plan
from vkernels.runtime.dispatch import Launcher


@vk.kernel
def shifted(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] * 2 + 1


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path)


def check(cache):
    """Call the kernel as a new process does."""
    x = np.random.default_rng().standard_normal(1000, np.float32)
    out = np.full_like(x, np.nan)
    Launcher(shifted, CompilerSession(cache, patience=600.0))(x, out)
    np.testing.assert_allclose(out, x * 2 + 1, rtol=1e-6)


def no(*args):
    raise AssertionError("it was kept")


def entries(cache, folder):
    """The kind of record in each entry, by key; plans are no records."""
    artifacts = kept.ArtifactCache(cache)
    keys = [entry.name.partition(".")[0] for entry in folder.glob("*.entry")]
    kinds = [(key, kind) for key in keys for kind in (kept.NativeCode, LlvmModule)]
    return {key: kind for key, kind in kinds if artifacts.get(key, kind)}


def test_code_is_made_once(cache, tmp_path, monkeypatch):
    check(cache)
    assert sorted(kind.__name__ for kind in entries(cache, tmp_path).values()) == ["LlvmModule", "NativeCode"]
    with monkeypatch.context() as patched:
        patched.setattr(cpu, "_native_code", no)
        patched.setattr(compiling, "_lower", no)
        check(cache)
    monkeypatch.setattr(cpu, "_native_code", no)
    x = np.ones(1000, np.float32)
    stages = Launcher(shifted, CompilerSession(cache)).compile((x, x.copy()), {}).stages
    assert "vk.mapped" in stages["after-apply-plan"]
    assert "define" in stages["llvm"]
    assert stages["assembly"]


def test_what_is_asked_for_another_way_is_lowered_another_way(cache, tmp_path):
    for tile, size in ((8, 1000), (8, 999), (8, 2000), (40, 1000)):  # the third is as the first: its tile divides it
        planned = type(shifted)(shifted.function, replace(shifted.options, plan=Plan(tiles={"i": tile}, lanes="i")))
        Launcher(planned, CompilerSession(cache))(np.ones(size, np.float32), np.zeros(size, np.float32))
    assert list(entries(cache, tmp_path).values()).count(LlvmModule) == 3


def test_what_is_damaged_is_made_anew(cache, tmp_path):
    check(cache)
    nothing = kept.to_bytes(kept.NativeCode("", b"", b""))
    for key, kind in entries(cache, tmp_path).items():
        entry = tmp_path / f"{key}.entry"
        for damaged in (b"", b"\0" * 100, nothing[:-1], *([nothing] if kind is LlvmModule else [])):
            cache.put(key, damaged)
            assert kept.ArtifactCache(cache).get(key, kind) is None
            check(cache)
        data = bytearray(entry.read_bytes())
        data[len(data) // 2] ^= 1
        entry.write_bytes(data)
        assert kept.ArtifactCache(cache).get(key, kind) is None
        check(cache)


def test_another_processor_has_other_code(monkeypatch):
    assert len({kept.code_key("text", *of) for of in (("a", "+b"), ("a", "+c"), ("b", "+b"))}) == 3
    key, lowering = kept.code_key("text", "a", "+b"), kept.lowering_key("text")
    monkeypatch.setattr(kept, "_compiler", lambda: ["another"])
    assert kept.code_key("text", "a", "+b") != key
    assert kept.lowering_key("text") == lowering
    monkeypatch.setattr(kept, "_passes", lambda: ["another"])
    assert kept.lowering_key("text") != lowering


@pytest.mark.slow
def test_a_later_process_makes_none(tmp_path):
    program = textwrap.dedent(
        """
        import sys
        import numpy as np
        from vkernels.library.rows import softmax_rows
        from vkernels.compiler.default_session import default_session
        from vkernels.compiler.backends import llvm
        default_session().patience = 600.0
        if sys.argv[1] == "later":
            llvm._native_code = llvm.lower_to_llvm = None
            import vkernels.ir.planning.choose_plan as choosing
            choosing.plans_down = None
        x = np.random.default_rng().standard_normal((30, 400), np.float32)
        out = np.full_like(x, np.nan)
        softmax_rows(x, out)
        e = np.exp(x - x.max(1, keepdims=True))
        assert np.allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
        """
    )
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for which in ("first", "later"):
        done = subprocess.run(
            [sys.executable, "-c", program, which], env=environment, capture_output=True, text=True, timeout=300
        )
        assert (done.returncode, done.stderr) == (0, "")
