"""Records come back as they were, and from damaged bytes only an error."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.compiler.backends.triton_adapter import Binary, GpuOptions
from vkernels.compiler.records import from_bytes, to_bytes
from vkernels.compiler.workers.jobs import CompiledBinary, CompileFailure, CompileFailureReason, CompileJob
from vkernels.ir.lowering.llvm.lower_to_llvm import LlvmModule

numbers = st.integers(-(2**63), 2**63)
texts = st.text()
seconds = st.floats(0, 1e9)
options = st.builds(GpuOptions, st.sampled_from([1, 2, 4, 32]), st.integers(1, 9), st.integers(0, 2**40), st.just("{}"))
binaries = st.builds(
    Binary, texts, texts, st.binary(), texts, numbers, numbers, numbers, numbers, numbers, texts, texts
)
names = st.lists(texts, max_size=3).map(tuple)
records = st.one_of(
    st.builds(CompileJob, texts, texts, options),
    st.builds(CompiledBinary, binaries, seconds),
    st.builds(CompileFailure, st.sampled_from(CompileFailureReason), texts, seconds, texts, st.booleans()),
    st.builds(LlvmModule, texts, texts, numbers, names, numbers, texts, names, numbers),
)
KINDS = (CompileJob, CompiledBinary, CompileFailure, LlvmModule)


@given(records)
def test_a_record_comes_back_as_it_was(record):
    assert from_bytes(to_bytes(record), *KINDS) == record


@given(records)
def test_a_record_of_another_kind_is_refused(record):
    with pytest.raises(ValueError, match="these bytes are no"):
        from_bytes(to_bytes(record), *(kind for kind in KINDS if kind is not type(record)))


@given(records, st.data())
def test_damaged_bytes_give_a_whole_record_or_a_value_error(record, data):
    damaged = bytearray(to_bytes(record))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = from_bytes(bytes(damaged), *KINDS)
    except ValueError:
        return
    assert to_bytes(from_bytes(to_bytes(found), *KINDS)) == to_bytes(found)


@given(records, st.data())
def test_truncated_and_lengthened_bytes_are_refused(record, data):
    whole = to_bytes(record)
    for changed in (whole[: data.draw(st.integers(0, len(whole) - 1))], whole + data.draw(st.binary(min_size=1))):
        with pytest.raises(ValueError, match="these bytes are no"):
            from_bytes(changed, *KINDS)


def bytes_of(*message: object) -> bytes:
    return msgspec.msgpack.encode(message)


REST = {"scratch_bytes": 0, "settings": "{}"}


def test_these_bytes_are_as_they_should_be():
    data = bytes_of("GpuOptions", {"warps": 4, "stages": 1, **REST})
    assert from_bytes(data, GpuOptions) == GpuOptions(4, 1)


@pytest.mark.parametrize(
    "data",
    [
        bytes_of("GpuOptions", {"warps": 4, "stages": True, **REST}),
        bytes_of("GpuOptions", {"warps": 4, "stages": 1.5, **REST}),
        bytes_of("GpuOptions", {"warps": 4, "stages": None, **REST}),
        bytes_of("GpuOptions", {"warps": 4}),
        bytes_of("GpuOptions", {"warps": 3, "stages": 1, **REST}),
        bytes_of("GpuOptions", [4, 1, 0, ""]),
        bytes_of("GpuOptions", {"warps": [4], "stages": 1, **REST}),
        bytes_of(["GpuOptions"], {}),
        bytes_of("GpuOptions"),
        bytes_of("GpuOptions", {"warps": 4, "stages": 1, **REST}, 1),
        b"\0\0\0\1[",
        b"\x91" * 100_000,
        b"\xdb\xff\xff\xff\xff" + b"9" * 100_000,
        b"",
    ],
)
def test_hostile_bytes_are_refused(data):
    with pytest.raises(ValueError, match="these bytes are no GpuOptions"):
        from_bytes(data, GpuOptions)


def test_a_field_that_is_no_plain_value_cannot_be_written():
    @dataclass(frozen=True)
    class Odd:
        value: object

    with pytest.raises(TypeError):
        to_bytes(Odd(object()))


TOGETHER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import make_dataclass
from threading import Barrier

from vkernels.compiler.records import from_bytes, to_bytes

sys.setswitchinterval(1e-6)
barrier = Barrier(8)

def read(data, kind):
    barrier.wait()
    return from_bytes(data, kind)

with ThreadPoolExecutor(8) as threads:
    for _ in range(200):
        leaf = make_dataclass("Leaf", [(f"f{number}", int) for number in range(30)], frozen=True)
        kind = make_dataclass("Node", [(f"f{number}", leaf) for number in range(10)], frozen=True)
        record = kind(*(leaf(*range(30)) for _ in range(10)))
        found = [threads.submit(read, to_bytes(record), kind) for _ in range(8)]
        assert all(each.result() == record for each in found)
"""


def test_threads_may_read_the_first_records_of_a_kind_together():
    subprocess.run([sys.executable, "-c", TOGETHER], check=True, timeout=100)  # what fails is the process
