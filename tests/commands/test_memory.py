"""`vk memory`: recording, planning, simulating; the page; what cannot be is refused in a line."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from vkernels.commands.memory.options import machine_from, rate_from, size_from
from vkernels.ir.errors import OptionError
from vkernels.memory.schedule_check import least_bytes
from vkernels.memory.simulate import simulate
from vkernels.memory.strategies import PUBLISHED, search
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor
from vkernels.memory.trace_file import load, save

MIB = 1 << 20
LAYERS = 6
STEP = """
import torch
x, weight = torch.ones(64, 64), torch.ones(64, 64, requires_grad=True)
def step():
    loss = (x @ weight).relu().sum()
    loss.backward()
    weight.grad = None
def failing():
    raise RuntimeError("not today")
"""


@pytest.fixture
def vk(run_vk, tmp_path, monkeypatch):
    """Runs `vk memory` in an empty folder; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return partial(run_vk, "memory")


@pytest.fixture
def trace(tmp_path):
    """Activations of a MiB each, used again in reverse: what stands in the file trace.json."""
    tensors = [TracedTensor(f"<x{n}>", MIB) for n in range(LAYERS)]
    forward = [Operation(f"f{n}", 1e-3, (n - 1,) if n else (), (n,)) for n in range(LAYERS)]
    backward = [Operation(f"b{n}", 1e-3, (n,), ()) for n in reversed(range(LAYERS))]
    made = MemoryTrace("layers & <layers>", tuple(tensors), (*forward, *backward))
    save(made, tmp_path / "trace.json")
    return made


def test_a_step_in_a_file_is_recorded_and_what_is_written_loads(vk, tmp_path):
    (tmp_path / "mine.py").write_text(STEP)
    code, output, errors = vk("record", "mine.py:step", "--out", "mine.json.gz", "--json", "-")
    assert code == 0, errors
    found, written = json.loads(output), load(tmp_path / "mine.json.gz")
    assert (found["schema_version"], found["command"], found["file"]) == (1, "memory record", "mine.json.gz")
    assert found["trace"] == {
        "name": "step", "operations": len(written.operations), "tensors": len(written.tensors),
        "seconds": written.seconds, "peak_bytes": written.peak, "global_bytes": 2 * 64 * 64 * 4,
    }  # fmt: skip
    assert "written to mine.json.gz" in errors


def test_what_cannot_be_recorded_is_one_message_with_the_line(vk, tmp_path):
    (tmp_path / "other.py").write_text(STEP)
    line = STEP.splitlines().index('    raise RuntimeError("not today")') + 1
    code, _, errors = vk("record", "other.py:failing")
    assert (code, errors) == (2, f"error: other.py:{line}: failing: RuntimeError: not today\n")
    code, _, errors = vk("record", "other.py:stepp")
    assert code == 2
    assert "did you mean step?" in errors
    code, _, errors = vk("record", "other.py:step", "--out", "no/folder.json")
    assert code == 2
    assert "does not exist" in errors
    assert not list(tmp_path.glob("*.gz"))


def test_a_plan_has_a_pool_and_with_less_memory_a_schedule_that_the_simulator_takes(vk, trace, tmp_path):
    code, output, _ = vk("plan", "trace.json", "--json", "-")
    found = json.loads(output)
    assert (code, found["command"], found["machine"], found["run"]) == (0, "memory plan", None, None)
    assert found["pool"]["footprint_bytes"] == found["pool"]["peak_bytes"] == trace.peak
    assert len(found["pool"]["offsets"]) == LAYERS
    assert all(size >= trace.peak for size in found["pool"]["allocators"].values())
    device = f"{least_bytes(trace)[0]}"
    code, output, _ = vk("plan", "trace.json", "--device", device, "--out", "schedule.json", "--json", "-")
    planned = json.loads(output)["run"]
    assert (code, planned["name"]) == (0, "ours")
    assert planned["peak_bytes"] <= int(device) < trace.peak
    assert planned["absences"] > 0
    code, output, _ = vk("simulate", "trace.json", "schedule.json", "--device", device, "--json", "-")
    assert code == 0
    assert json.loads(output)["runs"] == [{**planned, "name": "given"}]


