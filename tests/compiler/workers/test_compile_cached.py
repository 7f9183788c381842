"""The cache gives back what was put, to its owner alone, and a miss in every other case: never an error."""

from __future__ import annotations

import errno
import logging
import os
import stat
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.compiler.backends.triton_adapter import GpuOptions
from vkernels.compiler.records import to_bytes
from vkernels.compiler.workers.compile_cached import cache_key, compile_cached, compiler_identity
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.compiler.workers.jobs import CompiledBinary, CompileFailureReason, CompileJob
from vkernels.ir.disk_cache import DiskCache, default_folder

from .fake_compiler import MISBEHAVING, MISSING

KEY, OTHER = (sha256(text).hexdigest() for text in (b"key", b"other"))


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "home" / "cache" / "vkernels"


@pytest.fixture
def cache(folder) -> DiskCache:
    return DiskCache(folder)


def entry(folder: Path, key: str = KEY) -> Path:
    return folder / f"{key}.entry"


def test_what_was_put_comes_back_to_any_process(cache, folder):
    assert cache.get(KEY) is None
    for data in (b"", b"some", bytes(range(256)) * 5000):
        assert cache.put(KEY, data)
        assert DiskCache(folder).get(KEY) == data
    assert cache.get(OTHER) is None


def test_folder_and_entries_are_private_whatever_the_umask(cache, folder):
    before = os.umask(0)
    try:
        cache.put(KEY, b"code")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(folder).stat().st_mode) == 0o600


def test_an_entry_damaged_at_any_byte_is_a_miss(cache, folder):
    cache.put(KEY, b"machine code")
    whole = entry(folder).read_bytes()
    for place in range(len(whole)):
        for changed in (whole[place] ^ 1, whole[place] ^ 0x80, 0, 255):
            if changed != whole[place]:
                entry(folder).write_bytes(whole[:place] + bytes([changed]) + whole[place + 1 :])
                assert cache.get(KEY) is None, (place, changed)
    entry(folder).write_bytes(whole)
    assert cache.get(KEY) == b"machine code"


def test_a_truncated_or_lengthened_entry_is_a_miss(cache, folder):
    cache.put(KEY, b"machine code")
    whole = entry(folder).read_bytes()
    for wrong in [whole[:end] for end in range(len(whole))] + [whole + b"\0", whole + whole]:
        entry(folder).write_bytes(wrong)
        assert cache.get(KEY) is None, len(wrong)


@given(content=st.binary(max_size=200))
def test_a_file_of_anything_is_a_miss(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("anything")
    entry(folder).write_bytes(content)
    assert DiskCache(folder).get(KEY) is None


def test_an_entry_under_anothers_name_is_a_miss(cache, folder):
    cache.put(KEY, b"machine code")
    entry(folder).rename(entry(folder, OTHER))
    assert cache.get(OTHER) is None


def test_a_miss_is_put_right_by_the_next_put(cache, folder):
    cache.put(KEY, b"machine code")
    entry(folder).write_bytes(b"damaged")
    cache.put(KEY, b"machine code")
    assert cache.get(KEY) == b"machine code"


def _linked(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _made(make):
    def in_place_of(path: Path) -> None:
        path.unlink()
        make(path)

    return in_place_of


@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.chmod(0o620), lambda path: path.chmod(0o602), _linked, _made(os.mkfifo), _made(os.mkdir)],
    ids=["group writes", "others write", "link", "pipe", "folder"],
)
def test_entries_that_others_could_have_written_or_are_no_files_are_misses(cache, folder, spoil):
    cache.put(KEY, b"machine code")
    spoil(entry(folder))
    assert cache.get(KEY) is None


@pytest.mark.parametrize(
    "spoil", [lambda path: path.chmod(0o770), lambda path: path.chmod(0o707), _linked],
    ids=["group writes", "others write", "link"],
)  # fmt: skip
def test_folders_that_others_could_have_written_or_links_are_neither_read_nor_written(cache, folder, spoil, caplog):
    cache.put(KEY, b"machine code")
    spoil(folder)
    assert cache.get(KEY) is None
    assert not cache.put(OTHER, b"more")
    assert not entry(folder, OTHER).exists()
    assert len(caplog.records) == 1


def test_folders_of_another_user_are_neither_read_nor_written(cache, folder, monkeypatch, caplog):
    cache.put(KEY, b"machine code")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert cache.get(KEY) is None
    assert not cache.put(OTHER, b"more")
    assert "belongs to another user" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")
