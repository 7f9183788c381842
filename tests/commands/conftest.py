"""Commands run in this process."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from vkernels.commands import main
from vkernels.compiler.workers import compile_pool
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect import worker_client
from vkernels.inspect.worker_client import InspectPool

SECONDS = 120.0
"""The time limit of a command's workers, unless it is given one."""


@pytest.fixture
def run_vk(capsys):
    """Runs `vk` with some arguments; gives exit code, output and errors."""

    def run(*arguments):
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        return (exit.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def workers():
    """The workers of commands that share them: those that prepare, and those that compile."""
    with InspectPool(1, SECONDS) as preparing, CompilePool(2, SECONDS) as compiling:
        yield preparing, compiling


@pytest.fixture
def shared_workers(workers, request, monkeypatch):
    """Let commands run in `workers`, as starting their own takes longer than most of what they do.

    Those with a time limit, a compiler or a working directory of their own still start theirs.
    """
    preparing, compiling = workers
    here = request.config.invocation_params.dir  # where they start

    def shares(seconds):
        return seconds == SECONDS and Path.cwd() == here

    def inspect_pool(number=None, seconds=SECONDS):
        return nullcontext(preparing) if shares(seconds) else InspectPool(number, seconds)

    def pool(number=None, seconds=SECONDS, **options):
        if shares(seconds) and not options:
            return nullcontext(compiling)
        return CompilePool(number, seconds, **options)

    monkeypatch.setattr(worker_client, "InspectPool", inspect_pool)
    if compile_pool.CompilePool is CompilePool:  # else a test has put another compiler there
        monkeypatch.setattr(compile_pool, "CompilePool", pool)