def test_without_a_schedule_every_strategy_is_simulated_and_ours_is_no_slower(vk, trace):
    device = least_bytes(trace)[0]
    code, output, words = vk(
        "simulate", "trace.json", "--device", device, "--link", "2GB/s", "--flash", "0", "--json", "-"
    )
    found = json.loads(output)
    names = [each["name"] for each in found["runs"]] + [each["name"] for each in found["refused"]]
    assert (code, sorted(names)) == (0, sorted([*PUBLISHED, "ours"]))
    assert found["machine"] == {
        "device_bytes": device, "host_bytes": 128 << 30, "flash_bytes": 0, "link": 2e9, "flash_link": 3.2e9,
    }  # fmt: skip
    seconds = [each["seconds"] for each in found["runs"]]
    assert found["runs"][-1]["name"] == "ours"
    assert found["bound_seconds"] <= seconds[-1] * (1 + 1e-9)
    assert seconds[-1] <= min(seconds) * (1 + 1e-6)
    assert all(each["name"] in words for each in found["runs"])


@pytest.mark.usefixtures("trace")
def test_what_no_schedule_can_do_names_the_operation_and_the_least_memory(vk):
    code, _, errors = vk("plan", "trace.json", "--device", "1.5MiB")
    assert code == 2
    assert f"at least {2 * MIB} bytes (2 MiB) are needed" in errors
    assert re.search(r"operation \d+ \(", errors)
    code, _, errors = vk("plan", "trace.json", "--out", "schedule.json")
    assert (code, errors) == (2, "error: --out: needs --device: without it there is no schedule\n")


@pytest.mark.usefixtures("trace")
def test_a_schedule_that_cannot_be_kept_is_refused(vk):
    assert vk("plan", "trace.json", "--device", "4MiB", "--out", "schedule.json")[0] == 0
    code, _, errors = vk("simulate", "trace.json", "schedule.json", "--device", "3MiB")
    assert code == 2
    assert "has 4194304 bytes (4 MiB) on the device, which has 3145728 bytes (3 MiB)" in errors


def test_the_page_is_whole_needs_nothing_else_and_is_drawn_to_scale(vk, trace, tmp_path):
    device = least_bytes(trace)[0]
    assert (
        vk(
            "plan",
            "trace.json",
            "--device",
            device,
            "--link",
            "0.5GB/s",
            "--flash-link",
            "0.2GB/s",
            "--html",
            "page.html",
        )[0]
        == 0
    )
    page = (tmp_path / "page.html").read_text()
    assert "default-src 'none'" in page
    assert 'name="viewport"' in page
    text, scripts = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL), re.findall(r"<script>", page)
    assert not re.search(r"<(script|link|img|iframe)\b|https?:|url\(", text)
    assert len(scripts) == 2, "plotly, and the figure"
    assert page.count("'sha256-") == 2
    assert "<layers>" not in page
    assert "layers &amp; &lt;layers&gt;" in page
    figure = json.loads(re.search(r"const figures = (.*);", page)[1])["iteration"]
    lines = {trace["name"]: trace for trace in figure["data"] if trace["type"] == "scatter"}
    assert set(lines) == {"on the device", "live", "on the host", "device capacity"}
    (bars,) = (trace for trace in figure["data"] if trace["type"] == "bar")
    machine = machine_from(str(device), "128GiB", "unlimited", "0.5GB/s", "0.2GB/s")
    run = simulate(trace, search(trace, machine), machine, timeline=True)
    transfers = [row for row in bars["y"] if row != "waits"]
    assert len(transfers) >= len(run.timeline.transfers) > 0
    assert all(0 <= start <= run.seconds for start in bars["base"])


@pytest.mark.parametrize(
    ("text", "size"),
    [("40GiB", 40 << 30), ("2.5 GB", 2_500_000_000), ("4096", 4096), ("1.5MiB", 3 << 19), ("7B", 7), ("3kB", 3000)],
)
def test_sizes_are_read(text, size):
    assert size_from(text, "--device") == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "1e9", "40Gib", "40 GiB each", "nan", "9" * 40])
def test_what_is_no_size_is_refused_with_the_option(text):
    with pytest.raises(OptionError, match="--host: expected a size"):
        size_from(text, "--host")


@pytest.mark.parametrize("text", ["16GB", "0GB/s", "fast/s", "/s"])
def test_what_is_no_rate_is_refused_with_the_option(text):
    with pytest.raises(OptionError, match="--link"):
        rate_from(text, "--link")


def test_a_broken_trace_is_refused_with_its_line(vk, tmp_path):
    (tmp_path / "broken.json").write_text('{"format": "vkernels trace",\n"schema_version": 1, "name": 3}')
    for command in ("plan", "simulate"):
        code, _, errors = vk(command, "broken.json")
        assert code == 2
        assert errors.startswith("error: broken.json:")
        assert errors.count("\n") == 1


PROGRAM = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
x = torch.randn(512, 64)
calls = 0
def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.dropout(model(x), 0.1).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()
def changing():
    global calls
    calls += 1
    loss = step()
    for _ in range(calls):
        loss = loss * 2
    return loss
