"""Cases of what treats each element by itself, reductions, scans and stencils."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from vkernels import library
from vkernels.library.activations import activate_backward
from vkernels.library.scans import cumulative_sum_backward
from vkernels.library.stencils import stencil_backward

from .case import Case, Cases, Way, bytes_of

aten = torch.ops.aten
ROWS = {"small": (128, 512), "medium": (1024, 1024), "large": (8192, 2048)}
HEADS = {"small": (1, 64, 16, 64), "medium": (1, 512, 16, 64), "large": (4, 1024, 32, 64)}
IMAGES = {"small": (1, 256, 256), "medium": (4, 512, 512), "large": (16, 1024, 1024)}


def cases() -> list[Case]:
    found = Cases()
    for size in ROWS:
        _elements(found, size, *ROWS[size])
        _rotary(found, size, *HEADS[size])
        _adamw(found, size, *ROWS[size])
        _reductions(found, size, *ROWS[size])
        _stencils(found, size, *IMAGES[size])
    return found.found


def _elements(found: Cases, size: str, rows: int, columns: int) -> None:
    x, grad, shape = torch.randn(rows, columns), torch.randn(rows, columns), f"{rows}×{columns}"
    for kind, theirs in (("gelu", functional.gelu), ("relu", torch.relu)):
        found.add("activate", size, f"{shape}, {kind}", (x,), lambda x, k=kind: library.activate(x, k), {kind: theirs})
    found.add(
        "activate_backward", size, f"{shape}, gelu", (grad, x), lambda g, x: activate_backward(g, x, "gelu"),
        {"aten": aten.gelu_backward.default},
    )  # fmt: skip
    found.add(
        "dropout", size, shape, (x,), lambda x: library.dropout(x, 0.25, 7),
        {"dropout": lambda x: functional.dropout(x, 0.25)}, exact=_dropped,
    )  # fmt: skip
    found.add("cumulative_sum", size, shape, (x,), library.cumulative_sum, {"cumsum": lambda x: torch.cumsum(x, -1)})
    found.add(
        "cumulative_sum_backward", size, shape, (grad,), cumulative_sum_backward,
        {"flip, cumsum": lambda g: g.flip(-1).cumsum(-1).flip(-1)},
    )  # fmt: skip


def _dropped(x: Any) -> Any:
    """Which elements are kept is the generator's choice, the same in float64."""
    return library.dropout(x, 0.25, 7)


