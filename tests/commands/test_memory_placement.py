"""`vk memory calibrate` and `place`, and calibrations given to `plan` and `simulate`."""

import json
from functools import partial
from pathlib import Path

import pytest

from vkernels.commands.memory import limited_run
from vkernels.commands.memory.options import machine_from
from vkernels.ir.errors import OptionError
from vkernels.memory import calibrate_cpu as cpu
from vkernels.memory.calibration_file import load
from vkernels.memory.trace import MemoryTrace, Operation, TracedTensor
from vkernels.memory.trace_file import save

STEP = """
import torch
x, weight = torch.ones(64, 64), torch.ones(64, 64, requires_grad=True)
def step():
    loss = (x @ weight).relu().sum()
    loss.backward()
    weight.grad = None
"""
ORIN = "jetson-agx-orin-64"


@pytest.fixture
def vk(run_vk, tmp_path, monkeypatch):
    """Runs `vk memory` in an empty folder; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return partial(run_vk, "memory")


def test_a_device_that_is_not_here_is_modelled_and_said_to_be(vk):
    code, output, errors = vk("calibrate", "--target", ORIN, "--out", "orin.json")
    assert code == 0, errors
    assert output.startswith(f"{ORIN}: Jetson AGX Orin 64GB, modelled")
    assert "copy_seconds*" in output
    assert load("orin.json").access.integrated
    code, output, errors = vk("calibrate", "--target", ORIN, "--json", "-")
    found = json.loads(output)
    assert (found["command"], found["calibration"]["origin"]) == ("memory calibrate", "modelled")


def test_this_cpu_is_measured_and_planning_goes_by_what_was_found(vk, monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "COPIED", 1 << 20)
    monkeypatch.setattr(cpu, "following", lambda links: {"operation_seconds": 1e-5})
    code, output, errors = vk("calibrate", "--flash", ".", "--out", "cpu.json")
    assert code == 0, errors
    assert "measured" in output
    found = load("cpu.json")
    tensors = tuple(TracedTensor(f"x{n}", 1 << 20, False) for n in range(6))
    forward = [Operation(f"f{n}", 1e-3, (n - 1,) if n else (), (n,)) for n in range(6)]
    save(
        MemoryTrace("layers", tensors, (*forward, *(Operation(f"b{n}", 1e-3, (n,), ()) for n in (4, 3, 2, 1, 0)))),
        "t.json",
    )
    code, output, errors = vk("plan", "t.json", "--device", "4MiB", "--calibration", "cpu.json", "--json", "-")
    assert code == 0, errors
    assert json.loads(output)["machine"]["link"] == found.machine.to_host
    code, output, errors = vk(
        "simulate", "t.json", "--device", "4MiB", "--calibration", "cpu.json", "--link", "1GB/s", "--json", "-"
    )
    assert code == 0, errors
    assert json.loads(output)["machine"]["link"] == 1e9
    assert json.loads(output)["machine"]["flash_link"] == found.machine.to_flash


def test_a_step_runs_with_the_links_of_a_calibration(vk, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(STEP)
    vk("calibrate", "--target", ORIN, "--out", "orin.json")
    taken, real = [], limited_run.limit_step

    def noting(*args, links, **more):
        taken.append(links)
        return real(*args, links=links, **more)

    monkeypatch.setattr(limited_run, "limit_step", noting)
    code, _, errors = vk("run", "mine.py:step", "--bytes", "90%", "--calls", "2", "--calibration", "orin.json")
    assert code == 0, errors
    assert taken[0].to_host == load("orin.json").machine.to_host
    code, _, errors = vk("run", "mine.py:step", "--bytes", "1MiB", "--calibration", "none.json")
    assert code == 2
    assert "none.json" in errors


def test_a_machine_is_what_was_calibrated_but_for_what_is_named(vk):
    vk("calibrate", "--target", ORIN, "--out", "orin.json")
    file = Path("orin.json")
    machine = machine_from("1GiB", "2GiB", "0", None, "1GB/s", file)
    assert (machine.device_bytes, machine.host_bytes, machine.flash_bytes) == (1 << 30, 2 << 30, 0)
    assert (machine.to_host, machine.from_host) == (load(file).machine.to_host, load(file).machine.from_host)
    assert (machine.to_flash, machine.from_flash) == (1e9, 1e9)


def test_each_tensor_has_its_placement_and_the_time_of_each_other(vk):
    code, output, errors = vk("place", "softmax_rows", "--target", ORIN, "--shapes", "M=512,N=512", "--json", "-")
    assert code == 0, errors
    found = json.loads(output)
    assert (found["command"], found["origin"], found["integrated"]) == ("memory place", "modelled", True)
    assert [each["tensor"] for each in found["tensors"]] == ["x", "out"]
    for each in found["tensors"]:
        assert [other["placement"] for other in each["alternatives"]] == ["copy", "zero-copy", "managed"]
        taken = next(other for other in each["alternatives"] if other["placement"] == each["placement"])
        assert taken["seconds"] == pytest.approx(found["seconds"])
        assert taken["footprint_bytes"] == each["footprint_bytes"]
    assert found["seconds"] <= found["copying_seconds"]
    assert "modelled" in errors
    assert "x: " in errors


def test_a_limit_is_kept_or_refused_with_the_tensor(vk):
    arguments = ("place", "matmul_bias", "--target", "h100-sxm5-80", "--shapes", "M=512,N=512,K=512", "--json", "-")
    code, output, _ = vk(*arguments, "--limit", "1MiB")
    assert code == 0
    assert json.loads(output)["footprint_bytes"] <= 1 << 20
    code, _, errors = vk("place", "softmax_rows", "--target", ORIN, "--limit", "1KiB")
    assert code == 2
    assert errors.startswith("error: 1024 bytes are too few: x alone takes 8388608")


def test_a_calibration_changes_what_is_chosen(vk, tmp_path):
    vk("calibrate", "--target", ORIN, "--out", "orin.json")
    data = json.loads((tmp_path / "orin.json").read_text())
    data["access"]["mapped"] = dict.fromkeys(data["access"]["mapped"], 1e6)
    (tmp_path / "orin.json").write_text(json.dumps(data))
    arguments = ("place", "softmax_rows", "--target", ORIN, "--json", "-")
    before, after = json.loads(vk(*arguments)[1]), json.loads(vk(*arguments, "--calibration", "orin.json")[1])
    assert [each["placement"] for each in before["tensors"]] == ["zero-copy", "zero-copy"]
    assert "zero-copy" not in [each["placement"] for each in after["tensors"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("place", "softmax_rows", "--target", "cpu"), "one memory"),
        (("place", "softmax_rows", "--target", "orin"), "there is no target"),
        (("place", "softmax_row", "--target", ORIN), "did you mean softmax_rows"),
        (("place", "softmax_rows", "--target", ORIN, "--limit", "much"), "--limit: expected a size"),
        (("place", "softmax_rows", "--target", ORIN, "--shapes", "Q=3"), "Q"),
        (("place", "softmax_rows", "--target", ORIN, "--calibration", "none.json"), "none.json"),
        (("calibrate", "--target", "orin"), "there is no target"),
        (("calibrate", "--target", ORIN, "--flash", "."), "only be measured with --target cpu"),
        (("calibrate", "--out", "no/folder.json"), "does not exist"),
    ],
)
def test_what_cannot_be_is_one_message(vk, arguments, words):
    code, _, errors = vk(*arguments)
    assert code == 2
    assert words in errors
    assert errors.count("\n") == 1


def test_a_rate_is_still_refused_that_is_none():
    with pytest.raises(OptionError, match="--link"):
        machine_from("1GiB", "1GiB", "0", "fast", None)
