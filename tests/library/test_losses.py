"""Log-softmax and cross entropy, forward and backward, equal torch in float64, for every dtype, size and stride."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import vkernels as vk
from vkernels.library.losses import (
    cross_entropy,
    cross_entropy_backward,
    cross_entropy_parts,
    log_softmax,
    log_softmax_backward,
)

from .reference import assert_close, every_dtype, fresh_seed, normal, poisoned, strided

SHAPES = [(1, 1), (3, 5), (0, 7), (17, 33), (64, 16), (5, 127), (2, 1009), (7, 4097), (2, 100_003)]


def targets(shape: tuple[int, int], seed: int, ignored: int = -100) -> torch.Tensor:
    """Random classes, every third row ignored."""
    found = torch.randint(0, shape[1], shape[:1], generator=torch.Generator().manual_seed(seed))
    found[::3] = ignored
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(SHAPES))
def test_log_softmax_is_right_forward_and_backward(shape, dtype):
    seed = fresh_seed()
    x, grad = normal(shape, dtype, seed) * 8, normal(shape, dtype, seed + 1)
    out = poisoned(shape, dtype)
    assert log_softmax(x, out) is out
    assert_close(out, torch.log_softmax(x.double(), -1), terms=shape[-1], scale=4.0)
    found = log_softmax_backward(grad, out, poisoned(shape, dtype))
    expected = grad.double() - out.double().exp() * grad.double().sum(-1, keepdim=True)
    # exp(result) * sum(grad): a sum that cancels is as wrong as its largest term makes it
    scale = 1 + float(grad.double().abs().sum(-1).max()) / max(1e-9, float(expected.abs().max())) if x.numel() else 1
    assert_close(found, expected, terms=shape[-1], scale=scale)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("reduction", "smoothing"), [("mean", 0.0), ("sum", 0.1), ("none", 0.1)])
@pytest.mark.parametrize(("shape", "dtype"), every_dtype(SHAPES))
def test_cross_entropy_is_right_forward_and_backward(shape, dtype, smoothing, reduction):
    seed = fresh_seed()
    x, target = normal(shape, dtype, seed) * 4, targets(shape, seed)
    exact = x.double().clone().requires_grad_()
    expected = functional.cross_entropy(exact, target, reduction=reduction, label_smoothing=smoothing)
    loss, normaliser, count = cross_entropy_parts(x, target, -100, smoothing, reduction, True)
    assert (loss.dtype, loss.shape) == (dtype, expected.shape)
    assert_close(loss, expected.detach(), terms=x.numel(), scale=8.0)
    grad = normal(loss.shape, dtype, seed + 1)
    expected.backward(grad.double())
    found = cross_entropy_backward(
        grad, x, target, normaliser, count, -100, smoothing, reduction, poisoned(shape, dtype)
    )
    assert_close(found, exact.grad, terms=shape[-1], scale=32.0)


def test_another_class_may_be_ignored():
    x, target = normal((6, 9), torch.float32, fresh_seed()), torch.tensor([0, 8, 2, 8, 4, 8])
    expected = functional.cross_entropy(x.double(), target, ignore_index=8)
    assert_close(cross_entropy(x, target, ignored=8), expected, terms=9, scale=8.0)


@pytest.mark.parametrize("ignored", [44 + 256, 1 << 40, -(1 << 63)])
def test_a_class_that_the_dtype_of_targets_cannot_hold_ignores_none(ignored):
    """Cut to 8 bits these are classes."""
    x, target = normal((3, 50), torch.float32, fresh_seed()), torch.tensor([0, 1, 44], dtype=torch.int8)
    grad = torch.ones(3)
    exact = x.double().clone().requires_grad_()
    expected = functional.cross_entropy(exact, target.long(), reduction="none")
    expected.sum().backward()
    loss, normaliser, count = cross_entropy_parts(x, target, ignored, 0.0, "none", True)
    assert_close(loss, expected.detach(), terms=50, scale=8.0)
    assert count == 3
    found = cross_entropy_backward(grad, x, target, normaliser, count, ignored, reduction="none")
    assert_close(found, exact.grad, terms=50, scale=8.0)
    with pytest.raises(vk.ArgumentError, match="target holds -5"):
        cross_entropy(x, torch.tensor([0, -5, 44], dtype=torch.int8), ignored=ignored)


def test_without_rows_that_count_the_mean_is_nan_as_in_torch():
    x = normal((4, 9), torch.float32, fresh_seed())
    target = torch.full((4,), -100)
    assert cross_entropy(x, target).isnan()
    assert cross_entropy(x, target, reduction="sum") == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("columns", [5, 300, 70_000])
def test_nan_and_infinity_behave_as_in_torch(columns):
    x = torch.zeros(5, columns)
    x[0, columns // 2] = float("nan")
    x[1, -1] = float("inf")
    x[2, 0] = float("-inf")
    x[3, :] = float("-inf")
    x[4, 1], x[4, 3] = 3e38, -3e38
    assert_close(log_softmax(x), torch.log_softmax(x.double(), -1).float().double(), terms=columns)
    target = torch.tensor([0, 1, 2, 0, 3])
    expected = functional.cross_entropy(x, target, reduction="none")
    torch.testing.assert_close(cross_entropy(x, target, reduction="none"), expected, equal_nan=True)


@pytest.mark.slow
def test_any_strides_and_rank():
    seed = fresh_seed()
    for view in strided((37, 203), torch.float32, seed):
        assert_close(log_softmax(view), torch.log_softmax(view.double(), -1), terms=203, scale=4.0)
        target = targets((37, 203), seed).repeat_interleave(2)[::2]
        assert_close(cross_entropy(view, target), functional.cross_entropy(view.double(), target), 203, 8.0)
    x = normal((2, 3, 4, 50), torch.float32, seed)
    assert_close(log_softmax(x), torch.log_softmax(x.double(), -1), terms=50, scale=4.0)


def test_numpy_in_numpy_out():
    seed = fresh_seed()
    x, target = normal((11, 77), torch.float64, seed), targets((11, 77), seed)
    loss, normaliser, count = cross_entropy_parts(x.numpy(), target.numpy(), -100, 0.1, "mean", True)
    exact = x.clone().requires_grad_()
    expected = functional.cross_entropy(exact, target, label_smoothing=0.1)
    assert isinstance(loss, np.ndarray)
    assert_close(torch.from_numpy(np.array(loss)), expected.detach(), terms=77, scale=8.0)
    expected.backward()
    found = cross_entropy_backward(np.ones(()), x.numpy(), target.numpy(), normaliser, count, -100, 0.1)
    assert_close(torch.from_numpy(found), exact.grad, terms=77, scale=8.0)


def test_wrong_arguments_are_named():
    x, target = torch.zeros(4, 8), torch.zeros(4, dtype=torch.int64)
    for change, message in {
        "x has shape": {"x": torch.zeros(8)},
        "target": {"target": torch.zeros(5, dtype=torch.int64)},
        "target holds 8, expected 0 to 7 or -100": {"target": torch.tensor([0, 1, 8, 2])},
        "target holds -1": {"target": torch.tensor([0, -1, 7, 2])},
        "target has dtype float32": {"target": torch.zeros(4)},
        "reduction is 'max'": {"reduction": "max"},
        "smoothing is 1.5": {"smoothing": 1.5},
        "x has dtype int32": {"x": torch.zeros(4, 8, dtype=torch.int32)},
    }.items():
        with pytest.raises(vk.ArgumentError, match=change):
            cross_entropy(**{"x": x, "target": target, **message})
