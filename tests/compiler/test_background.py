"""Forks, and the end of the interpreter, while better plans are compiled in the background."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import logging, os, sys, threading
    import numpy as np
    from jaxtyping import Float
    import vkernels as vk
    from vkernels.compiler.default_session import set_default_session
    from vkernels.compiler.session import CompilerSession
    set_default_session(CompilerSession(patience=0.0))
    @vk.kernel
    def softmax(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        row = x[i, j]
        e = vk.exp(row - vk.max(row, axis=j))
        out[i, j] = e / vk.sum(e, axis=j)
    x = np.random.default_rng().standard_normal((30, 500), np.float32)
    def right(out):
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        return np.allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
    out = np.full_like(x, np.nan)
    softmax(x, out)
    assert right(out)
"""


def run(text, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM) + textwrap.dedent(text))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
def test_the_interpreter_ends_while_a_better_plan_is_being_made(tmp_path):
    assert run("print('done')", tmp_path) == "done\n"


@pytest.mark.slow
def test_a_fork_waits_for_no_thread_that_waits_for_it(tmp_path):
    """A thread may need the lock of LLVM to reach its next checkpoint: a fork takes it only then."""
    text = """
        import time
        from vkernels.compiler import background
        from vkernels.compiler.backends import llvm
        background.FORK_SECONDS = 1000.0
        def compile_more():
            begun.set()
            while not background._gate.closed:
                time.sleep(0.001)
            with llvm._lock:
                pass
        begun = threading.Event()
        background.start_in_background(compile_more, "test")
        begun.wait()
        if os.fork() == 0:
            os._exit(0)
        print("forked")
    """
    assert run(text, tmp_path) == "forked\n"


@pytest.mark.slow
def test_a_child_is_forked_while_a_better_plan_is_being_made(tmp_path):
    text = """
        length = 500
        while not any(t.name.startswith("vkernels-") for t in threading.enumerate()):  # it was made already
            length += 500
            softmax(np.ones((30, length), np.float32), np.empty((30, length), np.float32))
        child = os.fork()
        if child == 0:
            again = np.full_like(x, np.nan)
            softmax(x[:20], again[:20])
            softmax(x, again)
            os._exit(0 if right(again) else 3)
        assert os.waitpid(child, 0)[1] == 0
        softmax(x, out)
        assert right(out)
        print("both")
    """
    assert run(text, tmp_path) == "both\n"
