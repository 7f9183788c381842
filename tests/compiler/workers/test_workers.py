"""Compile workers: whatever a compiler does is its own job's result, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, wait
from dataclasses import replace
from pathlib import Path

import pytest

from vkernels.compiler.backends.triton_adapter import GpuOptions, compile_ttir
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompiledBinary, CompileFailure, CompileFailureReason, CompileJob
from vkernels.ir.errors import OptionError, SetupError

from .fake_compiler import ABSENT, MISBEHAVING, MISSING, binary

PATIENCE = 60
"""Seconds after which a test gives up: what it waits for comes in far less, or never."""


def job(text: str) -> CompileJob:
    return CompileJob(text, "sm_90", GpuOptions(4, 3))


def told(outcome) -> str:
    assert isinstance(outcome, CompiledBinary), outcome
    return outcome.binary.assembly


def worker_of(outcome) -> str:
    assert isinstance(outcome, CompiledBinary), outcome
    return outcome.binary.ttgir


def runs(process: int) -> bool:
    """Whether a process lives; those that nobody has waited for yet do not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def await_that(condition) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def processes_in(file: Path) -> list[int]:
    await_that(file.exists)
    return [int(number) for number in file.read_text().split()]


@pytest.fixture(scope="module")
def pool():
    with CompilePool(1, seconds=30, memory_bytes=256 << 20, compiler=MISBEHAVING) as pool:
        yield pool


def outcome_in(pool, text):
    return pool.submit(job(text)).result(PATIENCE)


def test_every_field_of_a_binary_comes_back(pool):
    text = "any \N{SNOWMAN}\0 text" + "\n" * 200_000
    outcome = outcome_in(pool, f"compile {text}")
    assert outcome.binary == replace(binary("sm_90", GpuOptions(4, 3), text), ttgir=worker_of(outcome))
    assert outcome.seconds > 0


def test_a_worker_stays_for_the_next_job(pool):
    assert worker_of(outcome_in(pool, "compile")) == worker_of(outcome_in(pool, "compile"))


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("abort", CompileFailureReason.CRASH, "aborted (SIGABRT)"),
        (
            "abort LLVM ERROR: Cannot select: t1\n",
            CompileFailureReason.CRASH,
            "aborted (SIGABRT): LLVM ERROR: Cannot select: t1",
        ),
        ("abort LLVM ERROR: out of memory\n", CompileFailureReason.OUT_OF_MEMORY, "out of memory"),
        ("segfault", CompileFailureReason.CRASH, "crashed (SIGSEGV)"),
        ("kill", CompileFailureReason.CRASH, "killed from outside (SIGKILL)"),
        ("exit 0", CompileFailureReason.CRASH, "with status 0"),
        ("leave", CompileFailureReason.CRASH, "with status 3"),
        ("eat", CompileFailureReason.OUT_OF_MEMORY, "more than 256 MiB"),
        ("eat-in-child", CompileFailureReason.OUT_OF_MEMORY, "more than 256 MiB"),
        ("answer-nonsense", CompileFailureReason.CRASH, "nonsense"),
        ("close-everything", CompileFailureReason.CRASH, "closed its connection"),
        ("raise MemoryError", CompileFailureReason.OUT_OF_MEMORY, "out of memory"),
        ("raise RuntimeError", CompileFailureReason.ERROR, "so"),
        ("refuse `ptxas` failed with error code -9", CompileFailureReason.CRASH, "code -9"),
        ("refuse `ptxas` failed with error code 1", CompileFailureReason.ERROR, "code 1"),
        ("raise KeyError", CompileFailureReason.ERROR, "KeyError: 'so'"),
    ],
)
def test_whatever_a_compiler_does_is_its_jobs_result_and_the_next_job_has_a_worker(pool, text, reason, message):
    bad, good = pool.submit(job(text)), pool.submit(job("compile next"))
    outcome = bad.result(PATIENCE)
    assert isinstance(outcome, CompileFailure), outcome
    assert (outcome.reason, message in outcome.message) == (reason, True), outcome
    assert outcome.seconds > 0
    assert told(good.result(PATIENCE)) == "next"


