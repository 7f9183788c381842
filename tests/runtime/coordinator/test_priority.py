"""`vk.priority`: of this thread's calls, for as long as it says, with the same results."""

import asyncio
import os
import subprocess
import sys
import tempfile
import textwrap
import threading

import pytest
import torch

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels import library
from vkernels.runtime.coordinator import shared_board
from vkernels.runtime.pool import is_native

LEVELS = ["low", "normal", "high"]
(OWN,) = shared_board.FOLDERS
"""The folder of the board of all tests, which no other process of this user is on."""


def test_it_holds_within_the_with_and_for_this_thread_alone():
    assert vk.get_priority() == "normal"
    with vk.priority("low"):
        assert vk.get_priority() == "low"
        found = []
        thread = threading.Thread(target=lambda: found.append(vk.get_priority()))
        thread.start()
        thread.join()
        assert found == ["normal"]
        with vk.priority("high"):
            assert vk.get_priority() == "high"
            with vk.priority("normal"):
                assert vk.get_priority() == "normal"
        assert vk.get_priority() == "low"
    assert vk.get_priority() == "normal"


def test_it_ends_with_an_exception():
    with pytest.raises(KeyError), vk.priority("high"):
        raise KeyError
    assert vk.get_priority() == "normal"


def test_a_decorated_function_can_call_itself_from_several_threads():
    @vk.priority("low")
    def depth(left):
        assert vk.get_priority() == "low"
        return 0 if left == 0 else 1 + depth(left - 1)

    found = []
    threads = [threading.Thread(target=lambda: found.append(depth(5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [5] * 4
    assert vk.get_priority() == "normal"


@pytest.mark.parametrize("level", ["hihg", "", None, 3, ["low"]])
def test_another_level_is_refused(level):
    with pytest.raises(vk.OptionError, match="expected high, normal or low"):
        vk.priority(level)


def test_coroutines_and_generators_are_refused():
    async def coroutine():
        await asyncio.sleep(0)

    def generator():
        yield

    for function in (coroutine, generator):
        with pytest.raises(vk.OptionError, match="runs later"):
            vk.priority("low")(function)


@pytest.mark.parametrize("level", LEVELS)
def test_results_have_the_same_bits(level):
    torch.manual_seed(fresh_seed())
    x, w = torch.randn(257, 513), torch.randn(513, 129)
    expected = [library.softmax(x), library.matmul(x, w), library.sum(x, 0)]
    for _ in range(30):  # past the calls that are tried on one thread
        with vk.priority(level):
            found = [library.softmax(x), library.matmul(x, w), library.sum(x, 0)]
        for mine, own in zip(found, expected, strict=True):
            assert torch.equal(mine, own)


@pytest.mark.skipif(not is_native(), reason="no native pool here")
def test_stats_count_calls_by_priority():
    x, out = torch.randn(64, 64), torch.empty(64, 64)
    library.softmax(x, out=out)
    with vk.priority("high"):
        before = vk.stats().priorities
        for _ in range(3):
            library.softmax(x, out=out)
        with vk.priority("low"):
            library.softmax(x, out=out)
        after = vk.stats().priorities
    assert list(after) == ["high", "normal", "low"]
    assert after["high"].calls - before["high"].calls == 3
    assert after["high"].seconds > before["high"].seconds
    assert after["low"].calls - before["low"].calls == 1


def test_stats_name_no_priorities_before_one_is_used():
    code = "import vkernels as vk; assert not vk.stats().priorities; print('well')"
    found = run(code)
    assert found.stdout == "well\n", found.stderr


@pytest.mark.parametrize("level", LEVELS)
def test_errors_of_kernels_come_out(level):
    with vk.priority(level), pytest.raises(vk.Error):
        library.matmul(torch.ones(3, 4), torch.ones(5, 6))
    assert vk.get_priority() == "normal"


def run(code, folder=None, seconds=120):
    """A new process that runs it and ends. Its board is in this folder, by default in that of the tests."""
    board = f"from vkernels.runtime.coordinator import shared_board; shared_board.FOLDERS = ({(folder or OWN)!r},)\n"
    return subprocess.run(
        [sys.executable, "-c", board + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


COMMON = """
import os, threading
import numpy as np
import vkernels as vk
from vkernels.library.rows import softmax_rows
x = np.random.default_rng().random((600, 700), np.float32)
expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
def check():
    for _ in range(3):
        out = np.full_like(x, np.nan)
        softmax_rows(x, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_the_priority_of_the_thread_that_forked():
    found = run(
        COMMON
        + """
for level in ("low", "high"):
    with vk.priority(level):
        check()
        child = os.fork()
        assert vk.get_priority() == level
        check()
        if child == 0:
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert status == 0, status
    check()
print("well")
"""
    )
    assert found.stdout == "well\n", found.stderr


@pytest.mark.slow
def test_a_process_ends_while_low_work_runs():
    found = run(
        COMMON
        + """
def forever():
    with vk.priority("low"):
        while True:
            check()
threading.Thread(target=forever, daemon=True).start()
with vk.priority("high"):
    check()
print("well")
"""
    )
    assert (found.stdout, found.returncode) == ("well\n", 0), found.stderr


@pytest.fixture
def open_folder():
    """A folder that every user may write."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield folder


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="another user needs root")
def test_it_needs_no_privileges(open_folder):
    """As a user who may not leave the idle class, nor raise a thread's priority."""
    found = run(
        f"os_home = {open_folder!r}\nimport os\nos.environ['XDG_CACHE_HOME'] = os_home\n"
        + COMMON
        + """
check()
before = os.sched_getscheduler(0)
os.setuid(65534)
for level in ("low", "high", "low", "normal"):
    with vk.priority(level):
        check()
assert os.sched_getscheduler(0) == before
print("well")
""",
        open_folder,
    )
    assert found.stdout == "well\n", found.stderr


@pytest.mark.skipif(not is_native(), reason="no native pool here")
def test_threads_set_later_hold_for_every_priority():
    x = torch.randn(1200, 1300)
    with vk.priority("low"):
        library.softmax(x)
    before = vk.get_threads()
    try:
        for threads in (1, 3, 2):
            vk.set_threads(threads)
            for level in LEVELS:
                with vk.priority(level):
                    for _ in range(3):
                        assert torch.allclose(library.softmax(x), x.softmax(-1), atol=1e-6)
    finally:
        vk.set_threads(before)
