"""A mistake in an author's own script ends it with a short traceback and a message; hooks stay as they are."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

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

    def run_script(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "script.py").write_text(textwrap.dedent(text))
        command = [sys.executable, "script.py"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run_script


@pytest.fixture(scope="module")
def script_server() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported what scripts import, and forks for each: a start takes longer than most scripts."""
    command = [sys.executable, "-m", "tests.language.script_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield server
        server.stdin.close()  # type: ignore[union-attr]


@pytest.fixture
def run_forked(tmp_path, script_server) -> Run:
    """Runs a script in a process that has what scripts import."""

    def run_script(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "script.py").write_text(textwrap.dedent(text))
        print(tmp_path, file=script_server.stdin, flush=True)
        code = int(script_server.stdout.readline())
        out, err = ((tmp_path / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(["script.py"], code, out, err)

    return run_script


def check(done: subprocess.CompletedProcess[str], line: str, *words: str) -> None:
    """A traceback with the script's line and at most two frames of ours, ended by the message."""
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    lines = [text.strip() for text in done.stderr.splitlines()]
    assert lines[0] == "Traceback (most recent call last):"
    assert line in lines, done.stderr
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert sum(text.startswith("File ") and "/vkernels/" in text for text in lines) <= 2, done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("name", CALLS)
def test_wrong_calls(run_forked, tmp_path, name):
    call, *words = CALLS[name]
    text = f"{HEAD}{SCALE}{call}\n"
    check(run_forked(text), f'File "{tmp_path / "script.py"}", line {len(text.splitlines())}, in <module>', *words)


@pytest.mark.parametrize("name", BODIES)
def test_wrong_kernels(run_forked, tmp_path, name):
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
    done = run_forked(text)
    check(done, f'File "{tmp_path / "script.py"}", line {line}, in main', *words)
    assert f"script.py:{text[: text.index(body)].count(chr(10)) + 1}:" in done.stderr
    assert "^" in done.stderr


@pytest.mark.parametrize("name", CHECKED)
def test_checked_kernels(run_forked, tmp_path, name):
    body, *words = CHECKED[name]
    arguments = "np.ones(4), np.array([0, 3, 7]), np.ones(3)"
    text = f"""{HEAD}
@vk.kernel(checked=True)
def kernel(x: Float[vk.Tensor, "N"], index: Int[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    {body}

kernel({arguments})
"""
    done = run_forked(text)
    line = len(text.splitlines())
    check(done, f'File "{tmp_path / "script.py"}", line {line}, in <module>', *words)
    assert "    " + body.splitlines()[-1].strip() in done.stderr


def test_a_wrong_call_in_a_process_of_its_own(run, tmp_path):
    call, *words = CALLS["dtype"]
    text = f"{HEAD}{SCALE}{call}\n"
    check(run(text), f'File "{tmp_path / "script.py"}", line {len(text.splitlines())}, in <module>', *words)


def test_wrong_options(run):
    done = run("import vkernels as vk\n\n@vk.kernel(fast=True)\ndef kernel(): pass\n")
    assert (done.returncode, done.stderr.count("OptionError: vk.kernel has no option fast")) == (1, 1)


def test_importing_leaves_the_interpreters_hooks_alone(run):
    done = run(
        """
        import sys, threading
        before = sys.excepthook, threading.excepthook
        import vkernels
        assert (sys.excepthook, threading.excepthook) == before
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_bug_keeps_its_whole_traceback(run):
    done = run(
        """
        import numpy as np
        import vkernels as vk
        from vkernels.runtime import dispatch

        def broken(*args, **kwargs):
            raise KeyError("ours")

        dispatch.bind = broken

        @vk.kernel
        def kernel(x: vk.Scalar): pass

        kernel(1.0)
        """
    )
    assert done.returncode == 1
    assert "dispatch.py" in done.stderr
    assert done.stderr.endswith("KeyError: 'ours'\n")


def test_frames_of_the_users_own_functions_stay(run):
    done = run(
        """
        import numpy as np
        import vkernels as vk
        from jaxtyping import Float

        @vk.kernel
        def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
            i = vk.tile("N")
            out[i] = x[i]

        @kernel.plan
        def my_plan(sizes, dtypes, limits):
            raise vk.PlanError("no plan of mine")

        kernel(np.ones(4), np.ones(4))
        """
    )
    assert "in my_plan" in done.stderr
    assert done.stderr.endswith("PlanError: no plan of mine\n")


def test_notebooks_show_the_authors_line_and_a_caret(run):
    done = run(
        """
        import numpy as np
        import vkernels as vk
        from jaxtyping import Float

        @vk.kernel
        def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
            i = vk.tile("N")
            out[i] = y[i]

        try:
            kernel(np.ones(4), np.ones(4))
        except vk.Error as error:
            print("\\n".join(error._render_traceback_()))
        try:
            vk.set_threads(0)
        except vk.Error as error:
            print("\\n".join(error._render_traceback_()))
        """
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith("script.py:12: in <module>: kernel(np.ones(4), np.ones(4))")
    assert lines[1].endswith("script.py:9:14: error: `y` does not exist")
    assert lines[2:4] == ["    out[i] = y[i]", "             ^"]
    assert lines[-1] == "OptionError: threads: expected a whole number of at least 1, got 0"
    assert len(lines) < 9
