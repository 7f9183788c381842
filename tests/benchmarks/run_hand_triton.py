"""Run hand-written kernels in Triton's interpreter (TRITON_INTERPRET=1), and compare with torch in float64.

TRITON_INTERPRET=1 python run_hand_triton.py CASE
"""

from __future__ import annotations

import sys

import torch
from hand_triton import attentions, convolutions, matmuls, rows, sparse

tl = matmuls.tl


def close(found: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> None:
    error = float((found.double() - wanted.double()).abs().max() / wanted.double().abs().max())
    if not error <= tolerance:
        raise SystemExit(f"error {error:.2g}, more than {tolerance}")


def matmul() -> None:
    cases = [
        ((64, 96, 64), torch.float16, torch.float16, tl.float32, True, 2e-3),
        ((37, 53, 71), torch.float16, torch.float16, tl.float32, False, 2e-3),
        ((32, 64, 64), torch.float32, torch.float32, tl.float32, True, 1e-6),
        ((32, 64, 64), torch.int8, torch.int32, tl.int32, True, 0),
    ]
    for (m, n, k), dtype, to, total, whole, tolerance in cases:
        a, b = ((torch.randn(shape) * 4).to(dtype) for shape in ((m, k), (k, n)))
        c = torch.zeros((m, n), dtype=to)
        grid = (-(-m // 32) * -(-n // 32),)
        matmuls.matmul[grid](a, b, c, m, n, k, k, n, n, 32, 32, 32, 2, whole, "ieee", total)
        close(c, a.double() @ b.double(), tolerance)


def descriptors() -> None:
    a, b, c = torch.randn(64, 96).half(), torch.randn(96, 64).half(), torch.zeros(64, 64, dtype=torch.float16)
    matmuls.matmul_by_descriptors[(4,)](a, b, c, 64, 64, 96, 32, 32, 32, 2, tl.float32)
    close(c, a.double() @ b.double(), 2e-3)


def _attended(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    score = q @ k.transpose(1, 2) * scale
    if causal:
        score = score.masked_fill(torch.triu(torch.ones_like(score[0], dtype=torch.bool), 1), float("-inf"))
    return torch.softmax(score, -1) @ v, torch.logsumexp(score, -1) * 1.4426950408889634


def attention() -> None:
    for causal in (False, True):
        q, k, v = (torch.randn(2, 128, 32).half() for _ in range(3))
        out, norms = torch.zeros_like(q), torch.zeros(2, 128)
        attentions.attention[(2, 2)](q, k, v, out, norms, 0.2, 128, 32, 64, 32, causal)
        wanted, logs = _attended(q.double(), k.double(), v.double(), 0.2, causal)
        close(out, wanted, 3e-3)
        close(norms, logs, 3e-3)


def gradients() -> None:
    for causal in (False, True):
        q, k, v, coming = (torch.randn(2, 128, 32).half() for _ in range(4))
        exact = [each.double().requires_grad_() for each in (q, k, v)]
        out, norms = _attended(*exact, 0.2, causal)
        out.backward(coming.double())
        delta, norms = torch.zeros(2, 128), norms.detach().float()
        attentions.output_products[(4,)](out.detach().half(), coming, delta, 128, 32, 64)
        dq, dk, dv = (torch.zeros_like(q) for _ in range(3))
        attentions.key_gradients[(2, 2)](q, k, v, coming, norms, delta, dk, dv, 0.2, 128, 32, 32, 64, causal)
        attentions.query_gradient[(2, 2)](q, k, v, coming, norms, delta, dq, 0.2, 128, 32, 64, 32, causal)
        for found, wanted in zip((dq, dk, dv), exact, strict=True):
            close(found, wanted.grad, 1e-2)


def normal_rows() -> None:
    x = torch.randn(5, 96) * 3
    out, wanted = torch.zeros_like(x), torch.softmax(x.double(), -1)
    rows.softmax[(5,)](x, out, 96, 128)
    close(out, wanted, 1e-6)
    out = torch.zeros_like(x)
    rows.softmax_in_chunks[(5,)](x, out, 96, 32)
    close(out, wanted, 1e-6)
    w, b = torch.randn(96), torch.randn(96)
    rows.layer_norm[(5,)](x, w, b, out, 96, 1e-5, 128)
    close(out, torch.nn.functional.layer_norm(x.double(), (96,), w.double(), b.double()), 1e-5)


def convolution() -> None:
    x, weight = torch.randn(2, 7, 6, 32).half(), torch.randn(3, 3, 32, 16).half()
    out = torch.zeros(2, 5, 4, 16, dtype=torch.float16)
    convolutions.convolution[(2,)](x, weight, out, 2, 7, 6, 32, 16, 5, 4, 3, 3, 32, 16, 16, 2)
    wanted = torch.conv2d(x.double().permute(0, 3, 1, 2), weight.double().permute(3, 2, 0, 1))
    close(out.permute(0, 3, 1, 2), wanted, 2e-3)


def csr() -> None:
    matrix = (torch.rand(17, 23) * (torch.rand(17, 23) < 0.3)).to_sparse_csr()
    dense, out = torch.randn(23, 32), torch.full((17, 32), float("nan"))
    parts = matrix.crow_indices().int(), matrix.col_indices().int(), matrix.values()
    sparse.csr_times_dense[(17, 2)](*parts, dense, out, 32, 4, 16)
    close(out, matrix.to_dense().double() @ dense.double(), 1e-6)


def layers() -> None:
    y, other = torch.rand(32, 16), torch.zeros(32, 16)
    column, weight = torch.randint(0, 32, (4, 32, 4), dtype=torch.int32), torch.rand(4, 32, 4) - 0.3
    wanted = y.double()
    for c, w in zip(column.long(), weight.double(), strict=True):
        wanted = ((w[:, :, None] * wanted[c]).sum(1) - 0.05).clamp(0, 32)
    sparse.sparse_layers[(2,)](y, other, column, weight, -0.05, 4, 32, 16, 4, 8, 8)
    close(y, wanted, 1e-6)


CASES = {
    "matmul": matmul, "descriptors": descriptors, "attention": attention, "gradients": gradients, "rows": normal_rows,
    "convolution": convolution, "csr": csr, "layers": layers,
}  # fmt: skip

if __name__ == "__main__":
    torch.manual_seed(1)
    CASES[sys.argv[1]]()
