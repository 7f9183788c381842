"""What a machine offers is read from its features, caches and control groups."""

import pytest

from vkernels.ir.errors import OptionError
from vkernels.runtime import get_threads, set_threads
from vkernels.targets import host_cpu
from vkernels.targets.host_cpu import (
    _quotas,
    cache_bytes,
    cpu_limits,
    dot_units,
    memory_bytes,
    usable_cores,
    vector_registers,
)


def test_limits_of_this_machine_are_plausible():
    limits = cpu_limits()
    assert limits.registers in (16, 32)
    assert limits.register_bytes in (16, 32, 64)
    assert 64 << 10 <= limits.shared <= limits.cache
    assert limits.multiprocessors == usable_cores() >= 1
    assert cpu_limits() is limits


@pytest.mark.parametrize(
    ("features", "machine", "expected"),
    [
        (dict.fromkeys(("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2"), True), "x86_64", (32, 64)),
        ({"avx512f": True, "avx512vl": False, "avx2": True}, "x86_64", (16, 32)),
        ({"avx2": True}, "AMD64", (16, 32)),
        ({}, "x86_64", (16, 16)),
        ({"neon": True}, "aarch64", (32, 16)),
    ],
)
def test_vector_registers(features, machine, expected):
    assert vector_registers(features, machine) == expected


WIDE = dict.fromkeys(("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2"), True)


@pytest.mark.parametrize(
    ("features", "machine", "expected"),
    [
        (WIDE, "x86_64", ()),
        (WIDE | {"avx512vnni": True}, "x86_64", ("vnni",)),
        (WIDE | {"avx512vnni": True, "avx512bf16": True, "avxvnniint8": True}, "AMD64", ("vnni", "avx512-bf16")),
        ({"avx2": True, "avx512vnni": True}, "x86_64", ()),
        ({"avx2": True, "avxvnni": True}, "x86_64", ("vnni",)),
        ({"avx2": True, "avxvnni": True, "avxvnniint8": True}, "x86_64", ("vnni-int8", "vnni")),
        ({"avxvnni": True}, "x86_64", ()),
        (
            WIDE | {"amx-tile": True, "amx-bf16": True, "avx512vnni": True},
            "x86_64",
            ("amx-bf16", "amx-bf16-split", "vnni"),
        ),
        (WIDE | {"amx-bf16": True, "amx-int8": True}, "x86_64", ()),
        ({"neon": True}, "aarch64", ()),
        ({"neon": True, "dotprod": True, "bf16": True}, "arm64", ("neon-dotprod", "neon-mmla-bf16", "neon-bf16")),
    ],
)
def test_dot_units_are_those_for_whole_registers(features, machine, expected):
    assert dot_units(features, machine) == expected


def test_caches_are_read_by_level(tmp_path):
    for number, (level, kind, size, cores) in enumerate(
        [("1", "Data", "32K", "0-1"), ("1", "Instruction", "64K", "0-1"), ("2", "Unified", "2048K", "0-1"),
         ("3", "Unified", "32M", "0-7,16-23")]
    ):  # fmt: skip
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", cores)):
            (folder / name).write_text(text + "\n")
    assert cache_bytes(2, True, tmp_path) == 1 << 20
    assert cache_bytes(3, False, tmp_path) == 32 << 20
    assert cache_bytes(3, True, tmp_path) == 2 << 20
    assert cache_bytes(4, False, tmp_path) == 0


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Write the files of control groups, and the groups that this process is in."""
    monkeypatch.setattr(host_cpu, "CGROUPS", tmp_path)
    monkeypatch.setattr(host_cpu, "OWN_GROUPS", tmp_path / "own")

    def write(own="", **files):
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            file = tmp_path / name.replace("__", "/").replace("_max", ".max").replace("cpu_cfs", "cpu.cfs")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    return write


@pytest.mark.parametrize(("text", "cores"), [("150000 100000", [2]), ("max 100000", []), ("50000 100000", [1])])
def test_quotas_of_control_groups(groups, text, cores):
    groups(cpu_max=text)
    assert list(_quotas()) == cores


def test_quotas_of_old_control_groups(groups):
    groups(cpu__cpu_cfs_quota_us="300000", cpu__cpu_cfs_period_us="100000")
    assert list(_quotas()) == [3]
    groups(cpu__cpu_cfs_quota_us="-1")
    assert list(_quotas()) == []


def test_a_group_has_no_more_than_those_around_it(groups):
    inner = {"cpu_max": "max 100000", "a__cpu_max": "300000 100000", "a__b__cpu_max": "700000 100000"}
    groups(own="1:name=systemd:/x\n0::/a/b\n", **inner, x__cpu_max="100000 100000")
    assert list(_quotas()) == [3, 7]
    groups(own="0::/a\n")
    assert list(_quotas()) == [3]
    groups(own="0::/../a\nnonsense\n")  # moved out of its container
    assert list(_quotas()) == []
    groups(own="4:cpu,cpuacct:/a\n", cpu__a__cpu_cfs_quota_us="250000", cpu__a__cpu_cfs_period_us="100000")
    assert list(_quotas()) == [3]


def test_memory_is_the_least_that_groups_grant(groups):
    machine = memory_bytes()
    groups(own="0::/a/b\n", memory_max="max", a__memory_max=str(1 << 25), a__b__memory_max=str(1 << 62))
    assert memory_bytes() == 1 << 25 < machine


def test_the_number_of_threads_can_be_set(monkeypatch):
    before = get_threads()
    set_threads(3)
    assert get_threads() == 3
    forgotten: list[int] = []
    monkeypatch.setattr("vkernels.runtime.threads._on_change", [lambda: forgotten.append(get_threads())])
    set_threads(3)
    assert forgotten == []
    set_threads(before)
    assert forgotten == [before]
    for wrong in (0, -1, 2.0, True, "2"):
        with pytest.raises(OptionError, match="threads: expected a whole number of at least 1"):
            set_threads(wrong)