def _rotary(found: Cases, size: str, batch: int, rows: int, heads: int, depth: int) -> None:
    x, angle = torch.randn(batch, rows, heads, depth), torch.randn(rows, depth // 2)

    def turned(x: Any, cosine: Any, sine: Any) -> Any:
        one, other = x.chunk(2, -1)
        cosine, sine = cosine[:, None], sine[:, None]
        return torch.cat([one * cosine - other * sine, other * cosine + one * sine], -1)

    found.add(
        "rotary_embedding", size, f"{batch}×{rows}×{heads}×{depth}", (x, angle.cos(), angle.sin()),
        library.rotary_embedding, {"formula": turned},
    )  # fmt: skip


def _adamw(found: Cases, size: str, rows: int, columns: int) -> None:
    """In place, so each has tensors of its own; exact: one step from the same ones."""
    states = [
        torch.randn(rows, columns),
        torch.randn(rows, columns),
        torch.randn(rows, columns),
        torch.rand(rows, columns),
    ]
    step = torch.tensor(3.0)

    def ours(*state: Any) -> Any:
        library.adamw(*state, 3)
        return state[0]

    def formula(p: Any, g: Any, m: Any, v: Any) -> Any:
        m.lerp_(g, 0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.mul_(1 - 1e-5).addcdiv_(m, (v.sqrt() / (1 - 0.999**3) ** 0.5).add_(1e-8), value=-1e-3 / (1 - 0.9**3))
        return p

    def fused(p: Any, g: Any, m: Any, v: Any) -> Any:
        torch._fused_adamw_(
            [p], [g], [m], [v], [], [step], lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=1e-2, eps=1e-8,
            amsgrad=False, maximize=False,
        )  # fmt: skip
        return p

    copies = [tensor.clone() for tensor in states]
    found.add(
        "adamw", size, f"{rows}×{columns}", states, ours,
        {"fused": Way(fused, copies, compiled=False), "formula": Way(formula, copies)},
        7 * bytes_of(states[0]), exact=lambda *state: formula(*(tensor.clone() for tensor in state)),
    )  # fmt: skip


def _reductions(found: Cases, size: str, rows: int, columns: int) -> None:
    x, shape = torch.randn(rows, columns), f"{rows}×{columns}"
    for name, theirs in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin)):
        ours = getattr(library, name)
        for dim in (1, 0) if name == "sum" else (1,):
            found.add(
                name, size, f"{shape}, dim {dim}", (x,), lambda x, ours=ours, dim=dim: ours(x, dim),
                {name: lambda x, theirs=theirs, dim=dim: theirs(x, dim)}, bytes_of(x),
            )  # fmt: skip
    for name, find in (("argmax", torch.argmax), ("argmin", torch.argmin)):
        ours = getattr(library, name)
        found.add(
            name, size, f"{shape}, dim 1", (x,), lambda x, ours=ours: ours(x, 1),
            {name: lambda x, find=find: find(x, 1)}, bytes_of(x), tolerance=0.0,
        )  # fmt: skip
    found.add(
        "topk", size, f"{shape}, 4", (x,), lambda x: library.topk(x, 4), {"topk": lambda x: torch.topk(x, 4)},
        bytes_of(x),
    )  # fmt: skip
    found.add(
        "histogram", size, f"{shape}, 64 bins", (x,), lambda x: library.histogram(x, 64, -4.0, 4.0),
        {"histc": lambda x: torch.histc(x, 64, -4.0, 4.0)}, bytes_of(x),
        exact=lambda x: torch.histc(x.float(), 64, -4.0, 4.0).double(),
    )  # fmt: skip


def _stencils(found: Cases, size: str, batch: int, rows: int, columns: int) -> None:
    x = torch.randn(batch, rows, columns)
    for weight in (torch.randn(3, 3), torch.randn(5)):
        around = weight
        if weight.ndim == 1:
            around = torch.zeros(3, 3)
            around.view(-1)[[1, 3, 4, 5, 7]] = weight

        def shifted(x: Any, weight: Any) -> Any:
            padded = functional.pad(x, (1, 1, 1, 1))
            places = [(a, b) for a in range(3) for b in range(3) if weight.ndim == 2 or 1 in (a, b)]
            flat = weight.reshape(-1)
            return sum(flat[n] * padded[:, a : a + rows, b : b + columns] for n, (a, b) in enumerate(places))

        found.add(
            "stencil", size, f"{batch}×{rows}×{columns}, {'3×3' if weight.ndim == 2 else 'cross'}", (x, weight),
            library.stencil,
            {
                "shifted": shifted,
                "conv2d": Way(lambda x, w: functional.conv2d(x[:, None], w[None, None], padding=1)[:, 0], (x, around)),
            },
            bytes_of(x, x),
        )  # fmt: skip
        if weight.ndim == 2:
            found.add(
                "stencil_backward", size, f"{batch}×{rows}×{columns}, 3×3", (torch.randn_like(x), x, weight),
                stencil_backward, {"convolution_backward": _stencil_backward}, bytes_of(x, x, x),
            )  # fmt: skip


def _stencil_backward(grad: Any, x: Any, weight: Any) -> Any:
    flags = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    of_x, of_weight, _ = aten.convolution_backward(grad[:, None], x[:, None], weight[None, None], *flags)
    return of_x[:, 0], of_weight[0, 0]