def turns():
    global calls
    calls += 1
    return step() * calls if calls % 2 else step()
def other():
    return step() + OTHERS.pop()
"""


@pytest.mark.slow
def test_a_step_runs_under_a_limit_beside_itself_and_gives_the_same_bits(vk, tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    code, output, errors = vk(
        "run", "mine.py:step", "--bytes", "50%", "--calls", "4", "--flash", str(tmp_path), "--json", "-",
        "--html", "p.html",
    )  # fmt: skip
    assert code == 0, errors
    found = json.loads(output)
    report = found["report"]
    assert (found["command"], found["same"], found["calls"], report["planned"]) == ("memory run", True, 7, 4)
    state = 12 + 12 + 1  # parameters, momenta, x
    gradients = 12
    assert found["compared"] >= 7 + 1 + state + gradients
    assert report["arena"] <= found["bytes"] <= report["peak"] // 2
    assert report["out_bytes"] > 0
    assert report["strays"] == report["changed"] == 0
    assert min(found["plain_seconds"], report["seconds"], report["simulated_seconds"], report["own_seconds"]) > 0
    assert report["own_seconds"] <= report["seconds"]
    assert found["usual"]["seconds"] > 0 < found["usual"]["plain_seconds"]
    assert "calls by default: " in errors
    assert found["run"]["out_bytes"] > 0
    assert "the same bits" in errors
    page = (tmp_path / "p.html").read_text()
    assert "const figures" in page
    assert "measured times of the calls" in page


@pytest.mark.slow
def test_steps_in_turns_follow_one_plan(vk, tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    code, output, _ = vk("run", "mine.py:turns", "--bytes", "1MiB", "--calls", "4", "--json", "out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    report = found["report"]
    assert not found["usual"]["watched"]
    assert "those without a limit; they are not watched" in output
    assert code == 0
    assert "the same bits" in output
    assert (report["period"], report["planned"], report["calls"]) == (2, 4, 9)


@pytest.mark.slow
def test_a_step_that_never_keeps_to_a_plan_is_a_finding_with_the_reason(vk, tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    code, output, _ = vk("run", "mine.py:changing", "--bytes", "1MiB", "--calls", "1")
    assert code == 1
    assert "the same bits" in output
    assert "iterations differ" in output


HIDDEN = """
import torch
from shared import left as OTHERS
class Model:
    def __init__(self):
        self.layers = {"first": [torch.ones(64, 64)]}
        self.noise = torch.empty(64)
class Trainer:
    def __init__(self):
        self.__dict__["held"] = Model()
    def step(self):
        weight = self.held.layers["first"][0]
        weight += OTHERS.pop() if SEEN else 1
        return torch.zeros(3)
SEEN = True
trainer = Trainer()
def step():
    return trainer.step()
"""


@pytest.mark.parametrize(("seen", "same"), [(True, False), (False, True)], ids=["differ", "alike"])
def test_weights_that_an_object_of_the_program_holds_are_compared(vk, tmp_path, seen, same):
    (tmp_path / "shared.py").write_text("left = list(range(100))\n")
    (tmp_path / "hidden.py").write_text(HIDDEN.replace("SEEN = True", f"SEEN = {seen}"))
    code, output, _ = vk("run", "hidden.py:step", "--bytes", "10MiB", "--calls", "1", "--json", "found.json")
    assert json.loads((tmp_path / "found.json").read_text())["same"] is same
    assert (code, "BITS DIFFER" in output) == (0 if same else 1, not same), output


def test_bits_that_differ_are_a_finding(vk, tmp_path):
    (tmp_path / "shared.py").write_text("left = list(range(100))\n")
    (tmp_path / "mine.py").write_text(f"from shared import left as OTHERS\n{PROGRAM}")
    code, output, _ = vk("run", "mine.py:other", "--bytes", "10MiB", "--calls", "1")
    assert code == 1
    assert "BITS DIFFER" in output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bytes", "some"], "--bytes: expected a size"), (["--bytes", "-1%"], "a share of the peak"),
        (["--bytes", "nan%"], "a share of the peak"), (["--bytes", "1%"], "addmm has to have"),
        (["--bytes", "50%", "--host", "0", "--flash", "none"], "none: flash cannot be written there"),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_is_one_message(vk, tmp_path, arguments, said):
    (tmp_path / "mine.py").write_text(PROGRAM)
    code, _, errors = vk("run", "mine.py:step", *arguments)
    assert code == (3 if "has to have" in said else 2)
    assert said in errors
    assert "Traceback" not in errors
