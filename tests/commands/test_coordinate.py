"""`vk coordinate status` shows the living processes that take part, and what their calls did."""

import json
import os
import sys
import time
import types

import pytest

from vkernels.runtime.coordinator import shared_board
from vkernels.runtime.coordinator.cohost import CompanyStats
from vkernels.runtime.coordinator.shown_company import show_companies, show_fills
from vkernels.runtime.coordinator.shown_contract import ShownContract
from vkernels.runtime.coordinator.status import process_statuses, since
from vkernels.runtime.pool import is_native
from vkernels.runtime.pool_board_ir import LOW
from vkernels.runtime.pool_shared_ir import AT_WORK, CONTRACTS, COUNTERS_OF_PROCESS, PAUSED_THREADS

priority = sys.modules["vkernels.runtime.coordinator.priority"]
pytestmark = pytest.mark.skipif(not is_native(), reason="no native pool here")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_board, "FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(priority, "_board", None)
    return tmp_path


COMPANIES = [
    CompanyStats((f"softmax M={number}", "matmul"), "last cache", 1.25, 0.1, number > 2, gain, 4, 2)
    for number, gain in enumerate([1.0, 1.0, None, 0.75, 1.5])
]


@pytest.fixture
def peer():
    """A process with one thread at work on a call of low priority, which paused, after two such calls of 3 s in all.

    It has a contract.
    """
    reading, writing = os.pipe()
    ended, ending = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(ending)
        board = shared_board.joined_board()
        start = board._start(board._own)
        board._words[start + AT_WORK] += 1 << 32
        board._words[start + PAUSED_THREADS] += 1
        counters = start + COUNTERS_OF_PROCESS + 8 * LOW
        board._words[counters : counters + 5] = [2, 3_000_000_000, 1, 7, 500_000_000]
        priority._board = types.SimpleNamespace(shared=board)
        contract = ShownContract("softmax_rows M=64", 3e-4, "high", ["low matmul", "low ä" * 40])
        contract.show(250, 3, 1e-3, 2, 1)
        ShownContract("ended", 1.0, "high", []).end()
        show_companies(COMPANIES)
        show_fills(12, 0.25)
        os.write(writing, b"1")
        os.read(ended, 1)
        os._exit(0)
    os.read(reading, 1)
    yield process
    os.close(ending)
    os.waitpid(process, 0)
    for each in (reading, writing, ended):
        os.close(each)


def test_nobody_is_there_at_first(run_vk, folder):
    code, output, _ = run_vk("coordinate", "status")
    assert (code, output) == (0, "no process of this user uses vk.priority\n")
    assert list(folder.iterdir()) == []


def test_status_of_a_process(run_vk, folder, peer):
    file = folder / "status.json"
    code, output, _ = run_vk("coordinate", "status", "--json", file)
    assert code == 0
    assert str(peer) in output
    written = json.loads(file.read_text())
    assert written["command"] == "coordinate status"
    (found,) = written["processes"]
    assert (found["process"], found["cores"]) == (peer, sorted(os.sched_getaffinity(0)))
    assert [level["priority"] for level in found["levels"]] == ["high", "normal", "low"]
    low = found["levels"][2]
    share = low.pop("of_the_time")
    assert low == {
        "priority": "low", "at_work": 1, "paused": 1, "calls": 2, "seconds": 3.0, "handed_over": 1, "pauses": 7,
        "paused_seconds": 0.5,
    }  # fmt: skip
    assert share == pytest.approx(3.0 / found["elapsed"])
    assert found["levels"][0]["calls"] == 0
    (contract,) = found["contracts"]
    (first, second) = contract.pop("beside")
    assert first == "low matmul"
    assert ("low ä" * 40).startswith(second.rstrip("\N{REPLACEMENT CHARACTER}"))
    assert contract == {
        "kernel": "softmax_rows M=64", "p99": 3e-4, "priority": "high", "calls": 250, "late": 3, "longest": 1e-3,
        "hundreds": 2, "broken": 1, "is_kept": False,
    }  # fmt: skip
    assert [each["kernels"] for each in found["companies"]] == [[f"softmax M={n}", "matmul"] for n in (1, 2, 3, 4)]
    assert found["companies"][2] == {
        "kernels": ["softmax M=3", "matmul"], "what": "last cache", "needed": 1.25, "oversubscription": 0.1,
        "is_beside": True, "gain": 0.75, "beside": 4, "turns": 2,
    }  # fmt: skip
    assert found["companies"][1]["gain"] is None
    assert "softmax M=1 | matmul" in output
    assert "in turns" in output
    assert "side by side" in output
    assert (found["fills"], found["filled_seconds"]) == (12, 0.25)
    assert f"{peer}: 12 gaps filled, 250 ms" in output
    assert "300 µs" in output
    assert "1 of 2" in output


def test_a_process_shows_some_contracts_and_no_longer_when_they_end(monkeypatch):
    board = shared_board.joined_board()
    monkeypatch.setattr(priority, "_board", types.SimpleNamespace(shared=board))
    contracts = [ShownContract(f"kernel {number}", 1e-3, "normal", []) for number in range(CONTRACTS + 2)]
    for number, contract in enumerate(contracts):
        contract.show(number, 0, 0.0, 0, 0)
    (before,) = process_statuses(time.time())
    assert [each.kernel for each in before.contracts] == [f"kernel {number}" for number in range(CONTRACTS)]
    assert before.contracts[0].beside == ()
    contracts[3].show(8, 2, 4e-3, 0, 0)
    contracts[4].end()
    contracts[-1].show(1, 0, 0.0, 0, 0)  # there was no room when it began
    ShownContract("another", 1e-3, "normal", []).show(7, 1, 0.0, 0, 0)
    (now,) = process_statuses(time.time())
    assert [each.kernel for each in now.contracts][3:5] == ["kernel 3", "another"]
    (later,) = since([before], [now])
    assert (later.contracts[3].calls, later.contracts[3].late, later.contracts[3].longest) == (5, 2, 4e-3)
    assert later.contracts[4].calls == 7  # a new one
    board.close()


def test_the_live_view_shows_what_is_new_and_ends_when_interrupted(run_vk, peer, monkeypatch):
    turns = []

    def sleep(seconds):
        turns.append(seconds)
        if len(turns) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    code, output, _ = run_vk("coordinate", "status", "--live", "--every", "0.5")
    assert code == 0
    assert turns == [0.5] * 3
    assert "0.0 %" in output  # no call ended since the view before
