"""Kernels run on their author's own inputs: right results, and what would go wrong on a GPU, at the author's line."""

from __future__ import annotations

import re
from dataclasses import asdict

import numpy as np
import pytest

from vkernels.inspect.cases import executed
from vkernels.inspect.check.run_inputs import ran_on_inputs
from vkernels.ir.errors import ArgumentError, FileError, OptionError
from vkernels.targets import target_named
from vkernels.targets.slices import planned_limits

TRITON = """
import numpy as np
import torch
import triton
import triton.language as tl

SEED = np.random.SeedSequence().entropy
print("seed", SEED)
RANDOM = torch.Generator().manual_seed(SEED % 2**63)
KEPT = {}

def drawn(*shape):
    return torch.randn(*shape, generator=RANDOM)

@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < count
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)

@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + j, mask=j < columns, other=-float("inf"))
    e = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + tl.program_id(0) * columns + j, e / tl.sum(e, axis=0), mask=j < columns)

@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    n = (tl.program_id(1) * BN + tl.arange(0, BN))[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        left = tl.load(a + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + m * N + n, tl.where(total > 0, total, 0.0).to(tl.bfloat16), mask=(m < M) & (n < N))

@triton.jit
def sums(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < count, other=0.0), axis=0))
    if tl.program_id(0) == tl.num_programs(0) - 1:
        tl.store(out + 1, tl.cumsum(tl.arange(0, BLOCK), 0).to(tl.float32).max(0))

@triton.jit
def race(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + i, mask=i < count, other=0.0), axis=0)
    tl.store(out, tl.load(out) + part)

@triton.jit
def turned(x, count: tl.constexpr):
    i = tl.arange(0, count)
    tl.store(x + i, tl.load(x + i) + 1.0)
    tl.store(x + i, tl.load(x + i) * 2.0)
    tl.store(x + i, tl.load(x + count - 1 - i))

@triton.jit
def several(x, out, count, BLOCK: tl.constexpr):
    if tl.program_id(0) * BLOCK >= count:
        return
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < count, other=0.0, eviction_policy="evict_last")
    value = tl.clamp(value, -1.0, 1.0) + tl.rand(7, i) * 0.0 + tl.argmax(tl.arange(0, BLOCK), 0)
    steps = 0
    while steps < 3:
        value += 1.0
        steps += 1
    tl.store(out + i, value, mask=i < count)
    tl.debug_barrier()
    first = tl.program_id(0) * BLOCK
    tl.store(out + first, tl.load(out + first) + 1.0)

@triton.jit
def assembly(x, out):
    tl.store(out, tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [tl.load(x)], tl.int32, True, 1))

def add_inputs(count=1000, given=1000):
    x, y = drawn(given), drawn(given)
    KEPT["add"] = x + y, (out := torch.full((given,), float("nan")))
    return {"x": x, "y": y, "out": out, "count": count}, lambda meta: (triton.cdiv(count, meta["BLOCK"]),)

def add_beyond():
    return add_inputs(1001)

def softmax_inputs():
    x = drawn(5, 60)
    KEPT["softmax"] = torch.softmax(x, -1), (out := torch.full_like(x, float("nan")))
    return {"x": x, "out": out, "columns": 60}, 5

def matmul_inputs():
    a, b = drawn(20, 33).half(), drawn(33, 40).half()
    KEPT["matmul"] = (a.double() @ b.double()).relu().bfloat16().float(), (c := torch.empty(20, 40).bfloat16())
    return {"a": a, "b": b, "c": c, "M": 20, "N": 40, "K": 33}, (2, 3)

def sums_inputs():
    x = drawn(300)
    KEPT["sums"] = torch.stack([x.sum(), torch.tensor(63.0 * 64 / 2)]), (out := torch.zeros(2))
    return {"x": x, "out": out, "count": 300}, (5,)

def several_inputs():
    x = drawn(100)
    expected = x.clamp(-1, 1) + 63 + 3
    expected[::64] += 1
    KEPT["several"] = expected, (out := torch.full((100,), float("nan")))
    return {"x": x, "out": out, "count": 100}, 4

def one():
    return {"x": torch.zeros(64, dtype=torch.int32), "out": torch.zeros(1, dtype=torch.int32)}, 1

def turned_inputs():
    return {"x": drawn(64)}, 1

def only_x():
    return {"x": drawn(300)}, 1

def without_grid():
    return {"x": drawn(300)}

def doubles():
    return {"x": np.zeros(300), "out": np.zeros(2, np.float32), "count": 300}, 5

def none():
    return {"x": drawn(300), "out": torch.zeros(2), "count": 300}, 0

def failing():
    raise ValueError("no data")
"""
F32 = {"x": "*fp32", "out": "*fp32", "count": "i32"}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("inputs") / "plain_triton.py"
    path.write_text(TRITON)
    return str(path)


