"""Attention equals torch in float64, for every dtype, size and stride, causal, in windows or neither, with heads that
share keys."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library import attention
from vkernels.library.attention_blocks import Band, Sequences, has_masks
from vkernels.targets import limits_of, target_named

from .attentions import operands, reference, scale_of
from .reference import DTYPES, assert_close, fresh_seed, normal, poisoned

SIZES = [
    # heads of queries and keys, queries, keys, elements of a query and of a value
    (1, 1, 1, 1, 1, 1),
    (4, 2, 5, 7, 3, 9),
    (2, 2, 17, 33, 24, 17),
    (6, 2, 1, 100, 16, 16),
    (1, 1, 40, 300, 64, 64),
    (2, 1, 33, 129, 128, 40),
    (1, 1, 20, 65, 512, 512),
]


CASES = [
    *((sizes, dtype, False) for sizes in SIZES for dtype in (torch.float32, torch.float16)),
    *((SIZES[2], dtype, causal) for dtype in DTYPES for causal in (False, True)),
    *((sizes, torch.float32, True) for sizes in (SIZES[1], SIZES[3], SIZES[4])),
]


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize(("sizes", "dtype", "causal"), dict.fromkeys(CASES))
def test_attention_is_right(sizes, dtype, causal):
    q, k, v = operands(sizes, dtype, fresh_seed())
    out = poisoned((*q.shape[:3], v.shape[3]), dtype)
    assert attention(q, k, v, causal=causal, out=out) is out
    assert_close(out, reference(q, k, v, causal=causal), terms=k.shape[2], scale=scale_of(q))


WINDOWS = [
    ((4, 2, 150, 200, 16, 24), torch.float32, {"causal": True, "window": 37}),
    ((2, 2, 70, 200, 16, 24), torch.float32, {"window": 5}),
    ((2, 1, 70, 70, 16, 24), torch.float32, {"window": (None, 3)}),
    ((2, 1, 90, 70, 16, 24), torch.float32, {"window": (0, 30)}),  # the first queries stand before all keys
    ((6, 2, 1, 100, 16, 24), torch.float32, {"causal": True, "window": 20}),
    ((2, 1, 9, 30, 16, 24), torch.float32, {"causal": True, "window": 100}),
    *(((2, 1, 40, 90, 16, 24), dtype, {"causal": True, "window": (17, 5)}) for dtype in DTYPES),
]


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("sizes", "dtype", "how"), WINDOWS)
def test_windows_are_right(sizes, dtype, how):
    q, k, v = operands(sizes, dtype, fresh_seed())
    out = poisoned((*q.shape[:3], v.shape[3]), dtype)
    assert attention(q, k, v, **how, out=out) is out
    assert_close(out, reference(q, k, v, **how), terms=k.shape[2], scale=scale_of(q))


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [{"causal": True}, {"window": 60}])
def test_keys_that_no_query_of_a_block_sees_are_not_computed(how):
    """Else even 0 times NaN would be NaN."""
    q, k, v = operands((1, 1, 300, 300, 16, 24), torch.float32, fresh_seed())
    k[:, :, 190:], v[:, :, 190:] = float("nan"), float("nan")
    assert not attention(q, k, v, **how)[:, :, :64].isnan().any()


@pytest.mark.parametrize("scale", [0.0, 0.7, -1.5])
def test_any_scale(scale):
    q, k, v = operands((2, 1, 9, 70, 16, 16), torch.float32, fresh_seed())
    assert_close(attention(q, k, v, scale), reference(q, k, v, scale), terms=70, scale=8)
    causal = attention(q, k, v, scale, causal=True)
    assert_close(causal, reference(q, k, v, scale, causal=True), terms=70, scale=8)


@pytest.mark.slow
@pytest.mark.parametrize("keys", [30, 3000, 14_000])
def test_rows_of_scores_of_any_length(keys):
    """Kept in a core's cache with their exponentials, exponentials alone, and in memory."""
    q, k, v = operands((1, 1, 20, keys, 8, 30), torch.float32, fresh_seed())
    assert_close(attention(q, k, v), reference(q, k, v), terms=keys, scale=scale_of(q))


def test_large_scores_do_not_overflow():
    q, k, v = operands((1, 1, 20, 50, 8, 8), torch.float32, fresh_seed())
    out = attention(q * 100, k * 100, v)
    assert_close(out, reference(q * 100, k * 100, v), terms=50, scale=1e5)


@pytest.mark.parametrize("sizes", [(0, 0, 3, 4, 5, 6), (2, 1, 0, 4, 5, 6), (2, 1, 3, 0, 5, 6), (2, 1, 3, 4, 5, 0)])
def test_empty(sizes):
    q, k, v = operands(sizes, torch.float32, fresh_seed())
    out = attention(q, k, v)
    assert out.shape == (2, sizes[0], sizes[2], sizes[5])
    assert (out == 0).all()


def test_queries_of_no_elements_see_all_keys_alike():
    q, k, v = operands((2, 1, 3, 4, 0, 6), torch.float32, fresh_seed())
    assert_close(attention(q, k, v), v.double().mean(2, keepdim=True).expand(2, 2, 3, 6), terms=4)


