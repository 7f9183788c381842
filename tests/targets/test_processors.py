"""CPUs by LLVM's names, which need not be present."""

import dataclasses

import pytest

from vkernels.ir.limits import Limits, limits_from
from vkernels.targets import host_cpu, limits_of
from vkernels.targets.processors import PROCESSORS, processor_targets
from vkernels.targets.slices import target_or_slice


@pytest.mark.parametrize("name", PROCESSORS)
def test_limits_name_the_processor(name):
    limits = limits_of(processor_targets()[f"cpu:{name}"])
    assert limits.processor == name
    assert limits.warp == 1
    assert limits.shared <= limits.cache
    assert limits_from(dataclasses.asdict(limits)) == limits


@pytest.mark.parametrize(
    ("name", "registers", "units"),
    [
        ("skylake-avx512", (32, 64), ()),
        ("icelake-server", (32, 64), ("vnni",)),
        ("sapphirerapids", (32, 64), ("amx-int8", "amx-bf16", "amx-bf16-split", "vnni", "avx512-bf16")),
        ("graniterapids", (32, 64), ("amx-int8", "amx-bf16", "amx-fp16", "vnni", "avx512-bf16")),
        ("znver4", (32, 64), ("vnni", "avx512-bf16")),
        ("sierraforest", (16, 32), ("vnni-int8", "vnni")),
        ("alderlake", (16, 32), ("vnni",)),
        ("znver3", (16, 32), ()),
        ("neoverse-v2", (32, 16), ("neon-mmla-int8", "neon-i8mm", "neon-dotprod", "neon-mmla-bf16", "neon-bf16")),
        ("neoverse-v1", (32, 32), ("sve-mmla-int8", "sve-i8mm", "sve-dotprod", "sve-mmla-bf16", "sve-bf16")),
        ("a64fx", (32, 64), ("sve-dotprod",)),
        ("apple-m1", (32, 16), ("neon-dotprod",)),
    ],
)
def test_units_follow_from_the_processor(name: str, registers: tuple[int, int], units: tuple[str, ...]):
    limits = limits_of(processor_targets()[f"cpu:{name}"])
    assert (limits.registers, limits.register_bytes) == registers
    assert limits.dot_units == units


def test_a_processor_is_cut_like_any_cpu():
    target = target_or_slice("cpu:znver4:cores=2", processor_targets())
    assert target.multiprocessors == 2
    assert limits_of(target).processor == "znver4"


def test_this_machine_is_no_named_processor():
    from vkernels.targets.present import present_cpu

    assert limits_of(present_cpu()).processor == ""
    assert Limits(1, 1, 1, 1, 1).dot_units == ()


def test_matrix_units_need_the_systems_permission(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_cpu, "ask_for_matrices", lambda: False)
    assert host_cpu.granted(("amx-bf16", "vnni", "avx512-bf16")) == ("vnni", "avx512-bf16")
    monkeypatch.setattr(host_cpu, "ask_for_matrices", lambda: True)
    assert host_cpu.granted(("amx-bf16", "vnni")) == ("amx-bf16", "vnni")


def test_asking_for_permission_twice_gives_the_same_answer():
    first = host_cpu.ask_for_matrices()
    host_cpu.ask_for_matrices.cache_clear()
    assert host_cpu.ask_for_matrices() is first
