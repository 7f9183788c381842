"""Calibrations: measured figures are those of what was measured; files say what they were given, or are refused."""

import json
import random
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs, to_builtins

from vkernels.ir.errors import ArgumentError, FileError, OptionError, SetupError
from vkernels.memory import calibrate_cpu as cpu
from vkernels.memory.calibrate_gpu import calibrate_gpu
from vkernels.memory.calibration import Calibration, Origin
from vkernels.memory.calibration_file import load, save, to_json
from vkernels.memory.gpu_timer import TorchTimer
from vkernels.memory.links import MemoryMachine
from vkernels.memory.placement.choose import choose
from vkernels.memory.placement.modelled import modelled
from vkernels.memory.placement.place import place
from vkernels.memory.placement.program import Buffer, BufferUse, PlacedLaunch, PlacedProgram
from vkernels.targets import known_targets, load_targets
from vkernels.targets.present import gpu_target

from .drawn import accesses
from .fakes import DISCRETE, INTEGRATED, FakeGpu

ORIN = known_targets()["jetson-agx-orin-64"]
MACHINE = MemoryMachine(0, 1 << 60, 2e9, 3e9, 4e8, 5e8, 0, host_seconds=1e-5, flash_seconds=2e-4)


def numbers(value, prefix=""):
    """All figures of nested fields by name."""
    if isinstance(value, dict):
        return {k: v for name, part in value.items() for k, v in numbers(part, f"{prefix}{name}.").items()}
    return {prefix: value}


@pytest.mark.parametrize("access", [DISCRETE, INTEGRATED])
def test_a_gpu_is_measured_to_be_as_it_is(access):
    found = calibrate_gpu(FakeGpu(access), ORIN)
    assert found.origin is Origin.MEASURED
    assert (found.machine.from_host, found.machine.to_host) == (found.access.to_device, found.access.to_host)
    measured, given_ = numbers(to_builtins(found.access)), numbers(to_builtins(access))
    assert measured.keys() == given_.keys()
    for name, value in given_.items():
        assert measured[name] == (value if value is None else pytest.approx(value, rel=0.05)), name


def test_every_gpu_of_the_table_is_modelled_and_says_what_is_a_guess(tmp_path):
    for target in known_targets().values():
        found = modelled(target)
        assert found.origin is Origin.MODELLED
        assert found.access.integrated == target.integrated
        assert {"copy_seconds", "host"} <= set(found.unverified)
        assert not {name for name in found.unverified if name in found.sources and name != "managed"}
        save(found, tmp_path / "file.json")
        assert load(tmp_path / "file.json") == found
    assert {key for key, target in known_targets().items() if target.integrated} == {
        "jetson-agx-orin-64", "jetson-agx-thor", "dgx-spark-gb10",
    }  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(access=st.one_of(st.none(), accesses()), rate=st.floats(1, 1e12), seconds=st.floats(0, 1))
def test_what_is_saved_is_loaded(access, rate, seconds, tmp_path_factory):
    path = tmp_path_factory.mktemp("calibrations") / "file.json"
    machine = replace(MACHINE, to_host=rate, flash_seconds=seconds)
    found = Calibration("nvidia:0", "A GPU", Origin.MEASURED, machine, access, ("host",), {"to_host": "somebody"})
    save(found, path)
    assert load(path) == found


def test_devices_like_an_integrated_one_are_integrated_unless_they_say_otherwise(tmp_path):
    (tmp_path / "own.toml").write_text(
        '[mine]\nlike = "jetson-agx-orin-64"\n[other]\nlike = "jetson-agx-orin-64"\nintegrated = false\n'
    )
    own = load_targets(tmp_path / "own.toml")
    assert [each.integrated for each in own.values()] == [True, False]
    assert modelled(own["mine"]).access.integrated
    said = {
        "name": "Orin", "memory": 64 << 30, "multiprocessors": 16, "level_2": 4 << 20, "major": 8, "minor": 7,
        "clock_khz": 1300000, "threads": 1536, "warp": 32, "block_threads": 1024, "block_shared": 166912,
        "block_shared_unasked": 49152, "block_registers": 65536, "shared": 167936, "registers": 65536, "blocks": 16,
        "shared_reserved": 1024,
    }  # fmt: skip
    assert gpu_target("nvidia", "nvidia:0", said).integrated
    assert not gpu_target("nvidia", "nvidia:0", {**said, "integrated": 0}).integrated


