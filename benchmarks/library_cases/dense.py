"""Cases of dense products: matrices, layers, experts, attention, convolution, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from vkernels.library import (
    attention,
    attention_of_sequences,
    batched_matmul,
    conv2d,
    grouped_matmul,
    matmul,
    mixture_of_experts,
    mlp,
)
from vkernels.library.attention import attention_backward, attention_forward
from vkernels.library.convolution import conv2d_backward
from vkernels.library.dense import batched_matmul_backward, matmul_backward, mlp_backward

from .case import Case, Cases, Way, bytes_of

PRODUCTS = {"small": (128, 128, 128), "medium": (512, 512, 512), "large": (1024, 1024, 1024)}
MLPS = {"small": (64, 128, 256, 128), "medium": (256, 256, 1024, 256), "large": (1024, 512, 2048, 512)}
ATTENTIONS = {"small": (1, 4, 128, 64), "medium": (1, 8, 512, 64), "large": (1, 8, 2048, 64)}
IMAGES = {"small": (2, 16, 16, 32), "medium": (4, 32, 28, 64), "large": (8, 64, 56, 64)}
EXPERTS = {"small": (4, 128, 64, 128), "medium": (8, 512, 128, 512), "large": (8, 2048, 256, 1024)}


def cases() -> list[Case]:
    found = Cases()
    for size in PRODUCTS:
        _products(found, size, *PRODUCTS[size])
        _mlp(found, size, *MLPS[size])
        _attention(found, size, *ATTENTIONS[size])
        _convolution(found, size, *IMAGES[size])
        _experts(found, size, *EXPERTS[size])
    return found.found


def _products(found: Cases, size: str, m: int, n: int, k: int) -> None:
    a, b, bias = torch.randn(m, k), torch.randn(k, n), torch.randn(n)
    moved, work, shape = bytes_of(a, b) + 4 * m * n, 2 * m * n * k, f"{m}×{n}×{k}"
    found.add("matmul", size, shape, (a, b), matmul, {"mm": torch.mm}, moved, work)
    found.add(
        "matmul", size, f"{shape}, bias, gelu", (a, b, bias), lambda a, b, c: matmul(a, b, c, "gelu"),
        {"addmm": lambda a, b, c: functional.gelu(torch.addmm(c, a, b))}, moved, work,
    )  # fmt: skip
    grad = torch.randn(m, n)
    found.add(
        "matmul_backward", size, shape, (grad, a, b), lambda g, a, b: matmul_backward(g, a, b)[:2],
        {"mm": lambda g, a, b: (g @ b.t(), a.t() @ g)}, 2 * moved, 2 * work,
    )  # fmt: skip
    a, b, grad = (torch.randn(8, *shape) for shape in ((m // 2, k // 2), (k // 2, n // 2), (m // 2, n // 2)))
    shape = f"8×{m // 2}×{n // 2}×{k // 2}"
    found.add("batched_matmul", size, shape, (a, b), batched_matmul, {"bmm": torch.bmm}, bytes_of(a, b, grad), work)
    found.add(
        "batched_matmul_backward", size, shape, (grad, a, b), lambda g, a, b: batched_matmul_backward(g, a, b)[:2],
        {"bmm": lambda g, a, b: (g @ b.mT, a.mT @ g)}, 2 * bytes_of(a, b, grad), 2 * work,
    )  # fmt: skip


def _mlp(found: Cases, size: str, m: int, k: int, h: int, n: int) -> None:
    """Weights as torch's linear layers hold them, transposed."""
    x, w1, b1, w2, b2 = torch.randn(m, k), torch.randn(h, k), torch.randn(h), torch.randn(n, h), torch.randn(n)
    linear = functional.linear
    found.add(
        "mlp", size, f"{m}×{k}×{h}×{n}", (x, w1, b1, w2, b2),
        lambda x, w1, b1, w2, b2: mlp(x, w1.t(), b1, w2.t(), b2),
        {"linear": lambda x, w1, b1, w2, b2: linear(linear(x, w1, b1).relu_(), w2, b2)},
        bytes_of(x, w1, b1, w2, b2) + 4 * m * n, 2 * m * h * (k + n),
    )  # fmt: skip
    grad = torch.randn(m, n)
    found.add(
        "mlp_backward", size, f"{m}×{k}×{h}×{n}", (grad, x, w1, b1, w2, b2),
        lambda g, x, w1, b1, w2, b2: mlp_backward(g, x, w1.t(), b1, w2.t(), b2),
        {"mm": Way(_mlp_backward, (grad, x, w1, w2, linear(x, w1, b1).relu_()))},
        2 * bytes_of(x, w1, w2) + 4 * m * n, 4 * m * h * (k + n), exact=_exact_mlp_backward,
    )  # fmt: skip
    products = linear(x, w1, b1)
    found.add(
        "mlp_backward", size, f"{m}×{k}×{h}×{n}, products kept", (grad, x, w1, b1, w2, b2, products),
        lambda g, x, w1, b1, w2, b2, kept: mlp_backward(g, x, w1.t(), b1, w2.t(), b2, "relu", kept),
        {"mm": Way(_mlp_backward, (grad, x, w1, w2, products.relu()))},
        2 * bytes_of(x, w1, w2, products) + 4 * m * n, 4 * m * h * (k + n), exact=_exact_mlp_backward,
    )  # fmt: skip