@pytest.mark.parametrize(("name", "lasting"), [("RuntimeError", True), ("OSError", False), ("MemoryError", False)])
def test_only_what_the_compiler_would_say_again_is_lasting(pool, name, lasting):
    assert outcome_in(pool, f"raise {name}").lasting is lasting


@pytest.mark.slow
def test_a_jobs_failure_disturbs_no_other_job():
    with CompilePool(2, seconds=1.5, compiler=MISBEHAVING) as pool:
        bad = [pool.submit(job(text)) for text in ("hang", "abort")]
        good = [pool.submit(job(f"compile {number}")) for number in range(20)]
        assert [told(future.result(PATIENCE)) for future in good] == [str(number) for number in range(20)]
        hung, aborted = (future.result(PATIENCE) for future in bad)
    assert (hung.reason, hung.message) == (CompileFailureReason.TIME_OUT, "the compiler took more than 1.5 s")
    assert aborted.reason == CompileFailureReason.CRASH


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [("spawn-and-hang", CompileFailureReason.TIME_OUT), ("spawn-and-abort", CompileFailureReason.CRASH)],
)
def test_a_compilers_children_are_killed_with_it(tmp_path, text, reason):
    with CompilePool(1, seconds=2, compiler=MISBEHAVING) as pool:
        assert outcome_in(pool, f"{text} {tmp_path / 'numbers'}").reason == reason
        numbers = processes_in(tmp_path / "numbers")
        assert len(numbers) == 2
        await_that(lambda: not any(map(runs, numbers)))


def test_beginning_and_end_of_what_a_compiler_prints_are_kept(pool):
    outcome = outcome_in(pool, "flood")
    assert outcome.message == "flooded"
    assert outcome.stderr.startswith("begun\ny")
    assert outcome.stderr.endswith("y\nended\n")
    assert "bytes left out" in outcome.stderr
    assert len(outcome.stderr) < 10_000


def test_what_one_job_printed_is_not_the_nexts(pool):
    outcome_in(pool, "flood")
    assert outcome_in(pool, "raise RuntimeError").stderr == ""


def test_a_worker_that_holds_much_memory_is_replaced():
    with CompilePool(1, memory_bytes=256 << 20, compiler=MISBEHAVING) as pool:
        before = worker_of(outcome_in(pool, "hold"))
        assert worker_of(outcome_in(pool, "hold")) != before


def test_settings_in_the_environment_do_not_reach_compilers(monkeypatch):
    for name in ("TRITON_OVERRIDE_ARCH", "DISABLE_LLVM_OPT", "TRITON_PTXAS_PATH", "HARMLESS"):
        monkeypatch.setenv(name, "set")
    with CompilePool(1, compiler=MISBEHAVING) as pool:
        seen = [told(outcome_in(pool, f"look-up {name}")) for name in ("TRITON_OVERRIDE_ARCH", "DISABLE_LLVM_OPT")]
        kept = [told(outcome_in(pool, f"look-up {name}")) for name in ("TRITON_PTXAS_PATH", "HARMLESS")]
    assert (seen, kept) == (["not there"] * 2, ["set"] * 2)