def test_entries_of_another_user_are_misses(cache, folder):
    cache.put(KEY, b"machine code")
    os.chown(entry(folder), 12345, -1)
    assert cache.get(KEY) is None


def test_a_key_cannot_name_another_file(cache):
    for key in ("", "../" + KEY, KEY.upper(), KEY + "\n", KEY[:-1]):
        with pytest.raises(ValueError, match="no SHA-256"):
            cache.get(key)
        with pytest.raises(ValueError, match="no SHA-256"):
            cache.put(key, b"")


def test_without_a_place_to_write_it_says_so_once_and_works_without(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "cache")
    for _ in range(3):
        assert not cache.put(KEY, b"data")
        assert cache.get(KEY) is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_user_without_a_home_works_without(monkeypatch, caplog):
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: Path("not/absolute", name))
    cache = DiskCache()
    assert cache.get(KEY) is None
    assert not cache.put(KEY, b"data")
    assert "no home" in caplog.text


def test_the_folder_is_where_the_system_keeps_caches(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_folder() == Path("/somewhere/.cache/vkernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/vkernels")


def run_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


FULL = """
import os, resource, sys
from pathlib import Path
from vkernels.ir.disk_cache import DiskCache
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
cache = DiskCache(Path(sys.argv[1]))
for key in sys.argv[2:]:
    assert not cache.put(key, os.urandom(5000))
    assert cache.get(key) is None
"""


def test_a_write_cut_short_leaves_nothing_and_is_said_once(folder):
    with run_python(FULL, folder, KEY, OTHER) as process:
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    assert said.count("not kept on disk") == 1
    assert os.strerror(errno.EFBIG) in said
    assert list(folder.iterdir()) == []


WRITER = """
import sys
from pathlib import Path
from vkernels.ir.disk_cache import DiskCache
cache, data = DiskCache(Path(sys.argv[1])), sys.argv[3].encode() * 20_000
for _ in range(100):
    assert cache.put(sys.argv[2], data)
    assert cache.get(sys.argv[2])[:1] in b"ab"
"""


def test_an_entry_written_by_two_processes_is_always_one_of_theirs_whole(cache, folder):
    cache.put(KEY, b"a" * 20_000)
    writers = [run_python(WRITER, folder, KEY, letter) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(cache.get(KEY))
    for writer in writers:
        assert writer.communicate(timeout=60)[0] == ""
        assert writer.returncode == 0
    assert seen <= {b"a" * 20_000, b"b" * 20_000}
    assert [path.name for path in folder.iterdir()] == [entry(folder).name]


def keys(count: int) -> list[str]:
    return [sha256(bytes([number])).hexdigest() for number in range(count)]


def test_the_entries_least_recently_used_go_first(folder):
    cache = DiskCache(folder, limit_bytes=8500)
    oldest, used, *others = keys(8)
    for age, key in enumerate((oldest, used, *others)):
        assert cache.put(key, os.urandom(1000))
        os.utime(entry(folder, key), (age, age))
    assert cache.get(used) is not None
    last = sha256(b"last").hexdigest()
    assert cache.put(last, os.urandom(1000))
    held = sum(path.stat().st_size for path in folder.iterdir())
    assert held <= 8500
    assert cache.get(oldest) is None
    assert cache.get(used) is not None
    assert cache.get(last) is not None


def test_a_cache_counts_what_is_there_already(folder):
    for key in keys(8):
        DiskCache(folder).put(key, os.urandom(1000))
    cache = DiskCache(folder, limit_bytes=4000)
    cache.put(KEY, os.urandom(1000))
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 4000
    assert cache.get(KEY) is not None


def test_an_entry_larger_than_the_cache_is_not_kept(folder):
    cache = DiskCache(folder, limit_bytes=1000)
    assert not cache.put(KEY, os.urandom(1000))
    assert cache.get(KEY) is None


def test_only_abandoned_files_of_its_own_are_removed(cache, folder):
    folder.mkdir(parents=True, mode=0o700)
    abandoned, begun = (folder / f"{key}.entry.{'0' * 16}" for key in (KEY, OTHER))
    foreign = folder / "thesis.txt"
    for path, age in ((abandoned, 7200), (begun, 60), (foreign, 10**8)):
        path.write_text("x" * 10)
        os.utime(path, (time.time() - age,) * 2)
    cache.put(KEY, b"data")
    assert (abandoned.exists(), begun.exists(), foreign.exists()) == (False, True, True)


# Compiling through the cache


def job(text: str, architecture: str = "sm_90", warps: int = 4) -> CompileJob:
    return CompileJob(text, architecture, GpuOptions(warps, 3))


def outcomes(jobs, cache, compiler=MISBEHAVING, **limits):
    with CompilePool(2, compiler=compiler, **limits) as pool:
        finished = sorted(compile_cached(jobs, pool, cache), key=lambda one: one.index)
    assert [one.index for one in finished] == list(range(len(jobs)))
    return finished


def test_a_job_that_comes_again_once_its_outcome_is_known_is_not_compiled_again(tmp_path):
    log, taken = tmp_path / "log", []

    def jobs():
        yield job(f"log {log}")
        while not taken:
            time.sleep(0.01)
            yield job("compile meanwhile")
        yield job(f"log {log}")

    with CompilePool(1, compiler=MISBEHAVING) as pool:
        for one in compile_cached(jobs(), pool):
            taken.append(one)
    assert log.read_text() == "compiled\n"
    first, last = min(taken, key=lambda one: one.index), max(taken, key=lambda one: one.index)
    assert last.outcome == first.outcome


@pytest.mark.parametrize("cached", [True, False])
def test_identical_jobs_are_compiled_once(cache, tmp_path, cached):
    log = tmp_path / "log"
    jobs = [job(f"log {log}"), job("compile a"), job(f"log {log}"), job(f"log {log}", warps=8), job(f"log {log}")]
    found = outcomes(jobs, cache if cached else None)
    assert all(isinstance(one.outcome, CompiledBinary) for one in found)
    assert [one.outcome.binary.warps for one in found] == [4, 4, 4, 8, 4]
    assert log.read_text() == "compiled\n" * 2


def test_what_is_cached_needs_no_compiler(cache):
    jobs = [job("compile a"), job("compile b"), job("compile a", "sm_80"), job("raise RuntimeError")]
    first, second = outcomes(jobs, cache), outcomes(jobs, cache, compiler=MISSING)
    assert [one.outcome for one in first] == [one.outcome for one in second]
    assert [one.cached for one in first + second] == [False] * 4 + [True] * 4


@pytest.mark.slow
def test_what_may_not_come_again_is_not_kept(cache, folder):
    jobs = [job(text) for text in ("hang", "abort", "raise OSError", "raise MemoryError")]
    found = outcomes(jobs, cache, seconds=1)
    reasons = [
        CompileFailureReason.TIME_OUT,
        CompileFailureReason.CRASH,
        CompileFailureReason.ERROR,
        CompileFailureReason.OUT_OF_MEMORY,
    ]
    assert [one.outcome.reason for one in found] == reasons
    assert not folder.exists()


def test_an_entry_of_something_else_is_compiled_anew(cache):
    key = cache_key(job("compile a"), compiler_identity())
    for content in (b"no record", to_bytes(GpuOptions(1, 1))):
        cache.put(key, content)
        (one,) = outcomes([job("compile a")], cache)
        assert (one.outcome.binary.assembly, one.cached) == ("a", False)


def test_outcomes_are_given_while_jobs_are_still_being_made():
    taken = []

    def jobs():
        yield job("compile a")
        while not taken:  # for ever, if all jobs were taken first
            time.sleep(0.01)
            yield job("compile b")

    with CompilePool(1, compiler=MISBEHAVING) as pool:
        for one in compile_cached(jobs(), pool):
            taken.append(one.outcome.binary.assembly)
    assert set(taken) == {"a", "b"}


def test_leaving_early_cancels_what_has_not_begun(tmp_path):
    log = tmp_path / "log"
    jobs = [job("compile a"), job("sleep 0.3")] + [job(f"log {log}", warps=1 << number) for number in range(5)]
    with CompilePool(1, compiler=MISBEHAVING) as pool:
        finished = compile_cached(jobs, pool)
        next(finished)
        finished.close()
        pool.submit(job("compile last")).result(60)
    assert not log.exists()


def test_a_key_tells_apart_all_that_decides_what_comes_of_a_job():
    jobs = [
        (job("a"), "3.9"), (job("b"), "3.9"), (job("a", "sm_80"), "3.9"), (job("a", warps=8), "3.9"),
        (CompileJob("a", "sm_90", GpuOptions(4, 2)), "3.9"), (CompileJob("a", "sm_90", GpuOptions(4, 3, 64)), "3.9"),
        (job("a"), "3.6"),
    ]  # fmt: skip
    assert len({cache_key(*each) for each in jobs}) == len(jobs)
    assert cache_key(*jobs[0]) == cache_key(job("a"), "3.9")
