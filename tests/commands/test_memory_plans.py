"""`vk memory plan` for blocks without operations, exports, and tables that are whole on a narrow terminal."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from vkernels.commands.memory.offset_map import MAX_BLOCKS
from vkernels.memory.placed import PlacedBlock
from vkernels.memory.snapshots import read_snapshot, write_snapshot
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor
from vkernels.memory.trace_file import save

GIB = 1 << 30
PROBLEM = "id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,2,4,4\n"


@pytest.fixture
def vk(run_vk, tmp_path, monkeypatch):
    """Runs `vk memory` in an empty folder, 80 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return partial(run_vk, "memory")


def test_a_minimalloc_problem_is_placed_within_the_capacity_in_its_name(vk, tmp_path):
    (tmp_path / "P.8.csv").write_text(PROBLEM)
    code, output, _ = vk("plan", "P.8.csv", "--out", "placed.csv", "--html", "page.html", "--json", "found.json")
    assert code == 0
    assert "3 blocks over 4 moments; 8 B live at once" in output
    assert "fits within the capacity of 8 B" in output
    rows = [line.split(",") for line in (tmp_path / "placed.csv").read_text().splitlines()[1:]]
    offsets = {row[0]: int(row[4]) for row in rows}
    assert offsets["a"] == offsets["c"] != offsets["b"]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["problem"] == {"name": "P", "blocks": 3, "moments": 4, "capacity_bytes": 8, "fits": True}
    assert found["trace"] is None
    figure = json.loads(re.search(r"const figures = (.*);", (tmp_path / "page.html").read_text())[1])["map"]
    (bars,) = (trace for trace in figure["data"] if trace["type"] == "bar")
    assert sorted(zip(bars["base"], bars["y"], strict=True)) == sorted((at, 4) for at in offsets.values())


def test_a_capacity_that_cannot_be_kept_is_a_finding(vk, tmp_path):
    (tmp_path / "P.8.csv").write_text(PROBLEM)
    code, output, _ = vk("plan", "P.8.csv", "--device", "7")
    assert code == 1
    assert "cannot fit within the capacity of 7 B" in output


def test_a_snapshot_of_torch_is_placed_beside_what_torch_reserved(vk, tmp_path):
    blocks = [PlacedBlock(f"t{n}", n, n + 2, 1024, 4096 * n) for n in range(4)]
    write_snapshot(tmp_path / "step.pickle", blocks, 6, range(6))
    code, output, _ = vk("plan", "step.pickle", "--html", "page.html", "--snapshot", "placed.pickle")
    assert code == 0
    assert "step.pickle, GPU 0" in output
    assert "pool: 2 KiB" in output
    assert re.search(r"torch's allocator: 13 KiB", output)
    assert read_snapshot(tmp_path / "placed.pickle").reserved == 2048
    code, _, errors = vk("simulate", "step.pickle")
    assert code == 2
    assert "it has blocks but no operations" in errors
    code, _, errors = vk("plan", "step.pickle", "--out", "x.json")
    assert code == 2
    assert errors.startswith("error: --out: a snapshot has no operations")


@pytest.fixture
def trace(tmp_path):
    """Tensors of gibibytes with long names, which wait for transfers."""
    tensors = [TracedTensor(f"a tensor with a long name {n}", GIB + 7 * n) for n in range(6)]
    forward = [Operation(f"f{n}", 1e-3, (n - 1,) if n else (), (n,), source=f"m.py:{n} in f") for n in range(6)]
    backward = [Operation(f"b{n}", 1e-3, (n,), ()) for n in reversed(range(6))]
    save(MemoryTrace("layers", tuple(tensors), (*forward, *backward)), tmp_path / "trace.json")


