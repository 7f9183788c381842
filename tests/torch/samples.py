"""What each operation is called with in tests: small float64 tensors, laid out in several ways, that require grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from vkernels.library.finite_elements import basis

Sample = Callable[["Maker"], tuple[Any, ...]]


class Maker:
    """Random tensors, each of a seed of its own. `requires_grad`: of floats."""

    def __init__(self, seed: int, requires_grad: bool = True):
        self.generator = torch.Generator().manual_seed(seed)
        self.requires_grad = requires_grad

    def __call__(self, *shape: int, grad: bool = True) -> torch.Tensor:
        """Normal numbers, row after row."""
        made = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return made.requires_grad_(grad and self.requires_grad)

    def turned(self, *shape: int) -> torch.Tensor:
        """The same with the last two dimensions exchanged in memory."""
        made = torch.randn((*shape[:-2], shape[-1], shape[-2]), generator=self.generator, dtype=torch.float64)
        return made.transpose(-1, -2).requires_grad_(self.requires_grad)

    def sparse(self, *shape: int) -> torch.Tensor:
        """The same, every other element of memory."""
        made = torch.randn((*shape[:-1], 2 * shape[-1]), generator=self.generator, dtype=torch.float64)[..., ::2]
        return made.requires_grad_(self.requires_grad)

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """From 0 up to `high`."""
        return torch.randint(0, high, shape, generator=self.generator)


def _target(make: Maker) -> torch.Tensor:
    target = make.integers(7, 5)
    target[2] = -100
    return target


_GAUSS = basis(2)
_VALUES, _SLOPES = torch.from_numpy(_GAUSS.values), torch.from_numpy(_GAUSS.slopes)
_NODE_SLOPES = torch.from_numpy(_GAUSS.node_slopes)

SAMPLES: dict[str, Sample] = {
    "softmax": lambda make: (make.turned(3, 4, 7),),
    "log_softmax": lambda make: (make.turned(3, 4, 7),),
    "layer_norm": lambda make: (make.turned(2, 5, 6), make(6), make.sparse(6), 1e-3),
    "rms_norm": lambda make: (make.turned(2, 5, 6), make.sparse(6), 1e-3),
    "group_norm": lambda make: (make.turned(2, 6, 5), 3, make(6), make.sparse(6), 1e-3),
    "cross_entropy": lambda make: (make.turned(5, 7), _target(make), -100, 0.1, "mean", True),
    "activate": lambda make: (make.turned(3, 8), "gelu"),
    "dropout": lambda make: (make.turned(6, 7), 0.3, 11),
    "rotary_embedding": lambda make: (
        make.turned(2, 3, 2, 4), make(3, 2, grad=False), make(3, 2, grad=False), True, False,
    ),
    "conv2d": lambda make: (
        make.turned(2, 4, 5, 6), make(6, 2, 3, 2), make.sparse(6), [2, 1], [1, 0], [1, 2], 2, "tanh",
    ),
    "apply_mass": lambda make: (make.turned(2, 1, 3, 3, 3), _VALUES, make(2, 4, 4, 4, grad=False)),
    "apply_stiffness": lambda make: (
        make.turned(2, 1, 3, 3, 3), _VALUES, _SLOPES, make(2, 6, 4, 4, 4, grad=False),
    ),
    "apply_stiffness_at_nodes": lambda make: (
        make.turned(2, 1, 3, 3, 3), _NODE_SLOPES, make(2, 6, 3, 3, 3, grad=False),
    ),
    "sum": lambda make: (make.turned(2, 5, 3), 1, True),
    "mean": lambda make: (make.turned(2, 5, 3), -1, False),
    "max": lambda make: (make.turned(2, 5, 3), 1, False),
    "min": lambda make: (make.turned(2, 5, 3), None, False),
    "argmax": lambda make: (make.turned(2, 5, 3), 1, False),
    "argmin": lambda make: (make.turned(2, 5, 3), None, True),
    "topk": lambda make: (make.turned(5, 9), 3),
    "histogram": lambda make: (make.turned(5, 9), 4, -2.0, 2.0),
}  # fmt: skip
"""By the operation's name: its arguments."""

GRADIENTS: dict[str, Sample] = {
    "softmax_backward": lambda make: (make.turned(4, 7), make(4, 7)),
    "log_softmax_backward": lambda make: (make.turned(4, 7), make(4, 7)),
    "layer_norm_backward": lambda make: (make.turned(5, 6), make(5, 6), make(6), 1e-3),
    "rms_norm_backward": lambda make: (make.turned(5, 6), make(5, 6), make(6), 1e-3),
    "group_norm_backward": lambda make: (make.turned(2, 6, 5), make(2, 6, 5), 3, make(6), 1e-3),
    "cross_entropy_backward": lambda make: (
        make(), make(5, 7), _target(make), make(5, grad=False), torch.ones(1, dtype=torch.float64), -100, 0.1, "mean",
    ),
    "activate_backward": lambda make: (make.turned(3, 8), make(3, 8), "gelu"),
    "conv2d_backward": lambda make: (
        make(2, 6, 3, 4), make(2, 4, 5, 6), make(6, 2, 3, 2), make(6), [2, 1], [1, 0], [1, 2], 2, "tanh",
    ),
}  # fmt: skip
"""Operations that are the gradients of others."""

IN_PLACE: dict[str, Sample] = {
    "adamw": lambda make: (
        make(3, 5, grad=False), make(3, 5, grad=False), make(3, 5, grad=False), make(3, 5, grad=False).abs(),
        2, 1e-3, 0.9, 0.99, 1e-8, 1e-2,
    ),
}  # fmt: skip
"""Operations that change arguments."""

INTEGERS = ("argmax", "argmin", "histogram")
"""Operations whose results have no gradient."""
