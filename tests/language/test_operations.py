"""Every operation, interpreted, gives what torch gives: values, dtypes, NaN."""

from __future__ import annotations

import math

import pytest
import torch
from jaxtyping import Float, Int, Shaped

import vkernels as vk
from vkernels.ir.interpret import interpret
from vkernels.language.dtypes import DTYPES
from vkernels.runtime.interpret import memory_of

VALUES = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.5, -2.5, 3.25, -7.75, math.inf, -math.inf, math.nan, 100.0])
OTHERS = torch.tensor([1.0, 2.0, -1.0, 3.0, math.nan, 0.5, -2.0, 2.0, 0.75, 3.0, 2.0, 1.0, 1.0, -7.0])


@vk.kernel
def unary(x: Shaped[vk.Tensor, "N"], out: Shaped[vk.Tensor, "N"], operation: vk.Constant, dtype: vk.Constant):
    i = vk.tile("N")
    value = operation(x[i])
    assert value.dtype == dtype
    out[i] = value


@vk.kernel
def binary(
    x: Shaped[vk.Tensor, "N"],
    y: Shaped[vk.Tensor, "N"],
    out: Shaped[vk.Tensor, "N"],
    operation: vk.Constant,
    dtype: vk.Constant,
):
    i = vk.tile("N")
    value = operation(x[i], y[i])
    assert value.dtype == dtype
    out[i] = value


