"""Cases of what works on rows: softmax and normalisations, losses, and their gradients.

What autograd keeps from the forward pass (means, log_softmax) torch's gradients are given, whatever ours find again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from vkernels.library import cross_entropy, group_norm, l2_normalize, layer_norm, log_softmax, rms_norm, softmax
from vkernels.library.losses import cross_entropy_backward, cross_entropy_parts, log_softmax_backward
from vkernels.library.norms import group_norm_backward, layer_norm_backward, rms_norm_backward
from vkernels.library.rows import softmax_backward

from .case import Case, Cases, Way, bytes_of

aten = torch.ops.aten
ROWS = {"small": (128, 512), "medium": (1024, 1024), "large": (8192, 2048)}
SCORES = {"small": (64, 1000), "medium": (512, 8192), "large": (1024, 32000)}
IMAGES = {"small": (4, 64, 16, 16, 8), "medium": (8, 64, 32, 32, 32), "large": (16, 256, 56, 56, 32)}


def cases() -> list[Case]:
    found = Cases()
    for size, shape in ROWS.items():
        _rows(found, size, *shape)
    for size, shape in SCORES.items():
        _scores(found, size, *shape)
    for size, shape in IMAGES.items():
        _groups(found, size, *shape)
    return found.found


def _rows(found: Cases, size: str, rows: int, columns: int) -> None:
    x, grad, shape = torch.randn(rows, columns), torch.randn(rows, columns), f"{rows}×{columns}"
    weight, bias = torch.randn(columns), torch.randn(columns)
    found.add("softmax", size, shape, (x,), softmax, {"softmax": lambda x: torch.softmax(x, -1)})
    found.add(
        "softmax_backward", size, shape, (grad, torch.softmax(x, -1)), softmax_backward,
        {"aten": lambda g, r: aten._softmax_backward_data(g, r, -1, g.dtype)},
    )  # fmt: skip
    found.add("log_softmax", size, shape, (x,), log_softmax, {"log_softmax": lambda x: torch.log_softmax(x, -1)})
    found.add(
        "log_softmax_backward", size, shape, (grad, torch.log_softmax(x, -1)), log_softmax_backward,
        {"aten": lambda g, r: aten._log_softmax_backward_data(g, r, -1, g.dtype)},
    )  # fmt: skip
    found.add(
        "layer_norm", size, shape, (x, weight, bias), layer_norm,
        {"layer_norm": lambda x, w, b: functional.layer_norm(x, w.shape, w, b)},
    )  # fmt: skip
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    found.add(
        "layer_norm_backward", size, shape, (grad, x, weight, bias), lambda g, x, w, b: layer_norm_backward(g, x, w),
        {"aten": Way(_layer_norm_backward, (grad, x, weight, bias, mean, torch.rsqrt(variance + 1e-5)))},
        bytes_of(grad, x, x),
    )  # fmt: skip
    found.add(
        "rms_norm", size, shape, (x, weight), rms_norm,
        {"rms_norm": lambda x, w: functional.rms_norm(x, w.shape, w, 1e-5)},
    )  # fmt: skip
    inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
    found.add(
        "rms_norm_backward", size, shape, (grad, x, weight), rms_norm_backward,
        {"formula": Way(_rms_norm_backward, (grad, x, weight, inverse))}, bytes_of(grad, x, x),
    )  # fmt: skip
    found.add("l2_normalize", size, shape, (x,), l2_normalize, {"normalize": lambda x: functional.normalize(x, dim=-1)})


def _layer_norm_backward(grad: Any, x: Any, weight: Any, bias: Any, mean: Any, inverse: Any) -> Any:
    return aten.native_layer_norm_backward(grad, x, weight.shape, mean, inverse, weight, bias, [True, True, True])


def _rms_norm_backward(grad: Any, x: Any, weight: Any, inverse: Any) -> Any:
    normal, change = x * inverse, grad * weight
    of_x = inverse * (change - normal * (change * normal).mean(-1, keepdim=True))
    return of_x, (grad * normal).sum(0)


def _scores(found: Cases, size: str, rows: int, classes: int) -> None:
    x, target, shape = torch.randn(rows, classes), torch.randint(0, classes, (rows,)), f"{rows}×{classes}"
    moved = bytes_of(x, target)
    found.add(
        "cross_entropy", size, shape, (x, target), cross_entropy, {"cross_entropy": functional.cross_entropy}, moved
    )
    grad = torch.tensor(1.0)
    _, normaliser, count = cross_entropy_parts(x, target, -100, 0.0, "mean", True)
    found.add(
        "cross_entropy_backward", size, shape, (grad, x, target),
        lambda g, x, t: cross_entropy_backward(g, x, t, normaliser, count),
        {"aten": _cross_entropy_backward, "from log_softmax": _KeptLogSoftmax(x, target)},
        moved + bytes_of(x), exact=_cross_entropy_backward,
    )  # fmt: skip


def _cross_entropy_backward(grad: Any, x: Any, target: Any) -> Any:
    share = torch.softmax(x, -1)
    hit = functional.one_hot(target, x.shape[1]) if x.dtype == torch.float64 else 0
    if x.dtype == torch.float64:
        return (share - hit) * (grad / x.shape[0])
    each = (grad / x.shape[0]).expand(x.shape[0], 1)
    return share.mul_(each).scatter_add_(1, target[:, None], -each)


class _KeptLogSoftmax:
    """What autograd does, with log_softmax kept from the forward pass."""

    def __init__(self, x: torch.Tensor, target: torch.Tensor):
        self.logs, self.weight = torch.log_softmax(x, -1), torch.tensor(float(len(target)))

    def __call__(self, grad: Any, x: Any, target: Any) -> Any:
        each = aten.nll_loss_backward(grad, self.logs, target, None, 1, -100, self.weight)
        return aten._log_softmax_backward_data(each, self.logs, -1, x.dtype)


def _groups(found: Cases, size: str, batch: int, channels: int, height: int, width: int, groups: int) -> None:
    shape = f"{batch}×{channels}×{height}×{width} in {groups}"
    x, grad = torch.randn(batch, channels, height, width), torch.randn(batch, channels, height, width)
    weight, bias = torch.randn(channels), torch.randn(channels)
    found.add(
        "group_norm", size, shape, (x, weight, bias), lambda x, w, b: group_norm(x, groups, w, b),
        {"group_norm": lambda x, w, b: functional.group_norm(x, groups, w, b)},
    )  # fmt: skip

    variance, mean = torch.var_mean(x.reshape(batch, groups, -1), -1, correction=0)
    sizes = (batch, channels, height * width, groups, [True, True, True])
    found.add(
        "group_norm_backward", size, shape, (grad, x, weight), lambda g, x, w: group_norm_backward(g, x, groups, w),
        {
            "aten": Way(
                lambda g, x, w, mean, inverse: aten.native_group_norm_backward(g, x, mean, inverse, w, *sizes),
                (grad, x, weight, mean, torch.rsqrt(variance + 1e-5)),
            )
        },
        bytes_of(grad, x, x),
    )  # fmt: skip
