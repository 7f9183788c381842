"""Operations that plain Triton kernels have: right results in the interpreter, and findings where they go wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from vkernels.inspect.cases import executed
from vkernels.inspect.check.run_inputs import ran_on_inputs
from vkernels.ir.errors import ArgumentError
from vkernels.ir.interpret.ttir.plain import FUNCTIONS, device_function

TRITON = """
import numpy as np
import torch
import triton
import triton.language as tl

SEED = np.random.SeedSequence().entropy
print("seed", SEED)
RANDOM = torch.Generator().manual_seed(SEED % 2**63)
GIVEN = {}

@triton.jit
def sort(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i), descending=True))

@triton.jit
def topk(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, 4), tl.topk(tl.load(x + tl.arange(0, N)), 4))

@triton.jit
def gather(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.gather(tl.load(x + i), (i * 7 + 3) % N, 0))

@triton.jit
def gather_rows(x, out, N: tl.constexpr):
    i = tl.arange(0, 4)[:, None] * (N // 4) + tl.arange(0, N // 4)[None, :]
    rows = 3 - tl.arange(0, 4)[:, None] + tl.zeros((4, N // 4), tl.int32)
    tl.store(out + i, tl.gather(tl.load(x + i), rows, 0))

@triton.jit
def split(x, out, N: tl.constexpr):
    left, right = tl.split(tl.load(x + tl.arange(0, N)).reshape(N // 2, 2))
    tl.store(out + tl.arange(0, N // 2), left - 2 * right)

@triton.jit
def cat(x, out, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    tl.device_print("value", value)
    tl.store(out + tl.arange(0, 2 * N), tl.cat(value, -value, can_reorder=True))

@triton.jit
def histogram(x, out, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    bins = tl.histogram((tl.abs(value) * 2).to(tl.int32) % 8, 8)
    tl.store(out + tl.arange(0, 8), bins.to(tl.float32))

@triton.jit
def bits(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    number = out.to(tl.pointer_type(tl.int32)) + i
    tl.atomic_or(number, 6 + i % 2)
    tl.atomic_and(number, 5)
    tl.atomic_xor(number, 3)

@triton.jit
def library(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(out + i, tl.extra.libdevice.tanh(value) + tl.extra.libdevice.pow(tl.abs(value), value))

@triton.jit
def boxes(x, out, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [6, 8], [8, 1], [4, 8])
    target = tl.make_tensor_descriptor(out, [8, 8], [8, 1], [4, 8])
    for row in range(0, 8, 4):
        target.store([row, 0], source.load([row, 0]) + 1)

@triton.jit
def outside(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.gather(tl.load(x + i), i + 1, 0))

@triton.jit
def too_many(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, 8), tl.histogram(tl.arange(0, N), 8).to(tl.float32))

@triton.jit
def beyond(x, out, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [9, 8], [8, 1], [4, 8])
    i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + i, source.load([8, 0]))

@triton.jit
def wide(x, out, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [1024], [1], [512])
    tl.store(out + tl.arange(0, 512), source.load([0]))

@triton.jit
def population(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.extra.libdevice.popc(i).to(tl.float32))

@triton.jit
def passed(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, 512), x.load([0]))

@triton.jit
def given_boxes(x, out, N: tl.constexpr):
    for row in range(0, 8, 4):
        i = (row + tl.arange(0, 4)[:, None]) * 8 + tl.arange(0, 8)[None, :]
        tl.store(out + i, x.load([row, 0]) + x.shape[0])

@triton.jit
def beyond_rows(x, out, N: tl.constexpr):
    i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + i, x.load([8, 0]))

def descriptor(rows=6, box=(4, 8)):
    from triton.tools.tensor_descriptor import TensorDescriptor

    given, grid = inputs()
    return given | {"x": TensorDescriptor(given["x"], [rows, 8], [8, 1], list(box))}, grid

def too_many_rows():
    return descriptor(9)

def other_boxes():
    return descriptor(box=(8, 8))

def odd_stride():
    given, grid = inputs()
    return given | {"x": given["x"].as_strided((4, 8), (9, 1))}, grid

def whole_tensor():
    given, grid = inputs()
    return given | {"x": given["x"][:48].reshape(6, 8)}, grid

def inputs():
    GIVEN["x"], GIVEN["out"] = torch.randn(64, generator=RANDOM), torch.zeros(128)
    return dict(GIVEN), 1
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("operations") / "plain_operations.py"
    path.write_text(TRITON)
    return str(path)


def ran(file, name, architecture="sm_90", x="*fp32", inputs="inputs"):
    divisible = ["out"] if x.startswith("tensordesc") else ["x", "out"]
    case = {
        "kind": "jit", "source": {"name": name, "module": "", "file": file}, "types": {"x": x, "out": "*fp32"},
        "constants": {"N": 64}, "divisible": divisible, "number": 0, "warps": None, "stages": None,
    }  # fmt: skip
    return ran_on_inputs({"case": case, "inputs": inputs, "architecture": architecture})


def histogram(x):
    return np.bincount((np.abs(x.astype(np.float32)) * 2).astype(int) % 8, minlength=8)


EXPECTED = {
    "sort": lambda x: np.sort(x)[::-1],
    "topk": lambda x: np.sort(x)[:-5:-1],
    "gather": lambda x: x[(np.arange(64) * 7 + 3) % 64],
    "gather_rows": lambda x: x.reshape(4, 16)[::-1].ravel(),
    "split": lambda x: x[::2] - 2 * x[1::2],
    "cat": lambda x: np.concatenate((x, -x)),
    "histogram": histogram,
    "bits": lambda x: np.array([6 + i % 2 & 5 ^ 3 for i in range(64)], np.int32).view(np.float32),
    "library": lambda x: np.tanh(x) + np.abs(x) ** x,
    "boxes": lambda x: np.pad(x[:48], (0, 16)) + 1,
}


@pytest.mark.parametrize("architecture", ["sm_90", "gfx942"])
@pytest.mark.parametrize("name", EXPECTED)
def test_results_are_right(file, name, architecture):
    assert ran(file, name, architecture) == {"programs": 1}
    given = executed(file).GIVEN
    expected = EXPECTED[name](given["x"].double().numpy())
    np.testing.assert_allclose(given["out"].numpy()[: len(expected)], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("outside", "tt.gather has an index of 64 in a dimension of 64"),
        ("too_many", "tt.histogram has a value of 8 for 8 bins"),
        ("beyond", "reads 4 bytes at byte 256 of `x`, outside its 256 bytes"),
    ],
)
def test_what_is_wrong_is_found(file, name, said):
    finding = ran(file, name)["finding"]
    assert said in finding
    assert re.match(rf"{re.escape(file)}:\d+:", finding)


@pytest.mark.parametrize(
    ("name", "x", "said"),
    [
        ("wide", "*fp32", "boxes of more than 256 positions is not interpreted"),
        ("population", "*fp32", "tt.extern_elementwise of __nv_popc is not interpreted"),
        ("passed", "tensordesc<fp32[512]>", "`x`: boxes of more than 256 positions are not interpreted"),
    ],
)
def test_what_the_interpreter_lacks_is_named(file, name, x, said):
    assert said in ran(file, name, x=x)["unknown"]


BOXES = "tensordesc<fp32[4,8]>"


@pytest.mark.parametrize("inputs", ["descriptor", "whole_tensor"])
def test_descriptors_may_be_passed(file, inputs):
    assert ran(file, "given_boxes", x=BOXES, inputs=inputs) == {"programs": 1}
    given = executed(file).GIVEN
    np.testing.assert_array_equal(given["out"].numpy()[:64], np.pad(given["x"].numpy()[:48], (0, 16)) + 6)


def test_a_descriptor_of_more_than_the_tensor_is_found(file):
    assert (
        "at byte 256 of `x`, outside its 256 bytes"
        in ran(file, "beyond_rows", x=BOXES, inputs="too_many_rows")["finding"]
    )


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("inputs", "argument `x`: expected 2 dimensions, got 1"),
        ("other_boxes", "expected boxes of [4, 8], got [8, 8]"),
        ("odd_stride", "has strides of (9, 1) elements, expected positive multiples of 16 bytes"),
    ],
)
def test_descriptors_that_do_not_fit_are_refused(file, inputs, said):
    with pytest.raises(ArgumentError, match=re.escape(said)):
        ran(file, "given_boxes", x=BOXES, inputs=inputs)


ARGUMENTS = {"pow": 2, "atan2": 2, "fmod": 2, "hypot": 2, "fmin": 2, "fmax": 2, "copysign": 2, "fma": 3}
OF_TORCH = {
    "cbrt": lambda x: x.sign() * x.abs() ** (1 / 3), "fabs": torch.abs, "rint": torch.round, "nearbyint": torch.round,
    "exp10": lambda x: 10**x, "tgamma": lambda x: torch.special.gammaln(x).exp(), "lgamma": torch.lgamma,
    "round": lambda x: (x.abs() + 0.5).floor() * x.sign(), "fma": lambda x, y, z: x * y + z,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_device_libraries(name):
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    random = np.random.default_rng(seed)
    values = [random.uniform(1.0 if name == "acosh" else 0.01, 3.0 if name == "acosh" else 0.99, 20)]
    values += [random.uniform(0.5, 3.0, 20) for _ in range(ARGUMENTS.get(name, 1) - 1)]
    reference = OF_TORCH.get(name) or getattr(torch, name)
    expected = reference(*map(torch.from_numpy, values)).numpy()
    for symbol in (f"__nv_{name}", f"__nv_{name}f", f"__ocml_{name}_f32", f"__ocml_{name}_f64"):
        np.testing.assert_allclose(device_function(symbol)(*values), expected, rtol=1e-12)


def test_other_symbols_are_no_functions():
    for symbol in ("", "__nv_", "__nv_popc", "__ocml_tanh", "tanh", "__nv_tanhff", "__ocml_tanhf_f32"):
        assert device_function(symbol) is None
    assert np.isnan(device_function("__nv_tgammaf")(np.array([-1.0]))).all()