@vk.kernel
def along(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M"], operation: vk.Constant, dtype: vk.Constant):
    i = vk.tile("M")
    j = vk.whole("N")
    value = operation(x[i, j], axis=j)
    assert value.dtype == dtype
    out[i] = value


@vk.kernel
def scanned(x: Shaped[vk.Tensor, "M N"], out: Shaped[vk.Tensor, "M N"], operation: vk.Constant, dtype: vk.Constant):
    i = vk.tile("M")
    j = vk.whole("N")
    value = operation(x[i, j], axis=j)
    assert value.dtype == dtype
    out[i, j] = value


def name_of(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def run(kernel: vk.Kernel, *tensors: torch.Tensor, **constants) -> None:
    """Interpret a kernel whose constants may be operations."""
    names = [p.name for p in kernel.parameters if p.kind == "tensor"]
    given = {name: name_of(tensor) for name, tensor in zip(names, tensors, strict=True)}
    module = kernel.build(kernel.signature(**given, **constants))
    module.verify()
    interpret(module, {name: memory_of(tensor) for name, tensor in zip(names, tensors, strict=True)})


def check(kernel: vk.Kernel, operation, expected: torch.Tensor, *inputs: torch.Tensor) -> None:
    """An operation's value and dtype are those expected, up to a few units in the last place."""
    out = torch.full_like(expected, 77)
    dtype = DTYPES[name_of(expected)]
    run(kernel, *inputs, out, operation=operation, dtype=dtype)
    torch.testing.assert_close(out, expected, equal_nan=True, rtol=TOLERANCE.get(expected.dtype, 0), atol=1e-6)


TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}

UNARY = {
    vk.exp: torch.exp, vk.exp2: torch.exp2, vk.expm1: torch.expm1, vk.log: torch.log, vk.log2: torch.log2,
    vk.log1p: torch.log1p, vk.sqrt: torch.sqrt, vk.rsqrt: torch.rsqrt, vk.sin: torch.sin, vk.cos: torch.cos,
    vk.tanh: torch.tanh, vk.erf: torch.erf, vk.sigmoid: torch.sigmoid, vk.abs: torch.abs, vk.floor: torch.floor,
    vk.ceil: torch.ceil, vk.round: torch.round, vk.trunc: torch.trunc, vk.relu: torch.relu,
    vk.silu: torch.nn.functional.silu, vk.gelu: torch.nn.functional.gelu, vk.isnan: torch.isnan, vk.isinf: torch.isinf,
    vk.zeros_like: torch.zeros_like,
}  # fmt: skip

KEEPS_INTEGERS = (vk.abs, vk.floor, vk.ceil, vk.round, vk.trunc, vk.relu, vk.isnan, vk.isinf, vk.zeros_like)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("operation", UNARY, ids=lambda f: f.__name__)
def test_unary(operation, dtype):
    x = VALUES.to(dtype)
    if operation in (vk.silu, vk.gelu):
        x = x[torch.isfinite(x)]
    exact = dtype in (torch.float64, torch.float32)
    expected = UNARY[operation](x) if exact else UNARY[operation](x.float())
    check(unary, operation, expected if expected.dtype == torch.bool else expected.to(dtype), x)


@pytest.mark.parametrize("operation", UNARY, ids=lambda f: f.__name__)
def test_unary_of_integers(operation):
    x = torch.tensor([-3, -1, 0, 1, 2, 7], dtype=torch.int32)
    keeps = operation in KEEPS_INTEGERS
    check(unary, operation, UNARY[operation](x if keeps else x.float()), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_bits_of_floats_are_those_that_are_computed_with(dtype):
    x = VALUES[~VALUES.isnan()].to(dtype)
    check(unary, vk.bits, x.view(torch.int64) if dtype == torch.float64 else x.float().view(torch.int32), x)


@vk.function
def tanh_gelu(x):
    return vk.gelu(x, approximate="tanh")


def test_gelu_by_tanh():
    x = VALUES[torch.isfinite(VALUES)]
    check(unary, tanh_gelu, torch.nn.functional.gelu(x, approximate="tanh"), x)


@vk.function
def add(x, y):
    return x + y


@vk.function
def subtract(x, y):
    return x - y


@vk.function
def multiply(x, y):
    return x * y


@vk.function
def divide(x, y):
    return x / y


@vk.function
def floor_divide(x, y):
    return x // y


@vk.function
def remainder(x, y):
    return x % y


@vk.function
def less(x, y):
    return x < y


@vk.function
def less_equal(x, y):
    return x <= y


@vk.function
def greater(x, y):
    return x > y


@vk.function
def greater_equal(x, y):
    return x >= y


@vk.function
def equal(x, y):
    return x == y


@vk.function
def not_equal(x, y):
    return x != y


BINARY = {
    add: torch.add, subtract: torch.subtract, multiply: torch.multiply, divide: torch.divide,
    floor_divide: torch.floor_divide, remainder: torch.remainder, less: torch.lt, less_equal: torch.le,
    greater: torch.gt, greater_equal: torch.ge, equal: torch.eq, not_equal: torch.ne,
    vk.maximum: torch.maximum, vk.minimum: torch.minimum,
}  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float32),
        (torch.float16, torch.bfloat16),
        (torch.int32, torch.float32),
        (torch.int8, torch.int64),
        (torch.int16, torch.int16),
        (torch.int32, torch.bool),
    ],
    ids=str,
)
@pytest.mark.parametrize("operation", BINARY, ids=lambda f: getattr(f, "name", f.__name__))
def test_binary(operation, a, b):
    x, y = VALUES, OTHERS
    if torch.bool in (a, b) and operation is subtract:
        return  # torch refuses
    if not (a.is_floating_point and b.is_floating_point):
        keep = torch.isfinite(VALUES) & torch.isfinite(OTHERS) & (OTHERS.abs() >= 1)
        x, y = x[keep], y[keep]
    x, y = x.to(a), y.to(b)
    check(binary, operation, BINARY[operation](x, y), x, y)


