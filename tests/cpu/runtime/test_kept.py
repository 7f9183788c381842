"""Native code is found again by later processes; what is damaged or made by something else is made anew."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.runtime.compile import cpu, kept
from vkernels.runtime.compile.cache import DiskCache
from vkernels.runtime.launch import Launcher


@vk.kernel
def shifted(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] * 2 + 1


@pytest.fixture
def cache(monkeypatch, tmp_path):
    cache = DiskCache(tmp_path)
    monkeypatch.setattr(kept, "cache_of_code", lambda: cache)
    return cache


def check():
    x = np.random.default_rng().standard_normal(1000, np.float32)
    out = np.full_like(x, np.nan)
    Launcher(shifted)(x, out)
    np.testing.assert_allclose(out, x * 2 + 1, rtol=1e-6)


def no(*args):
    raise AssertionError("it was kept")


def test_code_is_made_once(cache, monkeypatch):
    check()
    monkeypatch.setattr(cpu, "_native_code", no)
    check()
    x = np.ones(1000, np.float32)
    stages = shifted.compile(x, x.copy()).stages  # all that is told of it was kept too
    assert "define" in stages["llvm"]
    assert stages["assembly"]


def test_damaged_code_is_made_anew(cache, tmp_path):
    check()
    (entry,) = tmp_path.glob("*.entry")
    key = entry.name.partition(".")[0]
    for damaged in (b"", b"\0" * 100, kept.to_bytes(kept.NativeCode("", b"", b""))[:-1]):
        cache.put(key, damaged)
        assert kept.kept(key) is None
        check()
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    assert kept.kept(key) is None
    check()


def test_another_processor_has_other_code(monkeypatch):
    assert len({kept.key_of("text", *of) for of in (("a", "+b"), ("a", "+c"), ("b", "+b"))}) == 3
    key = kept.key_of("text", "a", "+b")
    monkeypatch.setattr(kept, "_compiler", lambda: ["another"])
    assert kept.key_of("text", "a", "+b") != key


def test_a_later_process_makes_none(tmp_path):
    program = textwrap.dedent(
        """
        import sys
        import numpy as np
        from vkernels.library.rows import softmax_rows
        from vkernels.runtime import way
        from vkernels.runtime.compile import cpu
        way.PATIENCE = 600.0
        if sys.argv[1] == "later":
            cpu._native_code = None
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