def ran(file, name, inputs, types, divisible=(), grid=None, **constants):
    case = {
        "kind": "jit", "source": {"name": name, "module": "", "file": file}, "types": types, "constants": constants,
        "divisible": list(divisible), "number": 0, "warps": None, "stages": None,
    }  # fmt: skip
    return ran_on_inputs({"case": case, "inputs": inputs, "architecture": "sm_90", "grid": grid})


@pytest.mark.parametrize(
    ("name", "types", "constants", "programs"),
    [
        ("add", {"x": "*fp32", "y": "*fp32", "out": "*fp32", "count": "i32"}, {"BLOCK": 256}, 4),
        ("softmax", {"x": "*fp32", "out": "*fp32", "columns": "i32"}, {"BLOCK": 64}, 5),
        ("matmul", {"a": "*fp16", "b": "*fp16", "c": "*bf16", "M": "i32", "N": "i32", "K": "i32"},
         {"BM": 16, "BN": 16, "BK": 16}, 6),
        ("sums", F32, {"BLOCK": 64}, 5),
        ("several", F32, {"BLOCK": 64}, 4),
    ],
)  # fmt: skip
def test_results_are_right_where_nothing_is_wrong(file, name, types, constants, programs):
    divisible = [each for each, type_ in types.items() if type_.startswith("*")]
    assert ran(file, name, f"{name}_inputs", types, divisible, **constants) == {"programs": programs}
    expected, given = executed(file).KEPT[name]
    np.testing.assert_allclose(given.float().numpy(), expected.numpy(), rtol=1e-2 if name == "matmul" else 1e-5)


def line_of(text):
    return 1 + next(number for number, line in enumerate(TRITON.splitlines()) if text in line)


