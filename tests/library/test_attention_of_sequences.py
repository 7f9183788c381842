"""Attention of sequences equals attention of each alone, in float64, with its gradients; neighbours are never seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.compiler.default_session import patient
from vkernels.library import attention_of_sequences
from vkernels.library.attention import attention_of_sequences_backward, attention_of_sequences_forward

from .attentions import exactly, scale_of
from .reference import DTYPES, assert_close, fresh_seed, normal

LENGTHS = (70, 5, 0, 33, 3, 0, 9), (70, 40, 7, 0, 1, 0, 130)
"""Of queries and of keys: some of none, and more of one than of the other both ways."""
ALIKE = (30,) * 4, (62,) * 4
"""A batch. As many queries and keys in all as above."""
HEADS, GROUPS, DEPTH, VALUES = 4, 2, 24, 17


@pytest.fixture(autouse=True)
def best_plans_alone():
    """No plain ones in the mean time, which would have to be compiled too."""
    with patient():
        yield


def starts(lengths) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)


def operands(dtype: torch.dtype, seed: int, lengths=LENGTHS) -> list[torch.Tensor]:
    queries, keys = map(sum, lengths)
    shapes = (queries, HEADS, DEPTH), (keys, GROUPS, DEPTH), (keys, GROUPS, VALUES), (queries, HEADS, VALUES)
    return [normal(shape, dtype, seed + n) for n, shape in enumerate(shapes)]


def each_alone(grad, q, k, v, lengths=LENGTHS, **how) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Results and gradients, one sequence after another."""
    found = []
    for (a, b), (c, d) in zip(*(pairwise(starts(each).tolist()) for each in lengths), strict=True):
        alone = [each.swapaxes(0, 1)[None] for each in (grad[a:b], q[a:b], k[c:d], v[c:d])]
        result, gradients = exactly(*alone, **how)
        found.append([each[0].swapaxes(0, 1) for each in (result, *gradients)])
    out, *gradients = (torch.cat(parts) for parts in zip(*found, strict=True))
    return out, gradients


CASES = [
    (torch.float32, {"causal": True}),
    *(pytest.param(dtype, {"causal": True}, marks=pytest.mark.thorough) for dtype in DTYPES if dtype != torch.float32),
    pytest.param(torch.float32, {}, marks=pytest.mark.thorough),
    pytest.param(torch.float32, {"window": (20, 3)}, marks=pytest.mark.thorough),
]


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "how"), CASES)
def test_results_and_gradients_are_those_of_each_alone(dtype, how):
    q, k, v, grad = operands(dtype, fresh_seed())
    expected, gradients = each_alone(grad, q, k, v, **how)
    places = [starts(each) for each in LENGTHS]
    out, normaliser = attention_of_sequences_forward(q, k, v, *places, **how)
    assert_close(out, expected, terms=130, scale=scale_of(q))
    found = attention_of_sequences_backward(grad, q, k, v, out, normaliser, *places, **how)
    for one, gradient in zip(found, gradients, strict=True):
        assert one.dtype == dtype
        assert_close(one, gradient, terms=70 * 130, scale=4 * scale_of(q), added=1.0)


def test_calls_of_the_same_and_of_other_sequences_are_right_again():
    """From the second call of the same sequences on they are repeated without the Python code around the kernel."""
    others = LENGTHS[0][::-1], LENGTHS[1][::-1]
    for number, lengths in enumerate((LENGTHS, LENGTHS, ALIKE, LENGTHS, others, ALIKE, LENGTHS, others, ALIKE, others)):
        q, k, v, grad = operands(torch.float32, fresh_seed() + number, lengths)
        expected, _ = each_alone(grad, q, k, v, lengths)
        places = [starts(each) for each in lengths]
        out, given = attention_of_sequences(q, k, v, *places), torch.full_like(grad, float("nan"))
        assert attention_of_sequences(q, k, v, *places, out=given) is given
        for found in (out, given):
            assert_close(found, expected, terms=130, scale=scale_of(q))


def test_what_is_no_number_stays_in_its_sequence():
    q, k, v, grad = operands(torch.float32, fresh_seed())
    places = q_start, k_start = [starts(each) for each in LENGTHS]
    for tensor, start in ((q, q_start), (k, k_start), (v, k_start), (grad, q_start)):
        tensor[start[1] : start[2]] = float("nan")
    out, normaliser = attention_of_sequences_forward(q, k, v, *places, causal=True)
    gradients = attention_of_sequences_backward(grad, q, k, v, out, normaliser, *places, causal=True)
    for found, start in zip((out, *gradients), (q_start, q_start, k_start, k_start), strict=True):
        inside = torch.zeros(len(found), dtype=torch.bool)
        inside[start[1] : start[2]] = True
        assert found[inside].isnan().all()
        assert not found[~inside].isnan().any()


@pytest.mark.parametrize("lengths", [((), ()), ((0, 0), (3, 4)), ((3, 4), (0, 0))], ids=["none", "queries", "keys"])
def test_without_queries_or_keys(lengths):
    q, k, v, grad = operands(torch.float32, fresh_seed(), lengths)
    places = [starts(each) for each in lengths]
    out, normaliser = attention_of_sequences_forward(q, k, v, *places)
    assert (out == 0).all()
    assert (normaliser == -float("inf")).all()
    gradients = attention_of_sequences_backward(grad, q, k, v, out, normaliser, *places)
    for found, given in zip(gradients, (q, k, v), strict=True):
        assert found.shape == given.shape
        assert (found == 0).all()


def test_numpy_in_numpy_out():
    q, k, v, grad = operands(torch.float32, fresh_seed())
    places = [starts(each).numpy() for each in LENGTHS]
    out = np.empty((sum(LENGTHS[0]), HEADS, VALUES), np.float32)
    assert attention_of_sequences(q.numpy(), k.numpy(), v.numpy(), *places, causal=True, out=out) is out
    assert_close(torch.from_numpy(out), each_alone(grad, q, k, v, causal=True)[0], terms=130, scale=scale_of(q))


def test_wrong_arguments_are_named():
    q, k, v, _ = operands(torch.float32, 0)
    q_start, k_start = (starts(each) for each in LENGTHS)
    with pytest.raises(vk.ArgumentError, match=r"q_start is .*expected integers from 0 to 120"):
        attention_of_sequences(q, k, v, q_start + 1, k_start)
    with pytest.raises(vk.ArgumentError, match=r"k_start is .*expected integers from 0 to 248"):
        attention_of_sequences(q, k, v, q_start, k_start.flip(0))
    with pytest.raises(vk.ArgumentError, match=r"k_start has shape \(7,\), expected \(8,\)"):
        attention_of_sequences(q, k, v, q_start, torch.cat([k_start[:1], k_start[2:]]))
    with pytest.raises(vk.ArgumentError, match="3 dimensions"):
        attention_of_sequences(q[None], k, v, q_start, k_start)
    with pytest.raises(vk.ArgumentError, match="out has shape"):
        attention_of_sequences(q, k, v, q_start, k_start, out=torch.zeros(3, 4, 5))
    with pytest.raises(vk.ArgumentError, match="multiple of k's 2"):
        attention_of_sequences(q[:, :3], k, v, q_start, k_start)