@pytest.mark.usefixtures("trace")
def test_tables_are_whole_at_80_columns(vk):
    for command in (("simulate", "trace.json", "--device", "3GiB"), ("plan", "trace.json", "--device", "3GiB")):
        code, output, _ = vk(*command)
        assert code == 0
        assert "…" not in output
        start = next(n for n, line in enumerate(output.splitlines()) if "fraction" in line)
        rows = output.splitlines()[start : start + 2]
        assert all(len(line) <= 80 for line in rows)
        assert len(rows[1].split()) >= len(rows[0].split())


@pytest.mark.usefixtures("trace")
def test_a_plan_has_a_map_with_names_and_lines_and_is_exported(vk, tmp_path):
    for more in ((), ("--device", "3GiB")):
        assert vk("plan", "trace.json", *more, "--html", "page.html", "--snapshot", "plan.pickle")[0] == 0
        figure = json.loads(re.search(r"const figures = (.*);", (tmp_path / "page.html").read_text())[1])["map"]
        (bars,) = (trace for trace in figure["data"] if trace["type"] == "bar")
        assert any("a tensor with a long name 3" in text and "m.py:3 in f" in text for text in bars["hovertext"])
        assert all(width > 0 for width in bars["width"])
        reserved = read_snapshot(tmp_path / "plan.pickle").reserved
        assert reserved <= 3 * GIB + 4096 if more else reserved > 5 * GIB


def test_a_map_shows_the_largest_of_many_blocks(vk, tmp_path):
    rows = "".join(f"{n},{n},{n + 1},{1 + n % 2}\n" for n in range(MAX_BLOCKS + 10))
    (tmp_path / "many.csv").write_text("id,lower,upper,size\n" + rows)
    assert vk("plan", "many.csv", "--html", "page.html")[0] == 0
    assert "10 smaller blocks are not shown" in (tmp_path / "page.html").read_text()


@pytest.mark.usefixtures("trace")
def test_page_faults_that_move_less_cost_more(vk):
    seconds = []
    for size in ("2MiB", "64KiB"):
        code, output, _ = vk("simulate", "trace.json", "--device", "3GiB", "--fault", size, "--json", "-")
        assert code == 0
        seconds.append(next(run["seconds"] for run in json.loads(output)["runs"] if run["name"] == "unified memory"))
    assert seconds[0] < seconds[1]
    assert vk("simulate", "trace.json", "--fault", "some")[0] == 2


@pytest.mark.usefixtures("trace")
def test_flash_through_the_host_takes_longer(vk):
    seconds = []
    for way in ("--gpu-direct", "--staged"):
        code, output, _ = vk("simulate", "trace.json", "--device", "3GiB", "--host", "0", way, "--json", "-")
        assert code == 0
        seconds.append(json.loads(output)["runs"][-1]["seconds"])
    assert seconds[0] < seconds[1] < 2 * seconds[0]


@pytest.mark.usefixtures("trace")
def test_moves_between_host_and_flash_are_never_slower_and_new_addresses_are(vk):
    seconds = []
    for more in ((), ("--host-flash",), ("--host-flash", "--translation", "0.001")):
        code, output, _ = vk(
            "simulate", "trace.json", "--device", "3GiB", "--host", "1GiB", "--staged", *more, "--json", "-"
        )
        assert code == 0
        seconds.append(json.loads(output)["runs"][-1]["seconds"])
    assert seconds[1] <= seconds[0] * (1 + 1e-5)
    assert seconds[1] < seconds[2]
    assert vk("simulate", "trace.json", "--translation", "-1")[0] == 2


@pytest.mark.usefixtures("trace")
def test_two_devices_exchange_tensors_that_are_named(vk):
    code, output, errors = vk("simulate", "trace.json", "--device", "3GiB", "--all-reduce", "", "--json", "-")
    assert code == 0, errors
    found = json.loads(output)
    for run, pair in zip(found["runs"], found["two_devices"], strict=True):
        assert run["name"] == pair["name"]
        assert run["seconds"] <= pair["seconds"] * (1 + 1e-9)
    assert "during backward" in errors
    assert vk("simulate", "trace.json", "--device", "3GiB", "--all-reduce", "no such name")[0] == 2