def test_division_by_zero_and_signs():
    x = torch.tensor([1.0, -1.0, 0.0, 5.0, -5.0, 5.0, -5.0, math.inf, 3.0, 1e30, 5.0, -5.0])
    y = torch.tensor([0.0, 0.0, 0.0, 3.0, 3.0, -3.0, -3.0, 2.0, math.nan, 1.0, math.inf, math.inf])
    check(binary, divide, x / y, x, y)
    check(binary, floor_divide, x // y, x, y)
    check(binary, remainder, x % y, x, y)


REDUCTIONS = {
    vk.sum: lambda x: x.sum(-1), vk.product: lambda x: x.prod(-1), vk.max: lambda x: x.amax(-1),
    vk.min: lambda x: x.amin(-1), vk.argmax: lambda x: x.argmax(-1), vk.argmin: lambda x: x.argmin(-1),
    vk.any: lambda x: (x != 0).any(-1), vk.all: lambda x: (x != 0).all(-1), vk.mean: lambda x: x.mean(-1),
}  # fmt: skip

ROWS = torch.tensor(
    [[1.0, -2.0, 3.0, 3.0], [0.0, math.nan, 5.0, math.nan], [0.0, 0.0, 0.0, 0.0], [-1.0, 2.0, -1.0, 1.0]]
)


@pytest.mark.parametrize("operation", REDUCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int32, torch.int8], ids=str)
def test_reductions(operation, dtype):
    if operation is vk.mean and not dtype.is_floating_point:
        return  # an error: test_errors.py has it
    x = ROWS.to(dtype) if dtype.is_floating_point else ROWS.nan_to_num(4).to(dtype)
    check(along, operation, REDUCTIONS[operation](x), x)


@pytest.mark.parametrize("operation", [vk.any, vk.all, vk.sum, vk.product], ids=lambda f: f.__name__)
def test_reductions_of_bool(operation):
    x = torch.tensor([[True, True], [True, False], [False, False]])
    check(along, operation, REDUCTIONS[operation](x), x)


def test_reductions_of_nothing():
    x = torch.zeros(3, 0)
    for operation in (vk.sum, vk.product, vk.any, vk.all, vk.mean):
        check(along, operation, REDUCTIONS[operation](x), x)
    check(along, vk.max, torch.full((3,), -math.inf), x)


SCANS = {
    vk.cumulative_sum: lambda x: x.cumsum(-1), vk.cumulative_product: lambda x: x.cumprod(-1),
    vk.cumulative_max: lambda x: x.cummax(-1).values, vk.cumulative_min: lambda x: x.cummin(-1).values,
}  # fmt: skip


@pytest.mark.parametrize("operation", SCANS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.float64, torch.int16], ids=str)
def test_scans(operation, dtype):
    x = ROWS.to(dtype) if dtype.is_floating_point else ROWS.nan_to_num(4).to(dtype)
    check(scanned, operation, SCANS[operation](x), x)


FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@vk.kernel
def casts(x: Shaped[vk.Tensor, "N"], out: Shaped[vk.Tensor, "N"], dtype: vk.Constant):
    i = vk.tile("N")
    value = x[i].to(dtype)
    assert value.dtype == dtype
    out[i] = value


