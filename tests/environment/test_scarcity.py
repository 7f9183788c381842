"""Where the system has no more threads, processes, memory or files: errors of the environment, exit code 3."""

from __future__ import annotations

import errno
import threading

import pytest

from vkernels.commands.exits import exit_with_code
from vkernels.compiler import background
from vkernels.compiler.plan_fallback import shortages
from vkernels.ir.errors import OutOfMemoryError, ResourceError
from vkernels.ir.system_resources import ThreadPool, needing, scarcity_of

from .children import NO_THREADS, VK, run

NO_THREAD = RuntimeError("can't start new thread")


def refuse(*args, **kwargs):
    raise NO_THREAD


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), OutOfMemoryError),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), OutOfMemoryError),
        (NO_THREAD, ResourceError),
        (OSError(errno.ENOSPC, "No space left on device"), ResourceError),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), ResourceError),
        (OSError(errno.EMFILE, "Too many open files"), ResourceError),
    ],
    ids=str,
)
def test_what_is_scarce_is_an_error_of_the_environment(capsys, error, kind):
    assert type(scarcity_of(error, "x")) is kind
    with pytest.raises(kind, match="x: "), needing("x"):
        raise error

    def command():
        raise error

    with pytest.raises(SystemExit) as left:
        exit_with_code(command)
    assert left.value.code == 3
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("error", [RuntimeError("odd"), PermissionError(errno.EPERM, "no"), ValueError("x")], ids=str)
def test_what_is_not_goes_through(error):
    with pytest.raises(type(error)), needing("x"):
        raise error


def test_work_beside_calls_is_done_at_once_where_no_thread_can_be_started(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert background.start_in_background(lambda: 7, "x").result(timeout=1) == 7
    with pytest.raises(ZeroDivisionError):
        background.start_in_background(lambda: 1 // 0, "x").result(timeout=1)


def test_pools_of_threads_say_so(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ResourceError, match="no more threads"), ThreadPool(2) as pool:
        pool.submit(int)


def test_a_compiler_without_files_is_the_environments_fault_and_no_plans():
    with pytest.raises(ResourceError, match="compiling"), shortages():
        raise OSError(errno.EMFILE, "Too many open files")


CALL = """
import numpy as np
from vkernels.library.rows import softmax_rows
x = np.ones((4, 8), np.float32)
out = np.full_like(x, np.nan)
softmax_rows(x, out)
assert (out == 0.125).all()
print("right")
"""


@pytest.mark.slow
def test_a_call_is_right_without_threads(tmp_path):
    done = run(NO_THREADS + CALL, environment={"XDG_CACHE_HOME": str(tmp_path)})
    assert (done.code, done.output) == (0, "right\n"), done.errors


MANY = """
import numpy as np, vkernels as vk
from vkernels.runtime import pool
class Code:
    def __getattr__(self, name):
        return getattr(code, name)
code, fake = pool._native_code(), Code()
fake.create = lambda *arguments: 11
pool._native_code = lambda: fake
vk.set_threads(2)
from vkernels.library.rows import softmax_rows
x = np.ones((4096, 1024), np.float32)
softmax_rows(x, np.empty_like(x))
"""


@pytest.mark.slow
def test_a_script_without_native_threads_ends_with_a_setup_error(tmp_path):
    done = run(MANY, environment={"XDG_CACHE_HOME": str(tmp_path)})
    assert done.code == 1, done.errors
    assert "SetupError: cannot start a thread" in done.errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "softmax", "--targets", "h100-sxm5-80"),
        ("tune", "softmax_rows", "--shapes", "M=64,N=64", "--budget", "2", "--db", "none"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_without_threads_exit_with_3(tmp_path, arguments):
    done = run(NO_THREADS + VK, *arguments, environment={"XDG_CACHE_HOME": str(tmp_path)})
    assert done.code == 3, (done.output, done.errors)
    assert "no more threads" in done.errors
    assert "Traceback" not in done.errors


HUNGRY = """
import resource
import numpy as np, vkernels as vk
from vkernels.runtime.memory_blocks import Block
now = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + (64 << 20),) * 2)
Block(1 << 30)
"""


def test_a_script_without_memory_for_a_kernels_buffers_ends_with_that_error():
    done = run(HUNGRY)
    assert done.code == 1, done.errors
    assert "Error: no memory for a kernel's buffers" in done.errors.replace("\n", " ")
