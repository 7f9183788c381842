"""A caller's mistakes are found before a kernel runs, and each is told with kernel, argument, expected and got."""

import re

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int

import vkernels as vk
from vkernels.compiler.specialise import kernel_in
from vkernels.ir.errors import ArgumentError
from vkernels.ir.text import parse_module
from vkernels.library.dense import matmul_bias
from vkernels.runtime.aliasing import check_written, overlaps_itself, same_tensors, share_memory
from vkernels.runtime.arrays import view_of
from vkernels.runtime.bind_arguments import bind, in_order

from .kernels import INTEGERS, Parameter, TextKernel

KERNEL = TextKernel(
    "scale",
    (
        Parameter("x", dimensions=("M", "N")),
        Parameter("factor", "scalar", dtypes=("f64", "i64", "i1")),
        Parameter("out", dimensions=("M", "N")),
        Parameter("mode", "constant", default="plain"),
    ),
)


def bound(x, factor, out, mode="plain"):
    return bind(KERNEL, (x, factor, out, mode))


def test_arguments_are_bound_by_name():
    arguments = bound(torch.zeros(3, 5), 2.5, np.zeros((3, 5), np.float64), 7)
    assert arguments.sizes == {"M": 3, "N": 5}
    assert arguments.dtypes == {"x": "float32", "out": "float64"}
    assert arguments.scalars == {"factor": 2.5}
    assert arguments.constants == {"mode": 7}
    assert arguments.signature.scalars == (("factor", "f64"),)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(True, "i1"), (3, "i64"), (2.0, "f64"), (np.float32(2), "f64"), (np.int16(2), "i64"), (torch.tensor(4), "i64")],
)
def test_scalars_of_every_kind(value, kind):
    arguments = bound(torch.zeros(1, 1), value, torch.zeros(1, 1))
    assert arguments.signature.scalars == (("factor", kind),)
    assert arguments.scalars["factor"] == value


def test_values_come_in_the_authors_order():
    x, out = torch.zeros(1, 1), torch.zeros(1, 1)
    values = in_order(KERNEL, (x,), {"out": out, "factor": 3})
    assert values[0] is x
    assert values[1:3] == (3, out)
    assert values[3] == "plain"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1, 2, 3, 4, 5), {}, "scale: expected at most 4 arguments, got 5"),
        ((1, 2), {}, "scale: argument `out` is missing"),
        ((1, 2), {"y": 1}, "scale: no argument `y`; it has x, factor, out, mode"),
        ((1, 2), {"x": 1}, "scale: argument `x` is given twice"),
    ],
)
def test_arguments_that_do_not_match_the_parameters(args, kwargs, message):
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        in_order(KERNEL, args, kwargs)


F32 = torch.zeros(3, 5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (([1.0], 1, F32), "argument `x`: expected a torch tensor or a NumPy array, got list [1.0]"),
        ((F32.int(), 1, F32), "argument `x`: expected dtype one of float64, float32, float16, bfloat16, got int32"),
        ((F32[0], 1, F32), "argument `x`: expected 2 dimensions [M, N], got 1 dimension [5]"),
        ((F32, 1, torch.zeros(3, 6)), "argument `out`: expected size N to be 5, as in `x`, got 6"),
        ((F32, "1", F32), "argument `factor`: expected a number, got str '1'"),
        ((F32, F32, F32), "argument `factor`: expected a number, got Tensor"),
        ((F32, 1j, F32), "argument `factor`: expected a number, got complex 1j"),
        ((F32, 1 << 63, F32), f"argument `factor`: expected an integer of 64 bits, got {1 << 63}"),
        ((F32, 1, F32, [2]), "argument `mode`: expected a constant (a number, text or None), got list [2]"),
        ((torch.zeros(3, 5, device="meta"), 1, F32), "argument `x`: expected a tensor on device cpu or cuda, got meta"),
        ((F32.to_sparse(), 1, F32), "argument `x`: expected a dense tensor, got layout torch.sparse_coo"),
        ((np.zeros((3, 5), ">f4"), 1, F32), "argument `x`: expected native byte order, got dtype('>f4')"),
        (
            (torch.zeros(3, 5, dtype=torch.complex64).conj().imag, 1, F32),
            "argument `x`: expected plain memory, got a lazily negated view; .resolve_neg() it",
        ),
    ],
)
def test_values_that_a_parameter_does_not_take(values, message):
    with pytest.raises(ArgumentError) as caught:
        bound(*values)
    assert str(caught.value) == f"scale: {message}"


def test_strides_are_whole_elements():
    packed = np.zeros(4, np.dtype([("a", np.float32), ("b", np.int8)]))["a"].reshape(2, 2)
    with pytest.raises(ArgumentError, match=r"`x`: expected strides of whole elements \(4 bytes\), got strides of"):
        bound(packed, 1, F32)