@pytest.mark.parametrize("source", [*FLOATS, torch.int8, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("target", [*FLOATS, torch.int32, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_casts(source, target):
    x = torch.tensor([0.0, 1.0, -1.5, 2.75, 100.3, -7.01]).to(source)
    through = x.to(target)
    wide = torch.float64 if target.is_floating_point else target
    out = torch.full((6,), 1, dtype=wide)
    run(casts, x, out, dtype=DTYPES[name_of(through)])
    assert torch.equal(out, through.to(wide))


@vk.kernel
def with_numbers(x: Float[vk.Tensor, "N"], n: Int[vk.Tensor, "N"], out: Float[vk.Tensor, "16 N"], s: vk.Scalar):
    i = vk.tile("N")
    v = x[i]
    out[0, i] = 1 / v
    out[1, i] = 2.0 - v
    out[2, i] = v**3
    out[3, i] = v**0.5
    out[4, i] = v**v
    out[5, i] = n[i] / 2
    out[6, i] = n[i] ** 2 + (n[i] << 1) + (n[i] >> 1) + (n[i] & 6) + (n[i] | 1) + (n[i] ^ 3) + ~n[i]
    out[7, i] = vk.pow(v, s) + vk.fma(v, s, 1.0)
    out[8, i] = vk.clamp(v, 0.5, 1.5) + vk.clamp(v, low=1) + vk.clamp(v, high=1)
    out[9, i] = vk.where(v > 1, 1, 0) + vk.where((v > 1) ^ (v < 2), v, s)
    out[10, i] = -v + +v + -n[i] + i
    out[11, i] = vk.where(1 < v <= 2.5, vk.maximum(v, 2), vk.minimum(2, v)) % 2
    out[12, i] = vk.full(i, s, vk.float64) * vk.full_like(v, 2) + vk.full(i, 3)
    out[13, i] = vk.cast(2.3, vk.int32) + vk.cast(s, vk.float16) + vk.cast(n[i], vk.float16)
    out[14, i] = 2 ** n[i] + n[i] ** n[i] + v**0
    out[15, i] = vk.maximum(2, 1) + vk.minimum(s, 1.0) + (7 // 2) % 2 + vk.sqrt(4)


def test_numbers_and_scalars():
    x, n = torch.tensor([0.5, 1.0, 2.0, 2.5, 3.0], dtype=torch.float64), torch.tensor([1, 2, 3, 4, 5])
    out = torch.full((16, 5), math.nan, dtype=torch.float64)
    with_numbers.interpret(x, n, out, 1.25)
    s, i = 1.25, torch.arange(5)
    expected = [
        1 / x, 2.0 - x, x**3, x**0.5, x**x, n / 2,
        n**2 + (n << 1) + (n >> 1) + (n & 6) + (n | 1) + (n ^ 3) + ~n,
        x**s + x * s + 1, x.clamp(0.5, 1.5) + x.clamp(min=1) + x.clamp(max=1),
        torch.where(x > 1, 1, 0) + torch.where((x > 1) ^ (x < 2), x, s), -n + i,
        torch.where((x > 1) & (x <= 2.5), x.clamp(min=2), x.clamp(max=2)) % 2,
        torch.full((5,), 2 * s + 3), 2 + s + n, 2**n + n**n + 1, torch.full((5,), 2 + 1.0 + 1 + 2),
    ]  # fmt: skip
    for row, (found, wanted) in enumerate(zip(out, expected, strict=True)):
        torch.testing.assert_close(found, wanted.double(), msg=lambda text, row=row: f"row {row}: {text}")


@vk.kernel
def philox(counter: Int[vk.Tensor, "N"], bits: Int[vk.Tensor, "N"], uniform: Float[vk.Tensor, "N"], seed: vk.Scalar):
    i = vk.tile("N")
    bits[i] = vk.random_bits(seed, counter[i])
    uniform[i] = vk.random(seed, counter[i])


def philox4x32(key: int, counter: int) -> int:
    """The first word of Philox4x32-10, as its paper defines it."""
    mask = 0xFFFFFFFF
    k, c = [key & mask, key >> 32], [counter & mask, counter >> 32, 0, 0]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c[0]


def test_random_is_philox():
    assert philox4x32(0, 0) == 0x6627E8D5  # the known answer of the authors' own tests
    counters = torch.tensor([0, 1, 2, 12345, 1 << 40])
    for seed in (0, 7, (123 << 32) + 456):
        bits, uniform = torch.zeros(5, dtype=torch.int32), torch.zeros(5)
        philox.interpret(counters, bits, uniform, seed)
        expected = [philox4x32(seed, int(counter)) for counter in counters]
        assert [int(b) & 0xFFFFFFFF for b in bits] == expected
        torch.testing.assert_close(uniform, torch.tensor([(e >> 8) / (1 << 24) for e in expected]))


@vk.kernel
def constant_seed(uniform: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    uniform[i] = vk.random(42, i)


def test_random_numbers_are_uniform():
    uniform = torch.full((20000,), math.nan)
    constant_seed.interpret(uniform)
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    assert abs(uniform.var() - 1 / 12) < 0.005


def test_outside_a_kernel():
    with pytest.raises(vk.UnsupportedError, match=r"vk.exp works inside a kernel only"):
        vk.exp(1.0)