def changed(path, value):
    """A right file with one part changed; `...` takes it away."""
    data = to_json(modelled(ORIN))
    place_, *_ = [data]
    *outer, last = path.split(".")
    for name in outer:
        place_ = place_[name]
    if value is ...:
        del place_[last]
    else:
        place_[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("format", "g10", "expected 'vkernels calibration', got g10"),
        ("schema_version", 2, "expected 1, got 2"),
        ("schema_version", True, "expected 1, got True"),
        ("origin", "guessed", "Invalid enum value 'guessed'"),
        ("target", "a\x1b[2J", "printable"),
        ("machine", [], "Expected `object`"),
        ("machine.to_host", ..., "missing required field `to_host`"),
        ("machine.to_host", None, "Expected `float`"),
        ("machine.to_host", 0, "more than 0 bytes a second"),
        ("machine.to_host", -1.0, "Expected `float` >= 0"),
        ("machine.device_bytes", 1, "unknown field"),
        ("machine.fault_seconds", None, "fault_seconds"),
        ("access.to_device", 0, "Expected `float` > 0"),
        ("access.integrated", 1, "Expected `bool`"),
        ("access.device.read", "fast", "Expected `float`"),
        ("access.mapped.write", ..., "missing required field `write`"),
        ("access.managed.fault_bytes", 0, "fault_bytes"),
        ("access.managed.fault_bytes", 1.5, "Expected `int`"),
        ("access.copy_seconds", 1e300, "Expected `float` <= 1e+30"),
        ("unverified", {}, "Expected `array`"),
        ("sources", [], "Expected `object`"),
        ("sources", {"x": "\n"}, "printable"),
        ("extra", 1, "unknown field"),
    ],
)
def test_what_is_wrong_in_a_file_is_refused_with_its_line(tmp_path, path, value, words):
    file = tmp_path / "file.json"
    text = json.dumps(changed(path, value), indent=1)
    file.write_text(text)
    with pytest.raises(FileError) as error:
        load(file)
    message = str(error.value)
    assert words in message
    assert message.isprintable()
    line = int(message.removeprefix(f"{file}:").split(":")[0])
    name = path.split(".")[-1]
    if value is not ... and name in text.splitlines()[line - 1]:
        assert f'"{name}"' in text.splitlines()[line - 1]


def test_files_cut_short_or_with_bytes_changed_load_or_are_refused(tmp_path):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    drawn, file = random.Random(seed), tmp_path / "file.json"
    data = json.dumps(to_json(modelled(ORIN)), indent=1).encode()
    for _ in range(200):
        broken = bytearray(data[: drawn.randrange(len(data))] if drawn.random() < 0.3 else data)
        for _ in range(drawn.randrange(4)):
            broken[drawn.randrange(len(broken) or 1) : 1] = bytes([drawn.randrange(256)])
        file.write_bytes(broken)
        with suppress(FileError):  # and nothing else
            assert load(file).machine.to_host > 0


def test_figures_that_cannot_be_are_no_calibration():
    mapped = structs.replace(DISCRETE.mapped, read=0.0)
    with pytest.raises(OptionError, match=r"mapped.read"):
        Calibration("x", "x", Origin.MEASURED, MACHINE, structs.replace(DISCRETE, mapped=mapped))
    with pytest.raises(OptionError, match="to_host"):
        Calibration("x", "x", Origin.MEASURED, MACHINE, structs.replace(DISCRETE, to_host=float("nan")))


def test_links_of_this_cpu_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu, "COPIED", 1 << 20)
    monkeypatch.setattr(cpu, "following", lambda links: {"operation_seconds": 1e-5, "made_rate": 1e10})
    said = []
    found = cpu.calibrate_cpu(tmp_path, said.append)
    assert (found.target, found.origin, found.access, found.unverified) == ("cpu", Origin.MEASURED, None, ())
    rates = [getattr(found.machine, name) for name in ("to_host", "from_host", "to_flash", "from_flash")]
    assert all(1e6 < rate < 1e13 for rate in rates)
    assert 0 < found.machine.host_seconds < 1
    assert len(said) == 3
    assert not list(tmp_path.iterdir())
    assert set(cpu.calibrate_cpu().unverified) == {"to_flash", "from_flash", "flash_seconds"}
    sized = found.with_sizes(1, 2, 3)
    assert (sized.device_bytes, sized.host_bytes, sized.flash_bytes, sized.to_host) == (1, 2, 3, rates[0])


def test_flash_that_cannot_be_written_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(cpu, "COPIED", 1 << 20)
    with pytest.raises(FileError, match="nowhere"):
        cpu.calibrate_cpu(tmp_path / "nowhere")


def test_what_following_costs_is_measured_through_limit(monkeypatch):
    monkeypatch.setattr(cpu, "OPERATIONS", 20)
    monkeypatch.setattr(cpu, "LARGE", 1 << 16)
    monkeypatch.setattr(cpu, "MOVED", 12)
    found = cpu.following({"host_seconds": 0.0, "to_host": 1e10}, rounds=2)
    assert set(found) == {"operation_seconds", "made_seconds", "made_rate", "absence_seconds"}
    assert all(value >= 0 for value in found.values())
    assert found["made_rate"] > 0
    assert max(found["operation_seconds"], found["made_seconds"], found["absence_seconds"]) < 1


def decided(access, size=1 << 20):
    uses = (BufferUse("x", size, 0, size, 0),)
    return choose(PlacedProgram((Buffer("x", size),), (PlacedLaunch("k", uses, {}, 0.0),)), access)


def test_placing_says_what_is_not_there():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(SetupError, match="no GPU"):
        TorchTimer(0)
    zero_copy = decided(INTEGRATED)
    with pytest.raises(SetupError, match="no GPU"):
        place(zero_copy, {"x": torch.ones(4)})
    with pytest.raises(ArgumentError, match="no tensor for x"):
        place(zero_copy, {})
    with pytest.raises(ArgumentError, match="of the host"):
        place(zero_copy, {"x": [1.0]})
    with pytest.raises(ArgumentError, match="without gaps"):
        place(zero_copy, {"x": torch.ones(4, 4)[:, 1]})
    managed = decided(structs.replace(DISCRETE, to_device=1e6, mapped=structs.replace(DISCRETE.mapped, read=1e6)))
    with pytest.raises(SetupError, match="torch makes no managed memory"):
        place(managed, {"x": torch.ones(4)})
