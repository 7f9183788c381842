"""`vk targets`: what it shows, writes and refuses."""

import json
from dataclasses import fields

import pytest

from vkernels.commands.targets import RATES
from vkernels.compiler.calibrate_cpu import Measured
from vkernels.targets import known_targets
from vkernels.targets.cpu_rates import CpuRates, family_cpu_rates

MINE = '[mine]\nlike = "t4"\nname = "[bold]My[/] card"\n'


@pytest.fixture
def vk(run_vk, monkeypatch):
    """Runs `vk` in this process on a wide terminal; gives exit code, output and errors."""
    monkeypatch.setenv("COLUMNS", "200")
    return run_vk


def test_known_and_present_devices_are_shown(vk):
    code, output, errors = vk("targets")
    assert (code, errors) == (0, "")
    for key, target in known_targets().items():
        (line, *_) = [line for line in output.splitlines() if line.startswith(f"{key} ")]
        assert target.name in line
        assert target.architecture in line
        assert f" {target.multiprocessors}" in line
    assert "cpu" in output
    assert "7 × 1g.10gb" in output


@pytest.mark.parametrize("width", [20, 80])
def test_no_key_is_cut_where_there_is_room_for_it(vk, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, output, _ = vk("targets")
    assert code == 0
    assert width < 80 or all(key in output for key in known_targets())


def test_ones_own_devices_are_shown_as_they_are_named(vk, tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    code, output, _ = vk("targets", "--table", tmp_path / "mine.toml")
    assert code == 0
    assert "[bold]My[/] card" in output


def test_json_has_every_device(vk, tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    code, output, errors = vk("targets", "--table", tmp_path / "mine.toml", "--json", "-")
    assert code == 0
    found = json.loads(output)
    assert (found["schema_version"], found["command"]) == (1, "targets")
    assert [target["key"] for target in found["known"]] == [*known_targets()]
    assert [target["key"] for target in found["own"]] == ["mine"]
    assert found["present"][-1]["key"] == "cpu"
    h100 = next(target for target in found["known"] if target["key"] == "h100-sxm5-80")
    assert h100["limits"]["shared"] == 232448
    assert h100["sizes"]["registers"] == 65536
    assert h100["slices"][0]["memory_share"] == "1/8"
    assert {name for names in h100["sources"].values() for name in names} <= set(found["sources"])
    assert "h100-sxm5-80" in errors


def test_json_can_go_to_a_file(vk, tmp_path):
    code, output, _ = vk("targets", "--json", tmp_path / "targets.json")
    assert code == 0
    assert "h100-sxm5-80" in output
    assert json.loads((tmp_path / "targets.json").read_text())["command"] == "targets"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("absent.toml", None, "no file"),
        ("broken.toml", "[mine", "is no TOML"),
        (
            "wrong.toml",
            '[mine]\nlike = "t4"\nmultiprocessors = "many"',
            "mine: multiprocessors: expected a whole number",
        ),
    ],
)
def test_a_broken_table_is_one_message_and_code_2(vk, tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    code, output, errors = vk("targets", "--table", tmp_path / name)
    assert (code, output) == (2, "")
    assert errors.startswith(f"error: {tmp_path / name}")
    assert words in errors
    assert errors.count("\n") == 1


def test_json_that_cannot_be_written_is_code_2(vk, tmp_path):
    code, output, errors = vk("targets", "--json", tmp_path / "absent" / "targets.json")
    assert (code, output) == (2, "")
    assert "does not exist" in errors


@pytest.mark.parametrize(
    ("disturbed", "stored", "words"),
    [(False, True, ""), (True, False, "other work disturbed"), (False, False, "cannot be written")],
)
def test_what_is_measured_stands_beside_what_is_assumed(vk, monkeypatch, disturbed, stored, words):
    found = Measured(family_cpu_rates(), disturbed, stored)
    monkeypatch.setattr("vkernels.compiler.calibrate_cpu.measure_and_store", lambda launch: found)
    code, output, errors = vk("targets", "--calibrate")
    assert (code, errors) == (0, "")
    rows = [line for line in output.splitlines() if line.startswith("L2, all cores")]
    assert len(rows) == 1
    assert rows[0].split()[3:5] == [f"{found.rates.shared / 1e9:.3g}"] * 2
    assert words in output
    assert ("Not saved" in output) == (not stored)


def test_every_rate_is_shown():
    assert [*RATES] == [field.name for field in fields(CpuRates)]
