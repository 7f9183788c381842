"""A mistake in an author's own script ends it with the line, one message and exit code 2, never a traceback."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

HEAD = """
import numpy as np
import vkernels as vk
from jaxtyping import Float, Int

x, out = np.ones((4, 5), np.float32), np.ones((4, 5), np.float32)
weight, three = np.ones(5, np.float32), np.ones(3, np.float32)
"""

SCALE = """
@vk.kernel
def scale(
    x: Float[vk.Tensor, "M N"],
    weight: Float[vk.Tensor, "N"],
    three: Float[vk.Tensor, "3"],
    out: Float[vk.Tensor, "M N"],
):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, j] * weight[j] * three[0]
"""

CALLS = {
    "dtype": ("scale(x.astype(np.int32), weight, three, out)", "argument `x`: expected dtype one of", "got int32"),
    "rank": ("scale(x[0], weight, three, out)", "argument `x`: expected 2 dimensions [M, N], got 1 dimension [5]"),
    "fixed size": ("scale(x, weight, three[:2], out)", "argument `three`: expected dimension 0 to be 3, got 2"),
    "shared size": ("scale(x, weight[:2], three, out)", "`weight`: expected size N to be 5, as in `x`, got 2"),
    "a list": ("scale([[1.0]], weight, three, out)", "expected a torch tensor or a NumPy array, got list [[1.0]]"),
    "missing": ("scale(x, weight, three)", "argument `out` is missing"),
    "no such argument": ("scale(x, weight, three, outt=out)", "no argument `outt`"),
    "read-only": ("scale(x, weight, three, np.broadcast_to(weight, (4, 5)))", "expected memory that may be written"),
    "meta tensor": (
        "import torch; scale(torch.ones(4, 5, device='meta'), weight, three, out)",
        "expected a tensor on device cpu or cuda, got meta",
    ),
    "f8 on the CPU": (
        "import torch; scale(x, weight, three, torch.ones(4, 5).to(torch.float8_e5m2))",
        "argument `out`: float8_e5m2",
    ),
}

BODIES = {
    "axis not of the tile": ("out[i] = vk.sum(x[i], axis=i2)", "the tile does not have the axis `i2`, it has `i`"),
    "axis not of the tensor": ("out[i] = x[i2]", "the value has the axis `i2`, the place in `out` only `i`"),
    "unknown name": ("out[i] = y[i]", "`y` does not exist"),
    "unknown operation": ("out[i] = vk.expp(x[i])", "Did you mean `vk.exp`?"),
    "unknown size": ('k = vk.tile("K")', 'no tensor has a size named "K"'),
    "class": ("class A: pass", "a class definition cannot be used in a kernel"),
    "with": ("with x: pass", "`with` cannot be used in a kernel"),
    "try": ("try: pass\n    finally: pass", "`try` cannot be used in a kernel"),
    "indices": ("out[i, i] = x[i]", "2 indices are given", "`out` has one dimension: N."),
}

CHECKED = {
    "out of range": ("out[i] = x[index[i]]", "index 7 is outside dimension 0 of `x`, which has 4 elements", "at i = 2"),
    "stored out of range": ("out[index[i]] = x[i]", "index 3 is outside dimension 0 of `out`", "at i = 1"),
    "unwritten scratch": (
        "s = vk.scratch((i,), vk.float32)\n    out[i] = s[i]",
        "`s[0]` is read before anything has been written to it",
    ),
    "assertion": ('vk.device_assert(x[i] > 2, "x must be large")', "error: x must be large", "at i = 0"),
}


@pytest.fixture
def run(tmp_path) -> Run:
    """Runs a script as a user does."""

    def run_script(text: str, *flags: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        (tmp_path / "script.py").write_text(textwrap.dedent(text))
        return subprocess.run(
            [sys.executable, *flags, "script.py"],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run_script


def check(done: subprocess.CompletedProcess[str], line: str, *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "vkernels/" not in done.stderr
    assert done.stderr.count("error: ") == 1
    assert done.stderr.startswith(f"{line}\n"), done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("name", CALLS)
def test_wrong_calls(run, tmp_path, name):
    call, *words = CALLS[name]
    text = f"{HEAD}{SCALE}{call}\n"
    check(run(text), f"{tmp_path / 'script.py'}:{len(text.splitlines())}: in <module>: {call}", *words)


@pytest.mark.parametrize("name", BODIES)
def test_wrong_kernels(run, tmp_path, name):
    body, *words = BODIES[name]
    text = f"""{HEAD}
