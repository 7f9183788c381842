"""Kernels of one's own as torch's operations: schemas, results of the right shapes, gradients, `torch.compile`."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float, Int, UInt
from torch.autograd import gradcheck
from torch.library import opcheck

import vkernels as vk

from ..library.reference import assert_close, fresh_seed, normal


@vk.kernel
def soft(x: Float[vk.Tensor, "M N"], sharpness: vk.Scalar, out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j] * sharpness
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)


@vk.kernel
def soft_gradient(
    grad: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], sharpness: vk.Scalar, change: Float[vk.Tensor, "M N"]
):
    i = vk.tile("M")
    j = vk.whole("N")
    share = out[i, j]
    change[i, j] = sharpness * share * (grad[i, j] - vk.sum(grad[i, j] * share, axis=j))


@vk.kernel
def moments(
    x: Float[vk.Tensor, "M N"],
    mean: Float[vk.Tensor, "M"],
    place: Int[vk.Tensor, "M"],
    scale: float = 2.0,
    kind: vk.Constant = "max",
):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    mean[i] = vk.mean(row, axis=j) * scale
    place[i] = vk.argmax(row, axis=j) if kind == "max" else vk.argmin(row, axis=j)


@vk.kernel
def windows(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "M"], width: vk.Constant):
    i = vk.tile("M")
    total = 0.0
    for step in range(width):
        total += x[i + step]
    out[i] = total


@vk.kernel
def count(place: Int[vk.Tensor, "E"], counts: Int[vk.Tensor, "B"]):
    e = vk.tile("E")
    vk.atomic_add(counts[place[e]], 1)


@vk.kernel
def grow(x: Float[vk.Tensor, "N"], by: vk.Scalar):
    i = vk.tile("N")
    x[i] = x[i] + by


def numbers(*shape: int, requires_grad: bool = False) -> torch.Tensor:
    return normal(shape, torch.float64, fresh_seed()).requires_grad_(requires_grad)


def test_the_schema_follows_from_the_kernel():
    assert str(vk.torch_op(soft)._schema) == "vk::soft(Tensor x, Scalar sharpness) -> Tensor"
    assert str(vk.torch_op(soft, "mine::soft", fixed={"sharpness": 1.0})._schema) == "mine::soft(Tensor x) -> Tensor"
    expected = 'mine::moments(Tensor x, float scale=2., str kind="max") -> (Tensor, Tensor)'
    assert str(vk.torch_op(moments, "mine::moments")._schema) == expected
    assert str(vk.torch_op(count)._schema) == "vk::count(Tensor place, Tensor(a!) counts) -> ()"
    assert str(vk.torch_op(grow)._schema) == "vk::grow(Tensor(a!) x, Scalar by) -> ()"


def test_results_are_right_and_torch_finds_nothing_wrong():
    gradient = vk.torch_op(soft_gradient, "own::soft_gradient")
    operation = vk.torch_op(soft, "own::soft", backward=lambda grad, out, sharpness: gradient(grad, out, sharpness))
    x = numbers(7, 5).t().requires_grad_()
    assert_close(operation(x, 2.0), torch.softmax(2 * x.detach(), -1), 7)
    opcheck(operation, (x, 2.0))
    assert gradcheck(lambda x: operation(x, 2.0), x, fast_mode=True)


def test_several_results_of_their_own_dtypes_and_defaults():
    operation, x = vk.torch_op(moments, "own::moments"), numbers(4, 9).float()
    mean, place = operation(x)
    assert_close(mean, 2 * x.double().mean(1), 9)
    assert torch.equal(place, x.argmax(1))
    mean, place = operation(x, 0.5, kind="min")
    assert_close(mean, 0.5 * x.double().mean(1), 9)
    assert torch.equal(place, x.argmin(1))
    opcheck(operation, (x,))
    narrow = vk.torch_op(moments, "own::narrow", dtypes={"mean": torch.float64, "place": torch.int32})
    assert [each.dtype for each in narrow(x)] == [torch.float64, torch.int32]


@vk.kernel
def darkened(x: UInt[vk.Tensor, "M N"], out: UInt[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, j] - vk.min(x[i, j], axis=j)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64])
def test_unsigned_integers(dtype):
    operation, numbers_ = vk.torch_op(darkened), torch.tensor([[3, 250, 7], [0, 200, 255]])
    result = operation(numbers_.to(dtype))
    assert result.dtype == dtype
    assert torch.equal(result.long(), numbers_ - numbers_.amin(1, keepdim=True))
    if dtype == torch.uint8:  # torch compares no others
        opcheck(operation, (numbers_.to(dtype),))


def test_sizes_that_only_results_have():
    operation = vk.torch_op(windows, "own::windows", fixed={"width": 3}, sizes={"M": lambda n: n["N"] - 2})
    x = numbers(11)
    assert_close(operation(x), x.unfold(0, 3, 1).sum(1), 3)
    opcheck(operation, (x,))


def test_what_a_kernel_reads_and_writes_is_changed_in_place():
    operation, counts = vk.torch_op(count, "own::count"), torch.zeros(3, dtype=torch.int64)
    place = torch.tensor([0, 2, 2, 2])
    operation(place, counts)
    assert counts.tolist() == [1, 0, 3]
    opcheck(operation, (place, counts))


def test_it_compiles_into_one_graph_of_any_sizes():
    operation = vk.torch_op(
        soft, "own::compiled", backward=lambda grad, out, sharpness: gradient(grad, out, sharpness)
    )  # fmt: skip
    gradient = vk.torch_op(soft_gradient, "own::compiled_gradient")

    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def compiled(x):
        return operation(x * 2, 0.5).square()

    for shape in ((3, 4), (5, 7)):
        x = numbers(*shape, requires_grad=True)
        exact = torch.softmax(x, -1).square()
        assert_close(compiled(x).detach(), exact.detach(), shape[1], scale=4)
        found, expected = (torch.autograd.grad(each.sum(), x)[0] for each in (compiled(x), exact))
        torch.testing.assert_close(found, expected)


def test_a_name_given_again_is_the_new_kernels():
    x = torch.ones(3, 4)
    assert vk.torch_op(soft, "own::again", fixed={"sharpness": 1})(x).shape == (3, 4)
    mean, _ = vk.torch_op(moments, "own::again")(x)
    assert mean.tolist() == [2.0] * 3


def test_without_a_gradient_differentiating_is_refused():
    operation = vk.torch_op(soft, "own::plain")
    with pytest.raises(vk.UnsupportedError, match="own::plain has no gradient"):
        operation(numbers(3, 4, requires_grad=True), 1.0).sum().backward()


def test_a_gradient_of_the_wrong_number_is_told():
    operation = vk.torch_op(soft, "own::wrong", backward=lambda grad: (grad, grad))
    with pytest.raises(vk.OptionError, match="backward returns other than 1 gradient"):
        operation(numbers(3, 4, requires_grad=True), 1.0).sum().backward()


def test_mistakes_in_calls_are_the_kernels():
    operation = vk.torch_op(soft, "own::mistaken")
    with pytest.raises(vk.ArgumentError, match=r"soft: argument `x`: expected 2 dimensions \[M, N\], got \[3\]"):
        operation(torch.ones(3), 1.0)


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (soft, {"name": "soft"}, "name is 'soft', expected one like `mine::soft`"),
        (soft, {"name": "vkernels::softmax"}, "not torch's own"),
        (soft, {"fixed": {"sharp": 1}}, "fixed names 'sharp', expected one of sharpness"),
        (soft, {"sizes": {"M": len}}, "sizes names 'M', expected one of none"),
        (soft, {"dtypes": {"x": torch.float32}}, "dtypes names 'x', expected one of out"),
        (windows, {}, "constant `width` has no default"),
        (windows, {"fixed": {"width": 2}}, "`out` has a size M, which no argument has"),
        (soft, {"backward": lambda grad, y: grad}, "backward asks for `y`, expected one of x, sharpness, out"),
        (grow, {"backward": lambda: None}, "it changes `x`, so it cannot have a gradient"),
    ],
)
def test_options_that_do_not_go_together_are_refused(kernel, options, message):
    with pytest.raises(vk.OptionError, match=message):
        vk.torch_op(kernel, **{"name": "own::refused", **options})


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
def test_a_kernel_within_a_compiled_function_leaves_the_graph():
    torch._dynamo.reset()

    def sharpened(x):
        out = torch.empty_like(x)
        soft(x, 1.0, out)
        return 2 * out

    x = torch.randn(3, 5)
    assert_close(torch.compile(sharpened, backend="eager")(x), 2 * torch.softmax(x, -1))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"vk\.torch_op\(kernel\)"):
        torch.compile(sharpened, backend="eager", fullgraph=True)(x)
