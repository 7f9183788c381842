"""Snapshots of torch's allocator: what is written is read again, torch's own reader accepts it, hostile ones are
refused."""

from __future__ import annotations

import pickle
import random
from dataclasses import astuple

import pytest
from torch.cuda import _memory_viz

from vkernels.ir.errors import FileError
from vkernels.memory.placed import PlacedBlock
from vkernels.memory.pool import place
from vkernels.memory.snapshots import read_snapshot, write_snapshot
from vkernels.memory.trace import Lifetime, live_bytes

MIB = 1 << 20
FRAMES = [
    {"filename": "c10/cuda.cpp", "line": 0, "name": "malloc"},
    {"filename": "/site/torch/nn/modules/linear.py", "line": 125, "name": "forward"},
    {"filename": "/home/me/model.py", "line": 12, "name": "forward"},
    {"filename": "/home/me/train.py", "line": 3, "name": "step"},
]


def event(action, addr, size, frames=()):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1, "frames": list(frames)}


def snapshot(events, segments=()):
    return {"segments": list(segments), "device_traces": [[], events], "allocator_settings": {"max_split_size": -1}}


def written(tmp_path, data, name="step.pickle"):
    (tmp_path / name).write_bytes(pickle.dumps(data))
    return tmp_path / name


def test_blocks_have_lifetimes_names_and_what_torch_reserved(tmp_path):
    """One from before, one within, one that stays and is in a segment, and one in it that has no history."""
    events = [
        event("segment_alloc", 0, 20 * MIB),
        event("alloc", 0, 512, FRAMES),
        event("free_requested", 9000, 1024),
        event("free_completed", 9000, 1024),
        event("alloc", 1024, 2048, FRAMES[:2]),
        event("free_requested", 0, 512),
        event("segment_free", 9000, 2 * MIB),
        event("snapshot", 0, 0),
        event("free_completed", 0, 512),
    ]
    blocks = [
        {"size": 1024, "requested_size": 1000, "state": "inactive", "frames": []},
        {"size": 2048, "requested_size": 2000, "state": "active_allocated", "frames": []},
        {"size": 4096, "requested_size": 4000, "state": "active_allocated", "frames": FRAMES},
    ]
    segment = {"device": 1, "address": 0, "total_size": 20 * MIB, "stream": 0, "blocks": blocks}
    found = read_snapshot(written(tmp_path, snapshot(events, [segment])))
    assert (found.device, found.reserved, found.problem.count) == (1, 22 * MIB, 4)
    assert sorted(zip(found.problem.names, map(astuple, found.problem.blocks), strict=True)) == [
        ("block 0", (0, 1, 1024)),
        ("linear.py:125 forward", (2, 4, 2048)),
        ("model.py:12 forward", (0, 3, 512)),
        ("model.py:12 forward", (0, 4, 4096)),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_written_pool_is_read_with_the_same_memory_over_time(tmp_path, seed):
    draw = random.Random(seed)
    count = draw.randint(2, 12)
    starts = [draw.randrange(count) for _ in range(draw.randint(1, 30))]
    blocks = [Lifetime(start, start + draw.randint(1, count), 512 * draw.randint(1, 9)) for start in starts]
    placed = place(blocks, count, seconds=0.2)
    named = [
        PlacedBlock(f"t{n}", block.start, block.end, block.size, at, f"mine.py:{n} in step")
        for n, (block, at) in enumerate(zip(blocks, placed.offsets, strict=True))
    ]
    write_snapshot(tmp_path / "pool.pickle", named, count, [0.5 * n for n in range(count)])
    found = read_snapshot(tmp_path / "pool.pickle")
    live = live_bytes(found.problem.blocks, found.problem.count)
    assert max(live) == max(live_bytes(blocks, count)), seed
    assert found.reserved == placed.footprint
    data = pickle.loads((tmp_path / "pool.pickle").read_bytes())
    assert f"total_reserved: {_memory_viz.Bytes(placed.footprint)}" in _memory_viz.segsum(data)
    assert "snapshot.pickle" in _memory_viz.trace_plot(data)


class Evil:
    """What a pickle must not run."""

    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (Evil(), "builtins.print"), ([Evil()], "builtins.print"), ({}, "segments"), ([], "array"), (3, "int"),
        (snapshot([]), "no history"), (snapshot([event("oom", 0, 8)]), "no allocations"),
        (snapshot([event("alloc", "a", 8)]), "addr"), ({"segments": [3], "device_traces": []}, "segments"),
    ],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused_and_runs_nothing(tmp_path, capsys, data, said):
    with pytest.raises(FileError, match=rf"step\.pickle: .*{said}"):
        read_snapshot(written(tmp_path, data))
    assert "run" not in capsys.readouterr().out


@pytest.mark.parametrize("part", [0, 1, 20, -1])
def test_part_of_a_file_is_refused(tmp_path, part):
    whole = pickle.dumps(snapshot([event("alloc", 0, 512, FRAMES)]))
    (tmp_path / "part.pickle").write_bytes(whole[:part])
    with pytest.raises(FileError, match=r"part\.pickle: "):
        read_snapshot(tmp_path / "part.pickle")
    with pytest.raises(FileError, match=r"none\.pickle: No such file"):
        read_snapshot(tmp_path / "none.pickle")