@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    i2 = vk.whole("N")
    {body}

def main():
    kernel(np.ones(4), np.ones(4))

main()
"""
    line = len(text.splitlines()) - 2
    done = run(text)
    check(done, f"{tmp_path / 'script.py'}:{line}: in main: kernel(np.ones(4), np.ones(4))", *words)
    assert f"script.py:{text[: text.index(body)].count(chr(10)) + 1}:" in done.stderr
    assert "^" in done.stderr


@pytest.mark.parametrize("name", CHECKED)
def test_checked_kernels(run, tmp_path, name):
    body, *words = CHECKED[name]
    arguments = "np.ones(4), np.array([0, 3, 7]), np.ones(3)"
    text = f"""{HEAD}
@vk.kernel(checked=True)
def kernel(x: Float[vk.Tensor, "N"], index: Int[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    {body}

kernel({arguments})
"""
    done = run(text)
    line = len(text.splitlines())
    check(done, f"{tmp_path / 'script.py'}:{line}: in <module>: kernel({arguments})", *words)
    assert "    " + body.splitlines()[-1].strip() in done.stderr


def test_wrong_options(run):
    done = run("import vkernels as vk\n\n@vk.kernel(fast=True)\ndef kernel(): pass\n")
    assert (done.returncode, done.stderr.count("error: ")) == (2, 1)
    assert "script.py:3: in <module>: @vk.kernel(fast=True)\nerror: vk.kernel has no option fast" in done.stderr


def test_output_before_a_mistake_is_kept_and_exits_are_tidy(run):
    done = run(
        """
        import atexit
        import vkernels as vk
        atexit.register(print, "tidied")
        print("begun")
        vk.set_threads(0)
        """
    )
    assert (done.returncode, done.stdout) == (2, "begun\ntidied\n")


def test_the_environments_fault_is_code_3(run):
    done = run("import vkernels as vk\nraise vk.SetupError('no such device')\n")
    assert done.returncode == 3
    assert done.stderr.splitlines()[1:] == ["error: no such device"]


def test_bugs_keep_their_tracebacks_and_earlier_hooks(run):
    text = """
        import sys, traceback
        def hook(kind, error, trace):
            print("earlier hook")
            traceback.print_exception(kind, error, trace)
        sys.excepthook = hook
        import vkernels as vk
        raise {}
        """
    done = run(text.format("KeyError('ours')"))
    assert (done.returncode, done.stdout) == (1, "earlier hook\n")
    assert "Traceback" in done.stderr
    done = run(text.format("vk.FileError('theirs')"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_threads_say_it_too(run):
    done = run(
        """
        import threading
        import vkernels as vk
        thread = threading.Thread(target=lambda: vk.set_threads(0), name="worker")
        thread.start()
        thread.join()
        other = threading.Thread(target=lambda: 1 / 0)
        other.start()
        other.join()
        print("on")
        """
    )
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert done.stderr.startswith("in worker:\n")
    assert "\nerror: threads: expected a whole number of at least 1, got 0\n" in done.stderr
    assert done.stderr.count("Traceback") == 1


def test_sessions_at_a_prompt_keep_tracebacks(run):
    done = run("import vkernels as vk\nvk.set_threads(0)\n", "-i", stdin="print('still here')\n")
    assert "Traceback" in done.stderr
    assert done.stdout == "still here\n"
