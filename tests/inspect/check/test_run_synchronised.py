"""Programs of a launch that order their accesses by atomic updates: locks, and counters of those that are done."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vkernels.inspect.cases import executed
from vkernels.inspect.check.run_inputs import ran_on_inputs
from vkernels.ir.interpret.ttir.races import InterpreterClock, Stamps

TRITON = """
import numpy as np
import torch
import triton
import triton.language as tl

SEED = np.random.SeedSequence().entropy
print("seed", SEED)
RANDOM = torch.Generator().manual_seed(SEED % 2**63)
GIVEN = {}
PROGRAMS = 9

@triton.jit
def under_a_lock(x, out, lock, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + i, tl.load(out + i) + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)

@triton.jit
def the_first_stores(x, out, lock, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(lock + 1) == 0:
        tl.store(out + i, value)
        tl.atomic_xchg(lock + 1, 1)
    else:
        tl.store(out + i, tl.load(out + i) + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)

@triton.jit
def after_the_lock(x, out, lock, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock, 0)
    tl.store(out + i, tl.load(out + i) + value)

@triton.jit
def own_locks(x, out, lock, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock + tl.program_id(0), 0, 1) == 1:
        pass
    tl.store(out + i, tl.load(out + i) + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock + tl.program_id(0), 0)

@triton.jit
def the_last_adds(x, out, lock, N: tl.constexpr, sem: tl.constexpr = "acq_rel", scope: tl.constexpr = "gpu"):
    i = tl.arange(0, N)
    row = out + N * (1 + tl.program_id(0)) + i
    tl.store(row, tl.load(x + tl.program_id(0) * N + i))
    tl.debug_barrier()
    if tl.atomic_add(lock, 1, sem=sem, scope=scope) == tl.num_programs(0) - 1:
        total = tl.zeros((N,), tl.float32)
        for program in range(tl.num_programs(0)):
            total += tl.load(out + N * (1 + program) + i)
        tl.store(out + i, total)

@triton.jit
def all_add(x, out, lock, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + N * (1 + tl.program_id(0)) + i, tl.load(x + tl.program_id(0) * N + i))
    tl.debug_barrier()
    tl.atomic_add(lock, 1)
    total = tl.zeros((N,), tl.float32)
    for program in range(tl.num_programs(0)):
        total += tl.load(out + N * (1 + program) + i)
    tl.store(x + tl.program_id(0) * N + i, total)

@triton.jit
def swaps(x, out, lock, N: tl.constexpr):
    i = tl.arange(0, 16)
    found = tl.atomic_cas(lock + i, (i % 2).to(tl.int32), i + 5)
    tl.store(out + i, found.to(tl.float32))

def inputs():
    GIVEN["x"] = torch.randn(PROGRAMS, 16, generator=RANDOM)
    GIVEN["out"], GIVEN["lock"] = torch.zeros(PROGRAMS + 1, 16), torch.zeros(16, dtype=torch.int32)
    return dict(GIVEN), PROGRAMS

def one():
    return inputs()[0], 1
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("synchronised") / "synchronised.py"
    path.write_text(TRITON)
    return str(path)


def ran(file, name, inputs="inputs", **constants):
    types = {"x": "*fp32", "out": "*fp32", "lock": "*i32"}
    case = {
        "kind": "jit", "source": {"name": name, "module": "", "file": file}, "types": types,
        "constants": {"N": 16, **constants}, "divisible": ["x", "out"], "number": 0, "warps": None, "stages": None,
    }  # fmt: skip
    return ran_on_inputs({"case": case, "inputs": inputs, "architecture": "sm_90"})


@pytest.mark.parametrize(
    ("name", "constants"),
    [("under_a_lock", {}), ("the_first_stores", {}), ("the_last_adds", {}), ("the_last_adds", {"scope": "sys"})],
)
def test_what_atomic_updates_order_is_no_race(file, name, constants):
    assert ran(file, name, **constants) == {"programs": 9}
    given = executed(file).GIVEN
    expected = given["x"].double().sum(0).numpy()
    np.testing.assert_allclose(given["out"][0].numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "constants"),
    [
        ("after_the_lock", {}), ("own_locks", {}), ("all_add", {}), ("the_last_adds", {"sem": "relaxed"}),
        ("the_last_adds", {"sem": "release"}), ("the_last_adds", {"sem": "acquire"}),
        ("the_last_adds", {"scope": "cta"}),
    ],
)  # fmt: skip
def test_what_they_do_not_order_is_a_race(file, name, constants):
    assert re.search(
        r"of `out`, which another program of the launch has (written|read)", ran(file, name, **constants)["finding"]
    )


def test_values_are_swapped_where_they_are_as_expected(file):
    assert ran(file, "swaps", "one") == {"programs": 1}
    given = executed(file).GIVEN
    np.testing.assert_array_equal(given["out"][0].numpy(), np.zeros(16))
    np.testing.assert_array_equal(given["lock"].numpy(), [i + 5 if i % 2 == 0 else 0 for i in range(16)])


def test_order_passes_from_program_to_program():
    """The third comes after the first by the second, which did not access the byte; and not after what came later."""
    clock, stamps, cell = InterpreterClock(), Stamps(4), np.array([0])

    def does(what):
        clock.tick()
        return stamps.note(what, cell, 4, clock, True)

    clock.next_program()
    assert does("writes") is None
    first = clock.release({})
    clock.next_program()
    clock.tick()
    clock.acquire(first)
    second = clock.release({})
    clock.next_program()
    clock.acquire(second)
    assert does("reads") is None
    assert does("writes").other_program is False  # its own read, with no barrier since
    clock.next_program()
    clock.acquire(second)
    assert does("reads").other_program


def test_readers_that_did_not_release_forbid_a_write():
    clock, stamps, cell = InterpreterClock(), Stamps(4), np.array([0])
    released = {}
    for is_released in (True, False):
        clock.next_program()
        clock.tick()
        assert stamps.note("reads", cell, 4, clock, True) is None
        released = clock.release(released) if is_released else released
    clock.next_program()
    clock.acquire(released)
    clock.tick()
    assert stamps.note("writes", cell, 4, clock, True).earlier == "read"
