"""Activations, dropout, rotary embedding and AdamW equal torch in float64, for every dtype, size and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library.activations import ACTIVATIONS, activate, activate_backward
from vkernels.library.elements import adamw, dropout, rotary_embedding

from .reference import DTYPES, assert_close, every_dtype, fresh_seed, normal, poisoned, strided

SHAPES = [(1, 1), (3, 5), (0, 7), (17, 33), (1, 100_003), (1009, 2), (5, 0), (2, 3, 4)]
TORCHS = {
    "none": lambda x: x * 1,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def largest(x: torch.Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0


@pytest.mark.sample(2)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_activations_are_right_forward_and_backward(activation, dtype):
    seed = fresh_seed()
    for shape in [(17, 33), (1, 1), (0, 7), (2, 3, 4)]:
        x, grad = normal(shape, dtype, seed) * 4, normal(shape, dtype, seed + 1)
        exact = x.double().clone().requires_grad_()
        expected = TORCHS[activation](exact)
        expected.backward(grad.double())
        out = poisoned(shape, dtype)
        assert activate(x, activation, out) is out
        # what is left of 1 - tanh², or of 1 + erf, is as wrong as what it is the rest of
        assert_close(out, expected.detach(), added=largest(x))
        found = activate_backward(grad, x, activation, poisoned(shape, dtype))
        assert_close(found, exact.grad, scale=4.0, added=largest(grad))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_of_nan_infinity_and_zeros_are_torchs(activation):
    x = torch.tensor([[float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 100.0, -100.0]])
    expected = TORCHS[activation](x.double()).float()  # torch's gelu of inf is inf in float64 alone
    torch.testing.assert_close(activate(x, activation), expected, equal_nan=True)


def test_any_strides_in_place():
    for view in strided((37, 203), torch.float32, fresh_seed()):
        expected = functional.silu(view.double())
        assert activate(view, "silu", out=view) is view
        assert_close(view, expected)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(SHAPES))
def test_dropout_keeps_the_right_share_and_the_same_for_the_gradient(shape, dtype):
    seed = fresh_seed()
    x = normal(shape, dtype, seed).abs() + 1
    out = dropout(x, 0.25, seed, poisoned(shape, dtype))
    kept = out != 0
    assert_close(out, torch.where(kept, x.double() / 0.75, 0.0))
    if x.numel() > 10_000:
        assert abs(float(kept.double().mean()) - 0.75) < 6 * (0.75 * 0.25 / x.numel()) ** 0.5
        assert not torch.equal(kept, dropout(x, 0.25, seed + 1) != 0)
    assert torch.equal(dropout(torch.ones_like(x), 0.25, seed) != 0, kept)


def test_dropout_of_nothing_and_of_everything():
    x = normal((5, 9), torch.float32, fresh_seed())
    assert torch.equal(dropout(x, 0.0, 1), x)
    assert torch.equal(dropout(x, 1.0, 1), torch.zeros_like(x))


def rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, interleaved: bool) -> torch.Tensor:
    pairs = x.double().unflatten(-1, (-1, 2) if interleaved else (2, -1))
    one, other = pairs.unbind(-1 if interleaved else -2)
    cosine, sine = (table.double()[None, :, None, :] for table in (cosine, sine))
    turned = (one * cosine - other * sine, other * cosine + one * sine)
    return torch.stack(turned, -1 if interleaved else -2).flatten(-2)


@pytest.mark.sample(6)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("shape", "dtype"), every_dtype([(2, 9, 3, 8), (1, 1, 1, 2), (0, 3, 2, 4), (3, 17, 2, 66)]))
def test_rotary_embedding_is_right_and_turns_back(shape, dtype, interleaved):
    seed = fresh_seed()
    x, angle = normal(shape, dtype, seed), normal((shape[1], shape[3] // 2), torch.float32, seed + 1)
    cosine, sine = angle.cos(), angle.sin()
    out = rotary_embedding(x, cosine, sine, interleaved, out=poisoned(shape, dtype))
    assert_close(out, rotated(x, cosine, sine, interleaved), scale=2.0)
    back = rotary_embedding(out, cosine, sine, interleaved, backward=True)
    assert_close(back, rotated(out, cosine, -sine, interleaved), scale=2.0)
    heads_first = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert_close(
        rotary_embedding(heads_first, cosine, sine, interleaved), rotated(x, cosine, sine, interleaved), scale=2.0
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype([(33, 7), (1000,), (0, 3), (5, 4, 3)]))
def test_adamw_takes_the_steps_that_torch_takes(shape, dtype):
    seed = fresh_seed()
    parameter = normal(shape, dtype, seed)
    mean, square = (torch.zeros(shape, dtype=torch.float32 if dtype.itemsize < 4 else dtype) for _ in range(2))
    exact = parameter.double().clone().requires_grad_()
    optimiser = torch.optim.AdamW([exact], lr=0.01, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)
    for step in range(1, 4):
        grad = normal(shape, dtype, seed + step)
        with torch.no_grad():
            exact.copy_(parameter.double())  # rounding of one step is not the next one's mistake
        exact.grad = grad.double()
        optimiser.step()
        adamw(parameter, grad, mean, square, step, 0.01, (0.8, 0.9), 1e-6, 0.1)
        assert_close(parameter, exact.detach(), scale=4.0)


def test_numpy_in_numpy_out():
    x = np.random.default_rng(fresh_seed()).normal(size=(4, 6))
    np.testing.assert_allclose(activate(x, "tanh"), np.tanh(x), rtol=1e-13)
    assert isinstance(dropout(x, 0.5, 1), np.ndarray)
    assert isinstance(rotary_embedding(x.reshape(1, 4, 1, 6), x[:, :3], x[:, 3:]), np.ndarray)


def test_wrong_arguments_are_named():
    x = torch.zeros(4, 8)
    for message, call in {
        "activation is 'relo'": lambda: activate(x, "relo"),
        "x has dtype int32": lambda: activate(x.int(), "relu"),
        "out": lambda: activate(x, "relu", torch.zeros(4, 9)),
        "probability is 1.5": lambda: dropout(x, 1.5, 1),
        "x has shape .* expected 4 dimensions: B × M × H": lambda: rotary_embedding(x, x, x),
        "step is 0": lambda: adamw(x, x.clone(), x.clone(), x.clone(), 0),
        "has shape": lambda: adamw(x, torch.zeros(4, 9), x.clone(), x.clone(), 1),
    }.items():
        with pytest.raises(vk.ArgumentError, match=message):
            call()