@pytest.mark.slow
def test_any_strides():
    """Heads beside the rows, as projections leave them, and results likewise."""
    seed = fresh_seed()
    q = normal((2, 40, 6, 24), torch.float32, seed).transpose(1, 2)
    k, v = (normal((2, 50, 2, 24), torch.float32, seed + n).transpose(1, 2) for n in (1, 2))
    out = poisoned((2, 40, 6, 24), torch.float32).transpose(1, 2)
    assert attention(q, k, v, out=out) is out
    assert_close(out, reference(q, k, v), terms=50, scale=5)
    k, v = k.flip(2).mT.contiguous().mT, v.expand(2, 2, 50, 24)
    one = q[:, :, 7:8]
    assert_close(attention(one, k, v, causal=True), reference(one, k, v), terms=50, scale=5)


def test_nan_reaches_the_queries_that_see_it():
    q, k, v = operands((1, 1, 6, 6, 8, 8), torch.float32, fresh_seed())
    k[0, 0, 3] = float("nan")
    out = attention(q, k, v, causal=True)
    assert out[0, 0, 3:].isnan().all()
    assert not out[0, 0, :3].isnan().any()


def test_numpy_in_numpy_out():
    q, k, v = operands((2, 1, 5, 6, 7, 8), torch.float64, fresh_seed())
    out = attention(q.numpy(), k.numpy(), v.numpy())
    assert isinstance(out, np.ndarray)
    assert_close(torch.from_numpy(out), reference(q, k, v), terms=6, scale=3)


def test_wrong_arguments_are_named():
    q, k, v = operands((4, 2, 5, 7, 8, 8), torch.float32, 0)
    with pytest.raises(vk.ArgumentError, match="multiple of k's 2"):
        attention(q[:, :3], k, v)
    with pytest.raises(vk.ArgumentError, match="at most k's 7"):
        attention(q.repeat(1, 1, 2, 1), k, v, causal=True)
    with pytest.raises(vk.ArgumentError, match="at most k's 7 and 2"):
        attention(q.repeat(1, 1, 2, 1), k, v, window=(None, 2))
    for window in (-1, (1, 2, 3), (None, 0.5), "ab"):
        with pytest.raises(vk.ArgumentError, match=r"window is .*expected an integer of at least 0 or"):
            attention(q, k, v, window=window)
    with pytest.raises(vk.ArgumentError, match="4 dimensions"):
        attention(q[0], k, v)
    with pytest.raises(vk.ArgumentError, match="out has shape"):
        attention(q, k, v, out=torch.zeros(2, 4, 5, 9))
    with pytest.raises(vk.ArgumentError, match="k"):
        attention(q, k[..., :7], v)
    with pytest.raises(vk.ArgumentError, match="out is v"):
        attention(v.repeat(1, 2, 1, 1)[:, :2], k, v, out=v)


@pytest.mark.parametrize(
    ("name", "width", "sizes"),
    [
        ("h200-sxm-141", 128, (128, 64)),
        ("b200-sxm-180", 64, (128, 64)),
        ("b200-sxm-180", 128, (128, 128)),
        ("h200-sxm-141", 192, (128, 32)),
        ("rtx4090", 256, (64, 64)),
        ("mi300x", 256, (128, 32)),
        ("rx7900xtx", 256, (64, 64)),
    ],
)
def test_blocks_are_as_large_as_a_gpu_has_room_for(name, width, sizes, monkeypatch):
    from vkernels.library import attention_blocks

    found = SimpleNamespace(limits=limits_of(target_named(name)))
    monkeypatch.setattr(attention_blocks, "present_target", lambda device: found)
    assert attention_blocks.sizes_on_gpu(width, width, torch.device("cuda:0")) == sizes
    assert attention_blocks.sizes_on_gpu(width, width) == ((128, 64) if width <= 128 else (64, 64))


@pytest.mark.parametrize(
    ("name", "width", "rows"),
    [
        ("b200-sxm-180", 128, 128),
        ("b200-sxm-180", 256, 64),
        ("h200-sxm-141", 128, 64),
        ("mi350x", 128, 128),
        ("mi350x", 256, 64),
        ("mi300x", 128, 64),
        ("rx7900xtx", 128, 64),
    ],
)
def test_blocks_of_gradients_are_large_where_sums_have_room(name, width, rows, monkeypatch):
    from vkernels.library import attention_blocks

    found = SimpleNamespace(limits=limits_of(target_named(name)))
    monkeypatch.setattr(attention_blocks, "present_target", lambda device: found)
    assert attention_blocks.gradient_block_on_gpu(64, width, torch.device("cuda:0")) == rows


@pytest.mark.parametrize(
    ("queries", "keys", "band", "size", "masked"),
    [
        ((0, 128, 192), (0, 64, 64), Band(), 64, False),
        ((0, 128, 192), (0, 64, 64), Band(), 128, True),
        ((0, 128), (0, 100), Band(), 64, True),
        ((0, 32), (0, 64), Band(), 16, True),
        ((0, 64), (0, 64), Band(ahead=0), 64, True),
    ],
)
def test_whole_blocks_that_see_all_have_no_masks(queries, keys, band, size, masked):
    assert has_masks(Sequences(queries, keys, band), size) == masked