def _mlp_backward(grad: Any, x: Any, w1: Any, w2: Any, hidden: Any) -> Any:
    """torch keeps what is between the layers; ours finds it again."""
    change = torch.ops.aten.threshold_backward(grad @ w2, hidden, 0)
    return change @ w1, (change.t() @ x).t(), change.sum(0), (grad.t() @ hidden).t(), grad.sum(0)


def _exact_mlp_backward(grad: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, *kept: Any) -> Any:
    products = kept[0] if kept else functional.linear(x, w1, b1)  # kept ones are rounded before the inputs are
    return _mlp_backward(grad, x, w1, w2, products.relu())


def _attention(found: Cases, size: str, batch: int, heads: int, rows: int, depth: int) -> None:
    q, k, v = (torch.randn(batch, heads, rows, depth) for _ in range(3))
    sdpa = functional.scaled_dot_product_attention
    for causal in (False, True):
        found.add(
            "attention", size, f"{batch}×{heads}×{rows}×{depth}{', causal' if causal else ''}", (q, k, v),
            lambda q, k, v, causal=causal: attention(q, k, v, causal=causal),
            {"sdpa": lambda q, k, v, causal=causal: sdpa(q, k, v, is_causal=causal)},
            bytes_of(q, k, v, q), 4 * batch * heads * rows * (rows + 1 if causal else 2 * rows) // 2 * depth,
        )  # fmt: skip
        grad = torch.randn_like(q)
        out, normaliser = attention_forward(q, k, v, causal=causal)
        theirs, sums = _flash(q, k, v, 0.0, causal)
        found.add(
            "attention_backward", size, f"{batch}×{heads}×{rows}×{depth}{', causal' if causal else ''}",
            (grad, q, k, v, out),
            lambda g, q, k, v, o, n=normaliser, causal=causal: attention_backward(g, q, k, v, o, n, causal=causal),
            {"flash": Way(_flash_gradients(sums, causal), (grad, q, k, v, theirs))},
            bytes_of(q, k, v, q, q, k, v), 10 * batch * heads * rows * (rows + 1 if causal else 2 * rows) // 2 * depth,
            exact=_exact_attention_backward(causal),
        )  # fmt: skip
    start = torch.arange(0, batch * heads * rows + 1, rows)
    parts = [each.transpose(1, 2).reshape(-1, 1, depth) for each in (q, k, v)]
    apart = [each.view(batch * heads, 1, rows, depth) for each in parts]
    found.add(
        "attention_of_sequences", size, f"{batch * heads} of {rows}×{depth}", parts,
        lambda q, k, v: attention_of_sequences(q, k, v, start, start),
        {"sdpa": Way(lambda q, k, v: sdpa(q, k, v).reshape(-1, 1, depth), apart)},
        bytes_of(q, k, v, q), 4 * batch * heads * rows * rows * depth,
    )  # fmt: skip


