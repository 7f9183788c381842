"""Users' files are executed in children: whatever one does, a message says it."""

from __future__ import annotations

import pytest

from vkernels.inspect import worker_service
from vkernels.inspect.cases import KernelSource
from vkernels.inspect.worker_client import InspectPool, answer_of, describe
from vkernels.ir.errors import Error, FileError, OptionError, SourceError

KERNEL = """
import vkernels as vk
from jaxtyping import Float, Int

@vk.kernel
def scale(x: Float[vk.Tensor, "M N"], at: Int[vk.Tensor, "M _"], by: vk.Scalar, out: Float[vk.Tensor, "M N"],
          mode: vk.Constant = "plain"):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j] * by
"""


@pytest.fixture(scope="module")
def pool():
    with InspectPool(1, seconds=20.0) as pool:
        yield pool


@pytest.fixture
def described(pool, tmp_path):
    def run(text, name="scale"):
        path = tmp_path / "own.py"
        if text is not None:
            path.write_text(text)
        return describe(pool, KernelSource(name, file=str(path)))

    return run


def test_a_kernel_is_described(described):
    answer = described(KERNEL)
    assert answer["kind"] == "kernel"
    assert [p["name"] for p in answer["parameters"]] == ["x", "at", "by", "out", "mode"]
    assert [p["kind"] for p in answer["parameters"]] == ["tensor", "tensor", "scalar", "tensor", "constant"]
    assert answer["parameters"][0]["dimensions"] == ["M", "N"]
    assert (answer["parameters"][4]["optional"], answer["parameters"][4]["default"]) == (True, "plain")


def test_a_file_may_import_its_neighbours_and_print(described, tmp_path):
    (tmp_path / "neighbour.py").write_text(KERNEL)
    assert described("print('x' * 100_000)\nfrom neighbour import scale")["kind"] == "kernel"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such file"),
        ("x = (", r"own.py:1: cannot be executed: SyntaxError"),
        ("\n\n1 / 0", r"own.py:3: cannot be executed: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit('enough')", r"own.py:1: cannot be executed: SystemExit: enough"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("def f(): f()\nf()", "RecursionError"),
        ("import os; os._exit(3)", "the process that executes it ended with status 3"),
        ("import os; os.abort()", "the process that executes it aborted"),
        ("\0", "own.py"),
    ],
)
def test_a_file_that_does_not_run_is_refused(described, text, message):
    with pytest.raises(FileError, match=message):
        described(text)


@pytest.mark.slow
def test_a_file_that_hangs_is_given_up(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("while True: pass")
    with InspectPool(1, seconds=3.0) as pool, pytest.raises(FileError, match="took more than 3 s"):
        describe(pool, KernelSource("scale", file=str(path)))


@pytest.mark.parametrize(
    ("name", "message"),
    [("scal", "there is no scal; did you mean scale"), ("vk", "vk is no kernel"), ("other", "kernels there: scale")],
)
def test_a_kernel_that_is_not_there_is_refused(described, name, message):
    with pytest.raises(OptionError, match=message):
        described(KERNEL, name)


def test_an_authors_mistake_keeps_its_class_and_place(described):
    with pytest.raises(SourceError, match=r"own.py:\d+:\d+: error: .*`x`"):
        described("import vkernels as vk\n@vk.kernel\ndef scale(x):\n    pass")


def test_other_mistakes_are_ours_to_tell(described):
    with pytest.raises(Error):
        described("import vkernels as vk\nraise vk.Error('so')")


def test_a_bug_of_ours_is_a_traceback(monkeypatch):
    monkeypatch.setitem(worker_service.ANSWERS, "describe", lambda request: 1 // 0)
    with pytest.raises(RuntimeError, match=r"own.py: a bug.*\n(.*\n)+ZeroDivisionError"):
        answer_of(worker_service.answer_to({"kind": "describe"}), "own.py")
