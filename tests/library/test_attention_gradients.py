"""The gradients of attention equal autograd's in float64, for every dtype, causal, in windows, with heads that share
keys; and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.compiler.default_session import patient
from vkernels.library.attention import attention, attention_backward, attention_forward
from vkernels.library.attention_blocks import Band, Sequences
from vkernels.library.attention_slopes import _blocks_of

from .attentions import exactly, operands, reference, scale_of, seen
from .reference import assert_close, fresh_seed, normal

SIZES = (4, 2, 70, 150, 24, 17)


def thorough(*case):
    return pytest.param(*case, marks=pytest.mark.thorough)


CASES = [
    (SIZES, torch.float32, {}),
    (SIZES, torch.float32, {"causal": True}),
    thorough(SIZES, torch.float32, {"window": (30, 7)}),
    ((4, 2, 40, 70, 24, 17), torch.float16, {"causal": True, "window": 20}),
    thorough((4, 2, 40, 70, 24, 17), torch.float64, {"causal": True, "window": 20}),
    thorough((4, 2, 40, 70, 24, 17), torch.bfloat16, {"causal": True, "window": 20}),
    thorough((6, 2, 1, 100, 24, 17), torch.float32, {"causal": True}),
    thorough((2, 1, 100, 50, 24, 17), torch.float32, {"scale": 0.3}),
    *(thorough((2, 2, 20, 40, 24, 17), dtype, {}) for dtype in (torch.float16, torch.bfloat16)),
    thorough((1, 1, 70, 65, 512, 512), torch.float32, {}),
    thorough((1, 1, 65, 70, 256, 128), torch.float16, {"causal": True}),
]


@pytest.fixture(autouse=True)
def best_plans_alone():
    """No plain ones in the mean time, which would have to be compiled too."""
    with patient():
        yield


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("sizes", "dtype", "how"), CASES)
def test_gradients_are_right(sizes, dtype, how):
    seed = fresh_seed()
    q, k, v = operands(sizes, dtype, seed)
    grad = normal((*q.shape[:3], v.shape[3]), dtype, seed + 3)
    out, normaliser = attention_forward(q, k, v, **how)
    expected, gradients = exactly(grad, q, k, v, **how)
    assert_close(out, expected, terms=k.shape[2], scale=scale_of(q))
    assert normaliser.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    for found, gradient in zip(attention_backward(grad, q, k, v, out, normaliser, **how), gradients, strict=True):
        assert found.dtype == dtype
        assert_close(found, gradient, terms=q.shape[2] * k.shape[2], scale=4 * scale_of(q))


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0, pytest.param(1 << 16, marks=pytest.mark.thorough)])
def test_gradients_are_right_with_less_memory_for_slopes(memory, monkeypatch):
    """Scores are computed again without memory, and with little some heads follow others."""
    monkeypatch.setattr("vkernels.library.attention_slopes.SLOPES_BYTES", memory)
    test_gradients_are_right((4, 2, 40, 70, 24, 17), torch.float32, {"causal": True, "window": 20})


@pytest.mark.parametrize("band", [Band(), Band(ahead=0), Band(back=5, ahead=3), Band(back=100)])
def test_every_slope_that_is_read_was_written(band):
    """By the tables alone, of sequences with more queries than keys and with fewer, and with none."""
    sequences = Sequences((0, 70, 75, 75, 108, 300), (0, 150, 155, 160, 160, 290), band)
    queries, keys, size, step = _blocks_of(sequences, None)
    written = np.zeros((300, 192), bool)
    for first, _, begin, end, _, start in keys:
        written[begin:end, first - start : first - start + step] = True
    seen = 0
    for first, last, begin, end, _, start in queries:
        columns = -(-(end - begin) // step) * step
        assert written[first:last, begin - start : begin - start + columns].all()
        seen += end - begin
    assert seen > 0
    assert (size, step) == (64, 64)


def test_the_normaliser_is_the_logarithm_of_the_sum_of_exponentials():
    q, k, v = operands(SIZES, torch.float32, fresh_seed())
    score = q.double() @ k.double().repeat_interleave(2, 1).mT * 0.7
    expected = score.masked_fill(~seen(70, 150, True), -float("inf")).logsumexp(-1)
    assert_close(attention_forward(q, k, v, 0.7, causal=True)[1], expected, terms=150, scale=8)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, window):
        out, normaliser = attention_forward(q, k, v, None, causal, window)
        ctx.save_for_backward(q, k, v, out, normaliser)
        ctx.how = None, causal, window
        return out

    @staticmethod
    def backward(ctx, grad):
        return *attention_backward(grad, *ctx.saved_tensors, *ctx.how), None, None


@pytest.mark.parametrize(
    ("causal", "window"), [(True, None), thorough(False, None), thorough(False, (1, 2)), thorough(True, 2)]
)
def test_gradients_are_what_finite_differences_give(causal, window):
    q, k, v = operands((2, 1, 4, 5, 3, 2), torch.float64, fresh_seed())
    exact = [tensor.requires_grad_() for tensor in (q, k, v)]
    assert torch.autograd.gradcheck(lambda *tensors: Attention.apply(*tensors, causal, window), exact)


@pytest.mark.slow
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nan_and_infinity_spread_as_in_torch(number):
    seed = fresh_seed()
    for place in range(4):
        q, k, v = operands((4, 2, 70, 150, 24, 17), torch.float32, seed)
        grad = normal((2, 4, 70, 17), torch.float32, seed + 3)
        (q, k, v, grad)[place][0, 0, 2, 3] = number
        expected, gradients = exactly(grad, q, k, v)
        out, normaliser = attention_forward(q, k, v)
        assert_close(out.isfinite().double(), expected.isfinite().double())
        for found, gradient in zip(attention_backward(grad, q, k, v, out, normaliser), gradients, strict=True):
            assert_close(found.isfinite().double(), gradient.isfinite().double())


@pytest.mark.parametrize(
    "sizes", [thorough((0, 0, 3, 4, 24, 17)), (2, 1, 0, 4, 24, 17), (2, 1, 3, 0, 24, 17), thorough((2, 1, 3, 4, 5, 0))]
)
def test_empty(sizes):
    q, k, v = operands(sizes, torch.float32, fresh_seed())
    out, normaliser = attention_forward(q, k, v)
    assert (out == 0).all()
    assert ((normaliser == -float("inf")) | torch.tensor(sizes[3] > 0)).all()
    for found, given in zip(attention_backward(out, q, k, v, out, normaliser), (q, k, v), strict=True):
        assert found.shape == given.shape
        assert (found == 0).all()


@pytest.mark.thorough
def test_queries_of_no_elements():
    q, k, v = operands((2, 1, 3, 4, 0, 6), torch.float32, fresh_seed())
    out, normaliser = attention_forward(q, k, v)
    assert_close(out, reference(q, k, v, scale=1.0), terms=4)
    dq, dk, dv = attention_backward(torch.ones_like(out), q, k, v, out, normaliser)
    assert (dq.shape, dk.shape) == (q.shape, k.shape)
    assert_close(dv, torch.full_like(v, 2 * 3 / 4).double(), terms=6)


@pytest.mark.thorough
def test_any_strides_and_numpy():
    """Heads beside the rows, as projections leave them; the gradient of a sum, whose elements are one."""
    seed = fresh_seed()
    q = normal((2, 40, 4, 24), torch.float32, seed).transpose(1, 2)
    k, v = (normal((2, 50, 2, 24), torch.float32, seed + n).transpose(1, 2) for n in (1, 2))
    grad = torch.ones(()).expand(2, 4, 40, 24)
    out, normaliser = attention_forward(q, k, v, causal=True)
    _, gradients = exactly(grad, q, k, v, causal=True)
    found = attention_backward(grad, q, k, v, out, normaliser, causal=True)
    arrays = [tensor.numpy() for tensor in (grad, q, k, v, out, normaliser)]
    again = attention_backward(*arrays, causal=True)
    assert all(isinstance(each, np.ndarray) for each in (*again, *attention_forward(*arrays[1:4])))
    for one, other, gradient in zip(found, again, gradients, strict=True):
        assert_close(one, gradient, terms=2000, scale=20, added=1.0)
        np.testing.assert_array_equal(one.numpy(), other)


def test_forward_gives_what_attention_gives():
    q, k, v = operands(SIZES, torch.float32, fresh_seed())
    out = torch.empty(2, 4, 70, 17)
    assert attention_forward(q, k, v, 0.3, out=out)[0] is out
    assert_close(out, attention(q, k, v, 0.3).double(), terms=150, scale=2 * scale_of(q))


def test_wrong_arguments_are_named():
    q, k, v = operands((4, 2, 5, 7, 8, 8), torch.float32, 0)
    out, normaliser = attention_forward(q, k, v)
    with pytest.raises(vk.ArgumentError, match="grad has shape"):
        attention_backward(out[..., :7], q, k, v, out, normaliser)
    with pytest.raises(vk.ArgumentError, match="normaliser has shape"):
        attention_backward(out, q, k, v, out, normaliser[:, :2])
    with pytest.raises(vk.ArgumentError, match="attention_forward: v has shape"):
        attention_forward(q, k, v[:, :, :6])
    with pytest.raises(vk.ArgumentError, match="out is k"):
        attention_forward(k.repeat(1, 1, 1, 1), k, k, out=k)