_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def _flash_gradients(sums: Any, causal: bool) -> Callable[..., Any]:
    return lambda *given: _flash_backward(*given, sums, 0.0, causal)


def _exact_attention_backward(causal: bool) -> Callable[..., Any]:
    def run(grad: Any, q: Any, k: Any, v: Any, out: Any) -> Any:
        with torch.enable_grad():
            leaves = [each.detach().requires_grad_() for each in (q, k, v)]
            result = functional.scaled_dot_product_attention(*leaves, is_causal=causal)
            return torch.autograd.grad(result, leaves, grad)

    return run


def _convolution(found: Cases, size: str, batch: int, channels: int, side: int, outputs: int) -> None:
    image, weight, bias = (
        torch.randn(batch, channels, side, side),
        torch.randn(outputs, channels, 3, 3),
        torch.randn(outputs),
    )
    grad, shape = torch.randn(batch, outputs, side, side), f"{batch}×{channels}×{side}×{side} → {outputs}, 3×3"
    work = 2 * grad.numel() * channels * 9
    found.add(
        "conv2d", size, shape, (image, weight, bias), lambda x, w, b: conv2d(x, w, b, padding=1),
        {"conv2d": lambda x, w, b: functional.conv2d(x, w, b, padding=1)}, bytes_of(image, weight, grad), work,
    )  # fmt: skip

    def backward(grad: Any, image: Any, weight: Any) -> Any:
        flags = ([outputs], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True])
        return torch.ops.aten.convolution_backward(grad, image, weight, *flags)

    found.add(
        "conv2d_backward", size, shape, (grad, image, weight), lambda g, x, w: conv2d_backward(g, x, w, padding=1),
        {"aten": backward}, 2 * bytes_of(image, weight) + bytes_of(grad), 2 * work,
    )  # fmt: skip


def _experts(found: Cases, size: str, experts: int, tokens: int, inner: int, hidden: int) -> None:
    x, w1, w2 = torch.randn(tokens, inner), torch.randn(experts, inner, hidden), torch.randn(experts, hidden, inner)
    counts = torch.bincount(torch.randint(0, experts, (tokens,)), minlength=experts)
    start = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    shape = f"{tokens}×{inner}×{hidden}, {experts} experts"

    def in_groups(x: Any, w: Any) -> Any:
        parts = x.split(counts_list)
        return torch.cat([part @ one for part, one in zip(parts, w.unbind(0), strict=True)])

    counts_list = counts.tolist()
    found.add(
        "grouped_matmul", size, shape, (x, w1), lambda x, w: grouped_matmul(x, w, start), {"split, mm": in_groups},
        bytes_of(x, w1) + 4 * tokens * hidden, 2 * tokens * inner * hidden,
    )  # fmt: skip
    gate, expert = torch.softmax(torch.randn(tokens, experts), -1).topk(2)
    found.add(
        "mixture_of_experts", size, shape, (x, expert, gate, w1, w2), mixture_of_experts,
        {"index_add": Way(_mixture, compiled=False)},
        bytes_of(x, w1, w2, x), 8 * tokens * inner * hidden,
    )  # fmt: skip


def _mixture(x: Any, expert: Any, gate: Any, w1: Any, w2: Any) -> Any:
    out = torch.zeros_like(x)
    for number in range(w1.shape[0]):
        token, choice = torch.where(expert == number)
        result = functional.gelu(x[token] @ w1[number]) @ w2[number]
        out.index_add_(0, token, result * gate[token, choice][:, None])
    return out
