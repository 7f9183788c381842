"""Calls of low priority give way to those of other processes, and every place on their board ends with its process."""

import os
import random
import signal
import threading
import time
from multiprocessing import Pipe

import pytest

from tests.library.reference import fresh_seed
from tests.runtime.coordinator.test_pools_of_priorities import Pools, gives_way, is_true_within, of_python
from tests.runtime.programs import Programs, Slots
from vkernels.ir.errors import SetupError
from vkernels.runtime.coordinator import shared_board
from vkernels.runtime.coordinator.shared_board import SharedBoard, board_path
from vkernels.runtime.pool import is_native
from vkernels.runtime.pool_board_ir import BELLS, DEAD, HIGH, LOW, NORMAL, RINGS
from vkernels.runtime.pool_shared_ir import CORE_SET, PROCESSES
from vkernels.runtime.work_descriptor import NativeLaunch, WorkDescriptor

pytestmark = pytest.mark.skipif(not is_native(), reason="no native pool here")


@pytest.fixture(scope="module")
def programs():
    return Programs()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A board that no other process of this user is on."""
    monkeypatch.setattr(shared_board, "FOLDERS", (str(tmp_path),))
    return tmp_path


class Joined(Pools):
    """Pools whose board is on the board of all processes."""

    def __init__(self, cores=1, threads=2):
        super().__init__(cores, threads)
        assert self.board.join_others()
        self.pool.stop()  # helpers and bells begin again, now that there are other processes
        self.pool = type(self.pool)()
        self.pool.separate(self.board.address)
        for priority in (LOW, HIGH):
            self.pool.reserve_for(priority, threads)

    def end(self):
        self.pool.stop()
        self.board.shared.close()


class Peer:
    """A forked process that runs `work(pipe)`, and ends with status 0 if that does."""

    def __init__(self, work):
        self.pipe, theirs = Pipe()
        self.process = os.fork()
        if self.process == 0:
            status = 1
            try:
                work(theirs)
                status = 0
            finally:
                os._exit(status)
        theirs.close()

    def receive(self, seconds=60):
        assert self.pipe.poll(seconds)
        return self.pipe.recv()

    def kill(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def end(self):
        _, status = os.waitpid(self.process, 0)
        assert status == 0


def high_call(pipe):
    """Tell when a call of high priority runs; end it when told, then say so."""
    pools = Joined()

    def work(_):
        pipe.send("running")
        pipe.poll(60)

    call, _kept = of_python(work, 1, 1)
    pools.run(call, HIGH)
    pipe.send("done")


class Slow:
    """A call whose programs take 2 ms each, in a thread."""

    def __init__(self, pools, priority, count):
        self.pools, self.priority, self.done = pools, priority, []

        def slow(p):
            time.sleep(0.002)
            self.done.append(p)

        self.call, self.kept = of_python(slow, count, 1)
        self.thread = threading.Thread(target=pools.run, args=(self.call, priority))

    @property
    def gives_way(self):
        return gives_way(self.pools, self.priority, self.done)


@pytest.mark.parametrize(("priority", "known"), [(LOW, None), (NORMAL, None), (NORMAL, 1e-6)])
def test_work_gives_way_to_calls_of_high_priority_of_another_process(priority, known):
    """Also calls that take less than a turn, though no thread of their process has a priority."""
    peer, pools = Peer(high_call), Joined()
    assert peer.receive() == "running"
    slow = Slow(pools, priority, 60)
    if known is not None:
        slow.call.set_seconds(known)
    slow.thread.start()
    assert slow.gives_way
    peer.pipe.send("end")
    assert peer.receive() == "done"
    slow.thread.join(60)
    assert sorted(slow.done) == list(range(60))
    assert pools.board.stats(priority).pauses >= 1
    rings = BELLS + 8 * priority + RINGS
    assert is_true_within(30, lambda: pools.board._words[rings] >= 1)  # woken by the other process, not by time
    peer.end()
    pools.end()


def test_processes_without_a_common_core_do_not_wait_for_each_other():
    peer, pools = Peer(high_call), Joined()
    assert peer.receive() == "running"
    own = pools.board.shared._start(pools.board.shared._own) + CORE_SET
    for word in range(16):
        pools.board.shared._words[own + word] = 0
    slow = Slow(pools, LOW, 10)
    slow.thread.start()
    slow.thread.join(60)
    assert pools.board.stats(LOW).pauses == 0
    peer.kill()
    pools.end()


def test_a_killed_process_gives_back_the_cores_of_its_calls():
    """Work that pauses for it goes on after its present pause, and does not pause again."""
    peer, pools = Peer(high_call), Joined()
    assert peer.receive() == "running"
    slow = Slow(pools, LOW, 60)
    slow.thread.start()
    assert slow.gives_way
    peer.kill()
    before = pools.board.stats(LOW).pauses
    slow.thread.join(60)
    assert sorted(slow.done) == list(range(60))
    assert 1 <= pools.board.stats(LOW).pauses <= before + 2
    assert [neighbour.process for neighbour in pools.board.shared.neighbours()] == [os.getpid()]
    pools.end()


def low_forever(pipe):
    pools = Joined()
    call, _kept = of_python(lambda p: pipe.send("begun") if p == 0 else None, 1 << 20, 1)
    pools.run(call, LOW)


def test_a_process_killed_in_a_pause_holds_nobody_up():
    pools, found = Joined(), []

    def during(_):
        peer = Peer(low_forever)
        shared = pools.board.shared
        while not any(neighbour.paused[LOW] for neighbour in shared.neighbours()):
            time.sleep(0.001)
        peer.kill()
        found.append(shared.neighbours())

    call, _kept = of_python(during, 1, 1)
    pools.run(call, HIGH)
    assert [neighbour.process for neighbour in found[0]] == [os.getpid()]
    assert any(pools.board._words[DEAD : DEAD + PROCESSES])  # so that later calls do not even look
    pools.end()


def test_a_place_is_taken_again_under_another_number():
    numbers, pools = [], Joined()
    for _ in range(3):
        peer = Peer(lambda pipe: (kept := Joined(), pipe.send(kept.board.shared._own), pipe.poll(60)))
        place = peer.receive()
        start = pools.board.shared._start(place)
        numbers.append((place, pools.board.shared._words[start + 8] >> 48))
        assert len(pools.board.shared.neighbours()) == 2
        peer.kill()
    assert numbers == [(1, 1), (1, 2), (1, 3)]
    pools.end()


def test_processes_that_begin_at_once_share_one_board():
    def join(pipe):
        board = SharedBoard(board_path())
        board.join()
        pipe.send(board._own)
        pipe.poll(60)

    peers = [Peer(join) for _ in range(8)]
    assert sorted(peer.receive() for peer in peers) == list(range(8))
    for peer in peers:
        peer.kill()


def test_a_full_board_is_said(caplog):
    """Priorities then hold within the process."""

    def take_all(pipe):
        import fcntl

        board = SharedBoard(board_path())
        fcntl.lockf(board.file, fcntl.LOCK_EX, PROCESSES, 0)
        pipe.send("full")
        pipe.poll(60)

    peer = Peer(take_all)
    assert peer.receive() == "full"
    pools = Pools()
    assert not pools.board.join_others()
    assert "no room" in caplog.text
    peer.kill()
    pools.pool.stop()


def damage_header(path):
    path.write_bytes(b"\1" * path.stat().st_size)


def truncate(path):
    os.truncate(path, 100)


def open_to_others(path):
    path.chmod(0o666)


@pytest.mark.parametrize("damage", [damage_header, truncate, open_to_others])
def test_a_damaged_board_is_replaced(folder, damage):
    SharedBoard(board_path()).close()
    (path,) = folder.iterdir()
    before = path.stat().st_ino
    os.link(path, folder / "kept")  # so that its number is not used again
    damage(path)
    board = SharedBoard(board_path())
    board.join()
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o777 == 0o600
    assert {entry.name for entry in folder.iterdir()} == {"kept", path.name}
    board.close()


def test_what_is_not_a_board_of_this_user_is_refused(folder):
    SharedBoard(board_path()).close()
    path = board_path()
    os.rename(path, folder / "elsewhere")
    os.symlink(folder / "elsewhere", path)
    with pytest.raises(SetupError, match="opened"):
        SharedBoard(path)
    os.unlink(path)
    os.mkfifo(path)
    with pytest.raises(SetupError, match="not a file"):
        SharedBoard(path)
    os.unlink(path)
    if os.geteuid() == 0:
        os.rename(folder / "elsewhere", path)
        os.chown(path, 65534, -1)
        with pytest.raises(SetupError, match="user 65534"):
            SharedBoard(path)


def test_words_out_of_range_only_cost_turns():
    """Another process of this user wrote nonsense: work still ends."""
    peer, pools = Peer(high_call), Joined()
    assert peer.receive() == "running"
    shared = pools.board.shared
    for word in range(1, 512):
        shared._words[word] = -1
    for place in range(PROCESSES):
        if place != shared._own:
            for word in range(64):
                shared._words[shared._start(place) + word] = random.getrandbits(63)
    slow = Slow(pools, LOW, 4)
    slow.thread.start()
    slow.thread.join(60)
    assert len(slow.done) == 4
    high, _kept = of_python(lambda p: None, 1, 1)
    pools.run(high, HIGH)
    peer.kill()
    pools.end()


@pytest.mark.parametrize("changes", [1500, pytest.param(1_000_000, marks=pytest.mark.thorough)])
def test_no_wake_up_is_lost_between_processes(programs, changes):
    """Three processes, two threads each, call with random priorities; one is killed and begins again now and then."""
    seed = fresh_seed()

    def caller(pools, name, number, failures):
        chance = random.Random(f"{seed} {name}")
        sizes = [1, 5, 60, 2000]
        slots = [Slots(size) for size in sizes]
        calls = [
            WorkDescriptor([NativeLaunch(programs.add_one, size)] * 2, kept.address, 2, 0, None)
            for size, kept in zip(sizes, slots, strict=True)
        ]
        counts = [0] * len(calls)
        for _ in range(number):
            at = chance.randrange(len(calls))
            calls[at].set_seconds(chance.choice([1e-7, 1e-5, 1e-3, float("inf")]))
            pools.run(calls[at], chance.choice([LOW, NORMAL, HIGH]))
            counts[at] += 2
            if not (slots[at].counts == counts[at]).all():
                failures.append((name, at))

    def work(name, number):
        pools, failures = Joined(cores=2, threads=2), []
        threads = [
            threading.Thread(target=caller, args=(pools, f"{name} {t}", number, failures), daemon=True) for t in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120 + changes / 500)
            assert not thread.is_alive()
        assert failures == []

    steady = [Peer(lambda pipe, name=name: (work(name, changes // 6), pipe.send("done"))) for name in "ab"]
    turn, waiting = 0, list(steady)
    while waiting:
        turn += 1
        victim = Peer(lambda pipe, turn=turn: work(f"victim {turn}", changes))
        time.sleep(0.3)
        victim.kill()
        waiting = [peer for peer in waiting if not peer.pipe.poll(0)]
        assert turn < 100 + changes / 100
    for peer in steady:
        peer.end()