def test_modules_in_the_current_folder_do_not_reach_workers(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    with CompilePool(1, compiler=MISBEHAVING) as pool:
        assert told(outcome_in(pool, "compile here")) == "here"


def test_temporary_files_of_compilers_go_with_the_pool():
    with CompilePool(1, compiler=MISBEHAVING) as pool:
        left = Path(told(outcome_in(pool, "leave-file")))
        assert left.exists()
    assert not left.parent.parent.exists()


def test_temporary_files_of_a_compiler_that_aborts_go_with_it(pool):
    left = Path(told(outcome_in(pool, "leave-file")))
    assert left.exists()
    outcome_in(pool, "abort")
    assert not left.exists()


@pytest.mark.parametrize(("compiler", "message"), [(MISSING, "no compiler is installed"), (ABSENT, "gone before")])
def test_a_compiler_that_cannot_start_is_the_setups_fault_and_is_tried_once(tmp_path, monkeypatch, compiler, message):
    monkeypatch.setenv("LOG_OF_STARTS", str(tmp_path / "log"))
    with CompilePool(1, compiler=compiler) as pool:
        for future in [pool.submit(job("compile")) for _ in range(3)]:
            with pytest.raises(SetupError, match=message):
                future.result(PATIENCE)
    assert (tmp_path / "log").read_text() == "started\n"


@pytest.mark.parametrize("nonsense", [{"workers": 0}, {"seconds": 0}, {"seconds": float("nan")}, {"memory_bytes": 0}])
def test_a_pool_without_workers_time_or_memory_is_refused(nonsense):
    with pytest.raises(OptionError, match="above 0"):
        CompilePool(**nonsense)


def test_a_cancelled_job_is_not_compiled(tmp_path):
    log = tmp_path / "log"
    with CompilePool(1, compiler=MISBEHAVING) as pool:
        first = pool.submit(job("sleep 0.2"))
        cancelled = pool.submit(job(f"log {log}"))
        assert cancelled.cancel()
        last = pool.submit(job("compile"))
        wait([first, last], PATIENCE)
    assert not log.exists()


def test_closing_ends_workers_children_and_jobs(tmp_path):
    with CompilePool(2, compiler=MISBEHAVING) as pool:
        running = pool.submit(job(f"spawn-and-hang {tmp_path / 'numbers'}"))
        others = [pool.submit(job("hang")) for _ in range(5)]
        numbers = processes_in(tmp_path / "numbers")
    for future in (running, *others):
        with pytest.raises(CancelledError):
            future.result(0)
    await_that(lambda: not any(map(runs, numbers)))
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(job("compile"))


def test_a_pool_closes_after_an_interrupt_while_a_thread_starts(monkeypatch):
    start, before = threading.Thread.start, threading.enumerate()

    def interrupted_start(thread):
        start(thread)
        raise KeyboardInterrupt

    with CompilePool(2, compiler=MISBEHAVING) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted_start)
            with pytest.raises(KeyboardInterrupt):
                pool.submit(job("compile"))
        outcomes = [pool.submit(job("compile")) for _ in range(2)]
        assert all(isinstance(outcome.result(PATIENCE), CompiledBinary) for outcome in outcomes)
        keepers = [thread for thread in threading.enumerate() if thread not in before]
        closing = threading.Thread(target=pool.close, daemon=True)
        closing.start()
        closing.join(PATIENCE)
        assert not closing.is_alive()
    assert not any(thread.is_alive() for thread in keepers)


PARENT = f"""
import sys
import threading
from tests.compiler.workers.test_workers import CompilePool, MISBEHAVING, job
with CompilePool(2, compiler=MISBEHAVING) as pool:
    for file in sys.argv[1:]:
        future = pool.submit(job("spawn-and-hang " + file))
    print("waiting", flush=True)
    future.result({PATIENCE})
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_parent(tmp_path, how):
    files = [tmp_path / "one", tmp_path / "two"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", PARENT, *map(str, files)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"waiting\n"  # an interrupt while a job is handed over is another test's
        numbers = [number for file in files for number in processes_in(file)]
        assert len(numbers) == 4
        assert all(map(runs, numbers))
        parent.send_signal(how)
        assert parent.wait(PATIENCE) == -how
    await_that(lambda: not any(map(runs, numbers)))


def test_a_worker_compiles_as_this_process_does():
    text = "module { tt.func public @nothing() { tt.return } }"
    with CompilePool(1) as pool:
        outcome = outcome_in(pool, text)
        refused = outcome_in(pool, "no module")
    assert outcome.binary == compile_ttir(text, "sm_90", GpuOptions(4, 3))
    assert (refused.reason, refused.lasting) == (CompileFailureReason.ERROR, True)
    assert "Triton refuses a kernel for sm_90" in refused.message
