"""Every operation is what torch asks of one, with right gradients, and its errors reach who called it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch.autograd import gradcheck
from torch.library import opcheck

import vkernels as vk
import vkernels.torch as vt

from ..library.reference import fresh_seed
from .samples import GRADIENTS, IN_PLACE, INTEGERS, SAMPLES, WITHOUT_GRADIENTS, Maker

ALL = {**SAMPLES, **GRADIENTS, **WITHOUT_GRADIENTS, **IN_PLACE}
QUICK = (
    "softmax", "rms_norm", "cross_entropy", "matmul", "max", "topk", "segment_sum", "ell_matmul", "dropout", "adamw",
    "softmax_backward", "argmax",
)  # fmt: skip
"""One operation of each way to be registered; the others' tests take long for all the kernels that they compile."""


def cases(names: Iterable[str]) -> list[Any]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.thorough) for name in names]


DIFFERENTIABLE = cases(name for name in SAMPLES if name not in INTEGERS)


def operation(name: str) -> Any:
    return getattr(torch.ops.vkernels, name).default


def test_every_operation_has_a_sample() -> None:
    names = {name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names() if name.startswith("vkernels::")}
    assert names == set(ALL)


def test_every_function_of_the_library_is_there() -> None:
    from vkernels import library

    assert set(vt.__all__) >= set(library.__all__)


def test_importing_vkernels_does_not_import_torch() -> None:
    import subprocess

    code = "import sys, vkernels; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", cases(ALL))
def test_torch_finds_nothing_wrong(name: str) -> None:
    opcheck(operation(name), ALL[name](Maker(fresh_seed(), name in SAMPLES)))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_right(name: str) -> None:
    arguments = SAMPLES[name](Maker(fresh_seed()))
    assert gradcheck(operation(name), arguments, fast_mode=True, check_undefined_grad=False)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_results_and_gradients_do_not_depend_on_strides(name: str) -> None:
    arguments = SAMPLES[name](Maker(fresh_seed()))
    plain = [
        each.detach().clone(memory_format=torch.contiguous_format).requires_grad_(each.requires_grad)
        if isinstance(each, torch.Tensor)
        else each
        for each in arguments
    ]
    found, expected = (results_and_gradients(name, each) for each in (arguments, plain))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def results_and_gradients(name: str, arguments: Any) -> list[torch.Tensor]:
    results = operation(name)(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    floats = [each for each in results if each.requires_grad]
    wanted = [each for each in arguments if isinstance(each, torch.Tensor) and each.requires_grad]
    # An expanded gradient, as of a sum.
    return [*results, *torch.autograd.grad([each.sum() for each in floats], wanted)]


def test_products_of_a_named_dtype_have_gradients_of_their_factors() -> None:
    a, b = (torch.randn(4, 4, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    out = vt.matmul(a, b, dtype="float32")
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, a.float() @ b.float())
    assert [each.dtype for each in torch.autograd.grad(out.sum(), (a, b))] == [torch.bfloat16] * 2


@pytest.mark.slow
def test_attention_keeps_for_its_gradient_only_what_is_wanted() -> None:
    make = Maker(fresh_seed())
    q, k, v = make(1, 2, 5, 3), make(1, 2, 5, 3), make(1, 2, 5, 4)
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    out = vt.attention(q, k, v, causal=True)
    torch.testing.assert_close(out, exact)
    grads = (torch.autograd.grad(each.square().sum(), (q, k, v)) for each in (out, exact))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        torch.testing.assert_close(vt.attention(q, k, v, causal=True, window=4), exact)


def test_the_gradient_of_a_gradient_is_refused() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(vt.log_softmax(x).square().sum(), x, create_graph=True)
    with pytest.raises(vk.UnsupportedError, match=r"log_softmax_backward is a gradient already.*double backward"):
        torch.autograd.grad(grad.sum(), x)


def test_forward_mode_is_refused_rather_than_taken_for_constant() -> None:
    x = torch.randn(3, 4)
    with pytest.raises(vk.UnsupportedError, match="vkernels::softmax has no derivative in forward mode"):
        torch.func.jvp(vt.softmax, (x,), (x,))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(vk.UnsupportedError, match="forward mode"):
        vt.softmax(torch.autograd.forward_ad.make_dual(x, x))
    assert vt.softmax(x).shape == x.shape


def test_gradients_that_there_are_not_are_refused() -> None:
    x, angle = torch.randn(1, 3, 2, 4), torch.randn(3, 2, requires_grad=True)
    with pytest.raises(vk.UnsupportedError, match="rotary_embedding: cosine requires grad"):
        vt.rotary_embedding(x, angle, angle)


def test_mistakes_reach_the_caller() -> None:
    x = torch.randn(3, 4)
    with pytest.raises(vk.ArgumentError, match=r"weight has shape \(5,\), expected \(4,\)"):
        vt.layer_norm(x, torch.ones(5))
    with pytest.raises(vk.ArgumentError, match="activation is 'swish', expected one of"):
        vt.activate(x, "swish")
    with pytest.raises(vk.ArgumentError, match="target holds 9, expected 0 to 3"):
        vt.cross_entropy(x, torch.tensor([0, 9, 1]))
    with pytest.raises(vk.ArgumentError, match="x has dtype complex64, expected dtype"):
        vt.softmax(x.to(torch.complex64))
    with pytest.raises(vk.ArgumentError, match="requires grad"):
        vt.adamw(torch.zeros(3, requires_grad=True), *(torch.zeros(3) for _ in range(3)), 1)
