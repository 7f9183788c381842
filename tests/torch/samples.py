"""What each operation is called with in tests: small float64 tensors, laid out in several ways, that require grad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import vkernels.torch  # noqa: F401  registers the operations
from vkernels.library.finite_elements import basis

from ..library.samples import NUMBERS, Function, Parameter, declaration_of, parameters_of, public

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


def _starts(*starts: int) -> torch.Tensor:
    return torch.tensor(starts)


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
    "attention_forward": lambda make: (
        make.turned(2, 4, 5, 3), make.sparse(2, 2, 6, 3), make.turned(2, 2, 6, 4), 0.7, True, 3, None,
    ),
    "attention_of_sequences": lambda make: (
        make.turned(7, 2, 3), make.sparse(9, 1, 3), make.turned(9, 1, 4), _starts(0, 3, 7), _starts(0, 5, 9), None,
        True, None, None,
    ),
    "matmul": lambda make: (make.turned(5, 7), make.sparse(7, 4), make.sparse(4), None, None, None),
    "batched_matmul": lambda make: (
        make.turned(2, 5, 7), make.sparse(2, 7, 4), make.sparse(4), "silu", "ieee", "float64",
    ),
    "mlp": lambda make: (make.turned(5, 6), make.sparse(6, 7), make(7), make.turned(7, 4), None, "tanh"),
    "cumulative_sum": lambda make: (make.turned(2, 3, 9),),
    "stencil": lambda make: (make.turned(2, 5, 6), make.sparse(3, 3)),
    "segment_sum": lambda make: (make.turned(9, 4), _starts(1, 4, 4, 9), True),
    "csr_matmul": lambda make: (
        _starts(0, 3, 3, 7), make.integers(5, 7), make.sparse(7), make.turned(5, 4), make(3), "gelu", True,
    ),
    "ell_matmul": lambda make: (
        make.integers(5, 6, 3), make.turned(6, 3), make.sparse(5, 4), make(6), "sigmoid", True,
    ),
    "block_matmul": lambda make: (
        _starts(0, 2, 3), make.integers(3, 3), make.turned(3, 2, 4), make.sparse(12, 5), make(4), "tanh", True,
    ),
    "sampled_matmul": lambda make: (
        make.integers(4, 9), make.integers(5, 9), make.sparse(9), make.turned(4, 6), make(5, 6), True,
    ),
    "embedding_bag": lambda make: (make.turned(6, 5), make.integers(6, 8), _starts(0, 3, 3, 8), "max", True),
    "grouped_matmul": lambda make: (
        make.turned(6, 4), make.sparse(3, 4, 5), _starts(0, 2, 2, 7), make(3, 5), "tanh", make.integers(6, 7), True,
    ),
    "mixture_of_experts": lambda make: (
        make.turned(5, 4), make.integers(3, 5, 2), make.sparse(5, 2), make(3, 4, 6), make.turned(3, 6, 4), None,
        make(3, 4), "gelu", True,
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
    "matmul_backward": lambda make: (make.turned(5, 4), make(5, 7), make(7, 4), make(4), "gelu", "tf32"),
    "batched_matmul_backward": lambda make: (make.turned(2, 5, 4), make(2, 5, 7), make(7, 4), None, None, None),
    "attention_backward": lambda make: (
        make.turned(2, 4, 5, 4), make(2, 4, 5, 3), make(2, 2, 6, 3), make(2, 2, 6, 4), make(2, 4, 5, 4), make(2, 4, 5),
        None, False, 2, 1,
    ),
    "attention_of_sequences_backward": lambda make: (
        make.turned(7, 2, 4), make(7, 2, 3), make(9, 1, 3), make(9, 1, 4), make(7, 2, 4), make(2, 7), _starts(0, 3, 7),
        _starts(0, 5, 9), 0.5, False, None, None,
    ),
    "mlp_backward": lambda make: (make.turned(5, 4), make(5, 6), make(6, 7), None, make(7, 4), make(4), "relu"),
    "cumulative_sum_backward": lambda make: (make.turned(2, 3, 9),),
    "stencil_backward": lambda make: (make.turned(5, 6), make(5, 6), make(5)),
    "segment_sum_backward": lambda make: (make.sparse(3), _starts(1, 4, 4, 9), 10),
    "csr_matmul_backward": lambda make: (
        make.turned(3, 4), _starts(0, 3, 3, 7), make.integers(5, 7), make(7), make(5, 4), None, "tanh",
    ),
    "ell_matmul_backward": lambda make: (
        make.turned(6, 4), make.integers(5, 6, 3), make(6, 3), make(5, 4), None, "none",
    ),
    "block_matmul_backward": lambda make: (
        make.turned(4, 5), _starts(0, 2, 3), make.integers(3, 3), make(3, 2, 4), make(12, 5), None, "none",
    ),
    "sampled_matmul_backward": lambda make: (
        make.sparse(9), make.integers(4, 9), make.integers(5, 9), make(9), make(4, 6), make(5, 6),
    ),
    "embedding_bag_backward": lambda make: (
        make.turned(3, 5), make(6, 5), make.integers(6, 8), _starts(0, 3, 3, 8), "mean",
    ),
    "grouped_matmul_backward": lambda make: (
        make.turned(6, 5), make(6, 4), make(3, 4, 5), _starts(0, 2, 2, 6), None, "none", None,
    ),
    "mixture_of_experts_backward": lambda make: (
        make.turned(5, 4), make(5, 4), make.integers(3, 5, 2), make(5, 2), make(3, 4, 6), make(3, 6, 4), make(3, 6),
        None, "relu",
    ),
    "activate_backward": lambda make: (make.turned(3, 8), make(3, 8), "gelu"),
    "conv2d_backward": lambda make: (
        make(2, 6, 3, 4), make(2, 4, 5, 6), make(6, 2, 3, 2), make(6), [2, 1], [1, 0], [1, 2], 2, "tanh",
    ),
}  # fmt: skip
"""Operations that are the gradients of others."""

WITHOUT_GRADIENTS: dict[str, Sample] = {
    "attention": lambda make: (
        make.turned(2, 4, 5, 3), make.sparse(2, 2, 6, 3), make.turned(2, 2, 6, 4), None, False, None, 2,
    ),
}  # fmt: skip
"""Operations that stand for others where no gradient is wanted."""

IN_PLACE: dict[str, Sample] = {
    "adamw": lambda make: (
        make(3, 5, grad=False), make(3, 5, grad=False), make(3, 5, grad=False), make(3, 5, grad=False).abs(),
        2, 1e-3, 0.9, 0.99, 1e-8, 1e-2,
    ),
}  # fmt: skip
"""Operations that change arguments."""

INTEGERS = ("argmax", "argmin", "histogram")
"""Operations whose results have no gradient."""


def _from_declaration(name: str, function: Function) -> Sample:
    """The arguments of an operation, made of what the library's function of that name declares."""
    parameters = {parameter.name: parameter for parameter in parameters_of(name, function)}
    defaults = declaration_of(function).defaults

    def sample(make: Maker) -> tuple[Any, ...]:
        schema = getattr(torch.ops.vkernels, name).default._schema
        return tuple(_argument(make, parameters[each.name], defaults[each.name]) for each in schema.arguments)

    return sample


def _argument(make: Maker, parameter: Parameter, default: Any) -> Any:
    if parameter.shape is None:
        return NUMBERS.get(parameter.name, default)
    if parameter.is_index:
        return torch.zeros(parameter.shape, dtype=torch.int64)
    return make.turned(*parameter.shape) if len(parameter.shape) > 1 else make(*parameter.shape)


_EXPLICIT = {*SAMPLES, *GRADIENTS, *WITHOUT_GRADIENTS, *IN_PLACE}

for _name, _function in public().items():
    if hasattr(torch.ops.vkernels, _name) and _name not in _EXPLICIT:
        (GRADIENTS if _name.endswith("_backward") else SAMPLES)[_name] = _from_declaration(_name, _function)