@pytest.mark.parametrize(
    ("name", "inputs", "types", "constants", "line", "said"),
    [
        ("add", "add_beyond", {"x": "*fp32", "y": "*fp32", "out": "*fp32", "count": "i32"}, {"BLOCK": 256},
         "tl.load(x + i, mask=mask) + tl.load", r"reads 4 bytes at byte 4000 of `[xy]`, outside its 4000 bytes"),
        ("race", "sums_inputs", F32, {"BLOCK": 64}, "tl.load(out) + part", "of `out`, which another program"),
        ("turned", "turned_inputs", {"x": "*fp32"}, {"count": 64}, "count - 1 - i", "with no barrier since"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_the_authors_line(file, name, inputs, types, constants, line, said):
    """Accesses of one position of tensors of one shape are in order; those of others need a barrier."""
    finding = ran(file, name, inputs, types, **constants)["finding"]
    assert finding.startswith(f"{file}:{line_of(line)}:")
    assert re.search(said, finding)


def test_what_the_interpreter_lacks_is_named(file):
    found = ran(file, "assembly", "one", {"x": "*i32", "out": "*i32"})
    assert found == {"unknown": "tt.elementwise_inline_asm is not interpreted"}


@pytest.mark.parametrize(
    ("inputs", "error", "said"),
    [
        ("only_x", ArgumentError, "no value for out, count"),
        ("without_grid", ArgumentError, "must return the arguments by name, and the grid"),
        ("doubles", ArgumentError, "argument `x`: expected elements f32, got float64"),
        ("none", ArgumentError, "expected a grid of one to three numbers"),
        ("failing", FileError, "ValueError: no data"),
        ("nothing_like_it", OptionError, "has no function nothing_like_it"),
    ],
)
def test_wrong_inputs_are_refused(file, inputs, error, said):
    with pytest.raises(error, match=re.escape(said)):
        ran(file, "race", inputs, F32, BLOCK=64)


GRID = "cdiv(count, BLOCK)"


def saved(tmp_path, **changes):
    """Arrays for kernels with the parameters of `F32`; None leaves one out."""
    arrays = {"x": np.ones(300, np.float32), "out": np.zeros(2, np.float32), "count": 300} | changes
    np.savez(tmp_path / "inputs.npz", **{name: array for name, array in arrays.items() if array is not None})
    return str(tmp_path / "inputs.npz")


def test_arrays_of_a_file_are_arguments(file, tmp_path):
    assert ran(file, "sums", saved(tmp_path), F32, grid=GRID, BLOCK=64) == {"programs": 5}
    finding = ran(file, "race", saved(tmp_path), F32, grid=GRID, BLOCK=64)["finding"]
    assert finding.startswith(f"{file}:{line_of('tl.load(out) + part')}:")
    finding = ran(file, "sums", saved(tmp_path, count=301), F32, grid=GRID, BLOCK=64)["finding"]
    assert "reads 4 bytes at byte 1200 of `x`, outside its 1200 bytes" in finding


@pytest.mark.parametrize(
    ("changes", "grid", "error", "said"),
    [
        ({"out": None}, GRID, ArgumentError, "inputs.npz gives no value for out"),
        ({"y": np.zeros(3)}, GRID, ArgumentError, "`y` is no argument of a launch; these are x, out, count"),
        ({"BLOCK": 64}, GRID, ArgumentError, "`BLOCK` is no argument of a launch"),
        ({"x": np.zeros(300)}, GRID, ArgumentError, "argument `x`: expected elements f32, got float64"),
        ({"count": np.array([3])}, "1", ArgumentError, "`count`: expected a number, got an array of shape [1]"),
        ({}, None, OptionError, "--grid 'cdiv(count, BLOCK)'"),
        ({}, "rows", OptionError, "there is no rows"),
        ({"x": np.array([{}])}, GRID, FileError, "Python objects"),
    ],
)
def test_wrong_files_are_refused(file, tmp_path, changes, grid, error, said):
    with pytest.raises(error, match=re.escape(said)):
        ran(file, "race", saved(tmp_path, **changes), F32, grid=grid, BLOCK=64)


OWN = """
import numpy as np
import vkernels as vk
from jaxtyping import Float, Int

@vk.kernel
def put(at: Int[vk.Tensor, "N"], x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("N")
    out[at[i]] = x[i]

def apart():
    return {"at": np.arange(300)[::-1].copy(), "x": np.ones(300, np.float32), "out": np.zeros(300, np.float32)}

def beyond():
    return apart() | {"out": np.zeros(299, np.float32)}
"""


def test_kernels_of_ours_run_as_they_are_planned(tmp_path):
    path = tmp_path / "own_kernel.py"
    path.write_text(OWN)
    target = target_named("h100-sxm5-80")
    request = {
        "case": {"kind": "kernel", "source": {"name": "put", "module": "", "file": str(path)}},
        "architecture": target.architecture, "limits": asdict(planned_limits(target)),
    }  # fmt: skip
    assert ran_on_inputs({**request, "inputs": "apart"})["programs"] > 0
    finding = ran_on_inputs({**request, "inputs": "beyond"})["finding"]
    assert finding.startswith(f"{path}:9:")
    assert "outside its 1196 bytes" in finding


def test_kernels_of_ours_run_on_files(tmp_path):
    path = tmp_path / "own_kernel.py"
    path.write_text(OWN)
    target = target_named("h100-sxm5-80")
    arrays = {"at": np.arange(300)[::-1], "x": np.ones(300, np.float32), "out": np.zeros(299, np.float32)}
    case = {
        "kind": "kernel",
        "source": {"name": "put", "module": "", "file": str(path)},
        "constants": {},
        "left_open": [],
    }
    request = {
        "case": case, "architecture": target.architecture, "limits": asdict(planned_limits(target)),
        "inputs": str(tmp_path / "x.npz"),
    }  # fmt: skip
    np.savez(tmp_path / "x.npz", **arrays)
    finding = ran_on_inputs(request)["finding"]
    assert finding.startswith(f"{path}:9:")
    assert "outside its 1196 bytes" in finding
    np.savez(tmp_path / "x.npz", **{**arrays, "out": np.zeros(300, np.float32)})
    assert ran_on_inputs(request)["programs"] > 0
    np.savez(tmp_path / "x.npz", **arrays, more=np.zeros(1))
    with pytest.raises(ArgumentError, match="no argument `more`"):
        ran_on_inputs(request)
