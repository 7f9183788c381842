"""Sets of CPU instructions by name, and what a machine lacks of them."""

import platform

import llvmlite.binding as llvm
import pytest

from vkernels.ir.errors import OptionError
from vkernels.targets import instruction_sets
from vkernels.targets.instruction_sets import host_needs, instruction_set, lacking


def test_levels_and_additions():
    chosen = instruction_set("x86-64-v4+avx512vnni")
    assert chosen.llvm_features == "+avx512vnni"
    assert {"avx2", "avx512vl", "avx512vnni"} <= {*chosen.features}
    assert set(instruction_set("x86-64-v2").features) < set(instruction_set("x86-64-v3").features) < {*chosen.features}
    for wrong in ("x86-64-v5", "znver3", "aarch64+avx2", ""):
        with pytest.raises(OptionError):
            instruction_set(wrong)


def test_this_machine_lacks_nothing_that_it_has():
    needs = host_needs(dict(llvm.get_host_cpu_features()))
    assert lacking(platform.machine(), needs) == ()
    assert lacking("riscv64", ()) == ("riscv64",)


def test_flags_of_linux(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(instruction_sets, "cpu_flags", lambda: frozenset({"pni", "sse4_1", "avx512_vnni"}))
    assert lacking("x86_64", ("sse3", "sse4.1", "avx512vnni")) == ()
    assert lacking("x86_64", ("sse3", "avx2")) == ("avx2",)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(instruction_sets, "cpu_flags", lambda: frozenset({"asimd", "asimddp"}))
    assert lacking("aarch64", ("neon", "dotprod")) == ()
