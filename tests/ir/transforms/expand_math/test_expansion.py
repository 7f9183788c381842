"""What expand-math leaves in the IR, and that the CPU computes it to the same bits as one instruction an operation."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, f64

from tests.ir.lowering.llvm.running import Call
from vkernels.compiler.backends.llvm import compile_cpu, host_scales
from vkernels.ir.dialect import arith
from vkernels.ir.pipeline import load_pass
from vkernels.ir.text import parse_module, print_module
from vkernels.ir.transforms.expand_math import FORMULAS, expand_math

from .native import compiled, expanded
from .reference import FUNCTIONS, Array, edges, samples

SEED = 7

TEXT = """
vk.mapped @f({parameters}, %out: !vk.tensor<[N], {element}>) lanes i {{
  %N = vk.size N
  %size = arith.constant {size} : i64
  %programs = arith.ceildivsi %N, %size : i64
  vk.launch "f" over (%p = %programs) {{
    %start = arith.muli %p, %size : i64
    %left = arith.subi %N, %start : i64
    {loads}
    %y = {operation} : {tile}
    vk.store %y in %out[%start + i] within (i < %left) : !vk.tensor<[N], {element}> <- {tile}
  }}
}}
"""


def kernel(name: str, operands: int, element: str, size: int) -> str:
    """A mapped kernel that applies one operation to every element, `size` a program."""
    names = [f"x{k}" for k in range(operands)]
    tile = f"tensor<{size}x{element}, #vk.axes<i>>"
    return TEXT.format(
        parameters=", ".join(f"%{n}: !vk.tensor<[N], {element}>" for n in names),
        loads="\n".join(
            f"%{n}v = vk.load %{n}[%start + i] within (i < %left) : !vk.tensor<[N], {element}> -> {tile}" for n in names
        ),
        operation=f"math.{name} {', '.join(f'%{n}v' for n in names)}",
        element=element,
        size=size,
        tile=tile,
    )


def through_vectors(name: str, element: str, size: int, *operands: Array, scales: bool = False) -> Array:
    """The function of arrays, mapped, expanded and compiled for the CPU."""
    module = parse_module(kernel(name, len(operands), element, size))
    expand_math(module, scales)
    module.verify()
    out = np.full_like(operands[0], 77)
    code = compile_cpu(module)
    Call(code, [*operands, out], {"N": out.size}).run()
    return out


@pytest.mark.sample(6)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_vectors_give_the_bits_of_scalars(name: str, dtype: str) -> None:
    """Nothing is fused or reordered on the way, and no element's result depends on its neighbours."""
    function = FUNCTIONS[name]
    rng = np.random.default_rng(SEED)
    values = np.concatenate([edges(dtype), samples(dtype, 1500, rng)])
    operands = [rng.permutation(values) for _ in range(function.operands)]
    want = compiled(function.kind, dtype, function.operands)(*operands)
    got = through_vectors(name, {"float32": "f32", "float64": "f64"}[dtype], 24, *operands)
    np.testing.assert_array_equal(got, want)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.skipif(not host_scales(), reason="this CPU has no instruction that scales")
@pytest.mark.parametrize("size", [1, 8, 24])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2", "powf"])
def test_scaling_by_an_instruction_gives_the_same_bits(name: str, dtype: str, size: int) -> None:
    function = FUNCTIONS[name]
    rng = np.random.default_rng(SEED)
    values = np.concatenate([edges(dtype), samples(dtype, 800, rng)])
    operands = [rng.permutation(values) for _ in range(function.operands)]
    want = compiled(function.kind, dtype, function.operands)(*operands)
    got = through_vectors(name, {"float32": "f32", "float64": "f64"}[dtype], size, *operands, scales=True)
    np.testing.assert_array_equal(got, want)


def test_halves_are_rounded_away_from_zero() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388607.5, 1e30, -0.0, 0.3, -0.3, np.inf, np.nan], np.float32)
    want = np.array([1, -1, 2, 3, -3, 0, 8388608, 1e30, -0.0, 0, -0.0, np.inf, np.nan], np.float32)
    got = through_vectors("round", "f32", 8, x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:-1]), np.signbit(want[:-1]))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_powers_wrap_around(dtype: str) -> None:
    rng = np.random.default_rng(SEED)
    base = np.concatenate([[0, 0, 0, 1, -1, -1, 2, -2, 3, 7], rng.integers(-9, 9, 200)]).astype(dtype)
    exponent = np.concatenate([[0, 3, -1, -5, -4, -3, 40, -1, 1 << 30, 0], rng.integers(-3, 80, 200)]).astype(dtype)
    want = []
    for b, e in zip(base.tolist(), exponent.tolist(), strict=True):
        exact = pow(b, e, 1 << 64) if e >= 0 else int(float(b) ** e) if b else 0
        want.append(exact % (1 << 64))
    got = through_vectors("ipowi", {"int32": "i32", "int64": "i64"}[dtype], 16, base, exponent)
    np.testing.assert_array_equal(got, np.array(want, np.uint64).astype(dtype))


@pytest.mark.sample(1)
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("shape", ["{}", "vector<8x{}>", "tensor<4x8x{}, #vk.axes<i, j>>"])
def test_every_shape_is_expanded_to_valid_ir(element: str, shape: str) -> None:
    type_ = shape.format(element)
    lines = [f"%v = arith.constant {'1.0' if shape == '{}' else 'dense<1.0>'} : {type_}"]
    for name, function in FUNCTIONS.items():
        lines.append(f"%{name} = math.{name} {', '.join(['%v'] * function.operands)} : {type_}")
    module = parse_module("\n".join(lines))
    expand_math(module)
    module.verify()
    assert not [operation.name for operation in module.walk() if type(operation) in FORMULAS]
    parse_module(print_module(module))


def test_exp_is_short() -> None:
    """It decides how fast softmax is."""
    kind = FUNCTIONS["exp"].kind
    count = [operation.name for operation in expanded(kind, f32, 1).walk()]
    assert len([name for name in count if name not in ("arith.constant", "builtin.module")]) <= 25


def test_roundings_are_marked() -> None:
    for function in FUNCTIONS.values():
        for operation in expanded(function.kind, f64, function.operands).walk():
            if isinstance(operation, arith.AddfOp | arith.SubfOp | arith.MulfOp):
                assert "vk.rounded" in operation.attributes


def test_the_pass_is_known_by_name() -> None:
    assert load_pass("expand-math")().name == "expand-math"


def test_other_types_are_left_alone() -> None:
    text = "%x = arith.constant 1.0 : f16\n%y = math.exp %x : f16"
    module = parse_module(text)
    expand_math(module)
    assert "math.exp" in print_module(module)
