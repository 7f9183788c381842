"""Which processor this is, and the rates of its family."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkernels.targets import cpu_rates
from vkernels.targets.cpu_rates import CpuRates, family_cpu_rates, in_ranges, known_cpu_rates, vector_bytes
from vkernels.targets.family_rates import FAMILIES, OTHERS, family_of, memory_of, multiply_adds_of
from vkernels.targets.host_cpu import cpu_limits
from vkernels.targets.processor import Processor, llvm_processor, read_processor, this_processor

INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 207
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 2
microcode\t: 0x1

processor\t: 1
vendor_id\t: GenuineIntel
model\t\t: 1
"""
ARM = """processor\t: 0
BogoMIPS\t: 2100.00
CPU implementer\t: 0x41
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 1
"""
XEON = Processor("x86_64", "GenuineIntel", "6", "207", "2", "0x1", "Intel(R) Xeon(R) Processor")


def test_the_first_processor_is_read():
    assert read_processor(INTEL, "x86_64") == XEON
    assert read_processor(ARM, "aarch64") == Processor("aarch64", "0x41", "", "0xd4f", "0x0", "1")


@pytest.mark.parametrize("text", ["", ":", "vendor_id", "vendor_id:", "\x00\n\n:::\nmodel: \n"])
def test_other_texts_say_nothing(text):
    assert read_processor(text, "riscv64") == Processor("riscv64")


@pytest.mark.parametrize(
    ("name", "features", "expected"),
    [
        ("rocketlake", {"amx-tile": True}, "sapphirerapids"),
        ("rocketlake", {"amx-tile": False}, "rocketlake"),
        ("emeraldrapids", {"amx-tile": False}, "emeraldrapids"),
        ("graniterapids", {"amx-tile": True}, "graniterapids"),
        ("generic", {}, "generic"),
    ],
)
def test_a_name_gives_way_to_instructions(name, features, expected):
    assert llvm_processor(name, features) == expected


@pytest.mark.parametrize(
    ("processor", "register_bytes", "vectors", "loads"),
    [
        (XEON, 64, 2, 2),
        (XEON, 32, None, None),
        (Processor("x86_64", "AuthenticAMD", "25", "17"), 64, None, None),
        (Processor("x86_64", "AuthenticAMD", "26", "2"), 64, 2, 2),
        (Processor("aarch64", "0x41", "", "0xd4f"), 16, 4, None),
        (Processor("aarch64", "0x41", "", "0xd0c"), 16, None, None),
        (Processor(""), 16, None, None),
    ],
)
def test_families(processor, register_bytes, vectors, loads):
    family = family_of(processor, register_bytes)
    assert family.vectors == vectors
    assert family.core(register_bytes).loads == (loads or (1.0 if register_bytes > 32 else 2.0))


@pytest.mark.parametrize("family", [OTHERS, *(row.rates for row in FAMILIES)])
@pytest.mark.parametrize("cores", [1, 2, 64])
@pytest.mark.parametrize("register_bytes", [16, 32, 64])
def test_what_a_family_is_taken_for_could_be_measured(monkeypatch, family, cores, register_bytes):
    limits = replace(cpu_limits(), multiprocessors=cores, register_bytes=register_bytes)
    monkeypatch.setattr(cpu_rates, "cpu_limits", lambda: limits)
    monkeypatch.setattr(cpu_rates, "family_of", lambda *of: family)
    rates = family_cpu_rates()
    assert rates == in_ranges(rates)
    assert rates.core_memory <= rates.memory == memory_of(family, limits)
    assert rates.memory < rates.cache < rates.shared
    assert rates.multiply_adds == multiply_adds_of(family, limits)


def test_rates_are_kept_by_processor_and_microcode(monkeypatch):
    def key(processor):
        monkeypatch.setattr(cpu_rates, "this_processor", lambda: processor)
        return cpu_rates._key.__wrapped__()

    keys = {key(XEON), key(replace(XEON, microcode="0x2")), key(replace(XEON, model="143"))}
    assert len(keys) == 3
    assert key(XEON) in keys
    monkeypatch.setattr(cpu_rates, "cpu_limits", lambda: replace(cpu_limits(), multiprocessors=999))
    assert key(XEON) not in keys


def test_vectors_are_as_narrow_as_is_fastest(monkeypatch):
    narrow = replace(family_cpu_rates(), register_bytes=16)
    monkeypatch.setattr(cpu_rates, "known_cpu_rates", lambda: narrow)
    assert vector_bytes() == 16
    monkeypatch.setattr(cpu_rates, "known_cpu_rates", lambda: replace(narrow, register_bytes=64))
    assert vector_bytes() == cpu_limits().register_bytes


def test_in_tests_rates_are_the_familys():
    assert known_cpu_rates() == family_cpu_rates()
    assert isinstance(known_cpu_rates(), CpuRates)
    assert this_processor() is this_processor()