def test_declared_numbers_are_checked():
    kernel = TextKernel("fixed", (Parameter("x", dimensions=("N", 3), dtypes=INTEGERS),))
    assert bind(kernel, (np.zeros((7, 3), np.int8),)).sizes == {"N": 7}
    with pytest.raises(ArgumentError, match=r"^fixed: argument `x`: expected dimension 1 to be 3, got 4$"):
        bind(kernel, (np.zeros((7, 4), np.int8),))


def test_views_of_any_strides():
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    view = view_of(array[::-1, ::2], "x")
    assert (view.shape, view.strides) == ((4, 3), (-6, 2))
    assert view.address == array.ctypes.data + 3 * 24
    assert view.reach == (-72, 20)
    tensor = view_of(torch.zeros(4, 6).t().expand(2, 6, 4), "x")
    assert (tensor.shape, tensor.strides) == ((2, 6, 4), (0, 1, 6))
    assert view_of(torch.zeros(4, 6, dtype=torch.bfloat16), "x").dtype == "bfloat16"
    assert view_of(np.zeros((3, 0)), "x").reach == (0, 0)


def test_memory_that_may_not_be_written():
    frozen = np.zeros((3, 5), np.float32)
    frozen.flags.writeable = False
    trained = torch.zeros(3, 5, requires_grad=True)
    for out in (frozen, trained):
        arguments = bound(F32, 1, out)
        check_written("scale", ("x",), arguments.tensors)
        with pytest.raises(ArgumentError, match=r"^scale: argument `out`: expected memory that may be written"):
            check_written("scale", ("out",), arguments.tensors)
    with torch.no_grad():
        check_written("scale", ("out",), bound(F32, 1, trained).tensors)


def test_elements_of_what_is_written_lie_apart():
    arguments = bound(F32, 1, torch.zeros(3, 1).expand(3, 5))
    with pytest.raises(ArgumentError, match=r"`out`: it is written, so expected elements at places of their own"):
        check_written("scale", ("out",), arguments.tensors)


@pytest.mark.parametrize(
    ("shape", "strides", "overlaps"),
    [((3, 4), (4, 1), False), ((3, 4), (1, 3), False), ((3, 4), (3, 1), True), ((3, 1), (1, 0), False),
     ((3, 2), (1, 0), True), ((0, 5), (0, 0), False), ((2, 2), (2, 3), False), ((), (), False)],
)  # fmt: skip
def test_overlap_within_a_tensor(shape, strides, overlaps):
    assert overlaps_itself(view_of(torch.zeros(64).as_strided(shape, strides), "x")) is overlaps


def test_overlap_between_tensors():
    memory = torch.zeros(10, 20)
    left, right, same = memory[:, :10], memory[:, 10:], memory[:, :10]
    views = {name: view_of(value, name) for name, value in {"x": left, "out": right, "again": same}.items()}
    scale = kernel_in(parse_module(SCALE))
    assert same_tensors(scale, ("out",), {"x": views["x"], "out": views["out"]}) == ()
    assert same_tensors(scale, ("out",), {"x": views["x"], "out": views["again"]}) == (("x", "out"),)
    assert same_tensors(scale, (), {"x": views["x"], "out": views["again"]}) == ()
    shifted = {"x": views["x"], "out": view_of(memory[:, 1:11], "out")}
    message = "scale: argument `out`: it is written, so expected the same memory as `x` or none of it, got a part of it"
    with pytest.raises(ArgumentError, match=f"^{message}$"):
        same_tensors(scale, ("out",), shifted)


SCALE = """
vk.kernel @scale(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  %N = vk.size N
  vk.tile i < %M
  vk.tile j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %row in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}
"""


@vk.kernel
def shift(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i - 1]


@vk.kernel
def spread(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] * x[0]


@vk.kernel
def gather(x: Float[vk.Tensor, "N"], at: Int[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[at[i]]


@vk.kernel
def transpose(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[j, i]


@pytest.mark.parametrize(
    ("kernel", "shape", "others"),
    [(shift, (999,), ()), (spread, (999,), ()), (gather, (999,), (torch.zeros(999, dtype=torch.int64),)),
     (transpose, (31, 31), ()), (matmul_bias, (100, 100), (torch.ones(100, 100), torch.ones(100)))],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_a_result_in_the_place_of_what_is_needed_elsewhere_is_refused(kernel, shape, others):
    x = torch.ones(shape)
    for run in (kernel, kernel.interpret):
        with pytest.raises(ArgumentError, match=r"`out` is the same tensor as `\w+`, .*: expected memory of its own"):
            run(x, *others, x)
    assert torch.equal(x, torch.ones(shape))


def test_memory_is_shared_as_numpy_says():
    rng = np.random.default_rng(3)
    for _ in range(300):
        memory = np.zeros((6, 8), np.float32)
        one, other = (
            memory[rng.integers(0, 3) :: rng.integers(1, 4), rng.integers(0, 4) :: rng.choice([1, 2, 3])] for _ in "ab"
        )
        if rng.integers(2):
            other = other[::-1].T
        assert share_memory(view_of(one, "a"), view_of(other, "b")) == np.shares_memory(one, other)
