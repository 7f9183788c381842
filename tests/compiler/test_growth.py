"""Compiling without end takes no memory without end, and code lives as long as somebody may run it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler import kernel_variants
from vkernels.compiler.default_session import default_session
from vkernels.runtime import dispatch
from vkernels.runtime.dispatch import launcher_of
from vkernels.runtime.recording import CallRecording

MOST = 100.0
"""MB by which a process may grow with 2000 compiles."""


def grown(what: str, begin: int, count: int, known: int, seconds: float) -> float:
    """MB by which a process grew while it compiled so many, after the first."""
    command = [sys.executable, "-m", "tests.compiler.compiles", what, *map(str, (begin, count, known))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.thorough
def test_200_compiles_leave_little_once_the_tables_are_full():
    assert grown("both", 80, 200, 32, 500) < MOST * 200 / 2000


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["constants", "shapes"])
def test_2000_compiles_end_within_100_mb_of_where_they_began(what):
    assert grown(what, 20, 2000, 0, 3000) < MOST


def new_kernel():
    @vk.kernel
    def scaled(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"], factor: vk.Constant):
        i = vk.tile("N")
        out[i] = x[i] * factor

    return scaled


@pytest.fixture
def few(monkeypatch):
    """Kernels that remember two variants."""
    monkeypatch.setattr(dispatch, "MAX_CACHED_CALLS", 2)
    monkeypatch.setattr(kernel_variants, "MAX_CODE", 2)
    monkeypatch.setattr(kernel_variants, "MAX_IR", 2)


def called(kernel, factor, length=100):
    x = np.random.default_rng().standard_normal(length, np.float32)
    out = np.full_like(x, np.nan)
    kernel(x, out, factor)
    np.testing.assert_array_equal(out, x * np.float32(factor))


def code_of(kernel):
    """Weak references to the libraries that the kernel's code lies in, by how it is called."""
    return [weakref.ref(code.native._code) for code in default_session().variants(kernel)._code.values()]


@pytest.mark.usefixtures("few")
def test_code_that_nobody_can_run_any_more_is_freed():
    kernel = new_kernel()
    called(kernel, 2)
    (first,) = code_of(kernel)
    assert first() is not None
    for factor in range(3, 8):
        called(kernel, factor)
    gc.collect()
    assert first() is None
    variants = default_session().variants(kernel)
    assert len(launcher_of(kernel).entries) == len(variants._code) == len(variants._ir) == 2
    called(kernel, 2)  # compiled anew


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_code_that_a_recorder_holds_stays():
    kernel, calls = new_kernel(), []

    class Recorder:
        """Keeps what a replay keeps."""

        def launched(self, entry, prepared, addresses, scalars):
            calls.append((prepared, addresses, scalars))

    x, out = np.ones(100, np.float32), np.full(100, np.nan, np.float32)
    with CallRecording(Recorder()):
        kernel(x, out, 2)
    (held,) = code_of(kernel)
    for factor in range(3, 9):
        called(kernel, factor)
    gc.collect()
    assert held() is not None
    out[:] = np.nan
    ((prepared, addresses, scalars),) = calls
    prepared.run(addresses, scalars)
    assert (out == 2).all()
    del prepared
    calls.clear()
    gc.collect()
    assert held() is None


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_threads_that_run_code_while_it_is_forgotten_are_right():
    kernel, wrong, stop = new_kernel(), [], threading.Event()

    def caller(factor: int) -> None:
        x = np.arange(100_000, dtype=np.float32)
        while not stop.is_set():
            out = np.full_like(x, np.nan)
            kernel(x, out, factor)
            if not np.array_equal(out, x * np.float32(factor)):
                wrong.append(factor)

    threads = [threading.Thread(target=caller, args=(factor,)) for factor in (2, 3)]
    for thread in threads:
        thread.start()
    for factor in range(4, 24):
        called(kernel, factor)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
