"""Torch layers that compute with the library: `replace` puts them into models, and `restore` removes them.

Each is a subclass of the torch layer that it replaces, without state of its own. For calls that the library does not
support (other dtypes, autocast, wrong shapes) it behaves as the torch layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vkernels.library.activations import ACTIVATIONS

from .convolution import conv2d
from .dense import matmul
from .elements import activate, dropout
from .losses import cross_entropy
from .norms import group_norm, layer_norm, log_softmax, rms_norm, softmax
from .registering import is_capturing
from .sparse import embedding_bag

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def is_for_library(x: torch.Tensor, *parameters: torch.Tensor | None) -> bool:
    """Whether the library supports a tensor and a layer's parameters."""
    return (
        x.dtype in FLOATS
        and x.ndim > 0
        and x.device.type in ("cpu", "cuda")
        and x.layout is torch.strided
        and not torch.is_autocast_enabled(x.device.type)
        and all(each is None or each.dtype == x.dtype for each in parameters)
    )


class Named(nn.Module):
    """A layer whose name shows that it uses the library."""

    def _get_name(self) -> str:
        return f"vkernels.{type(self).__name__}"


class LayerNorm(Named, nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rank = len(self.normalized_shape)
        if not is_for_library(x, self.weight, self.bias) or tuple(x.shape[-rank:]) != tuple(self.normalized_shape):
            return nn.LayerNorm.forward(self, x)
        if rank == 1:
            return layer_norm(x, self.weight, self.bias, self.eps)
        weight, bias = (None if each is None else each.flatten() for each in (self.weight, self.bias))
        return layer_norm(x.flatten(-rank), weight, bias, self.eps).reshape(x.shape)


class RMSNorm(Named, nn.RMSNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rank, eps = len(self.normalized_shape), self.eps
        if eps is None and x.dtype in (torch.float32, torch.float64):
            eps = torch.finfo(x.dtype).eps
        fits = tuple(x.shape[-rank:]) == tuple(self.normalized_shape)
        if eps is None or not fits or not is_for_library(x, self.weight):
            return nn.RMSNorm.forward(self, x)
        if rank == 1:
            return rms_norm(x, self.weight, eps)
        weight = None if self.weight is None else self.weight.flatten()
        return rms_norm(x.flatten(-rank), weight, eps).reshape(x.shape)


class GroupNorm(Named, nn.GroupNorm):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        fits = input.ndim >= 2 and input.shape[1] == self.num_channels and input.numel() > 0
        if not fits or not is_for_library(input, self.weight, self.bias):
            return nn.GroupNorm.forward(self, input)
        return group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class Softmax(Named, nn.Softmax):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self.dim not in (-1, input.ndim - 1) or not is_for_library(input):
            return nn.Softmax.forward(self, input)
        return softmax(input)


class LogSoftmax(Named, nn.LogSoftmax):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self.dim not in (-1, input.ndim - 1) or not is_for_library(input):
            return nn.LogSoftmax.forward(self, input)
        return log_softmax(input)


class CrossEntropyLoss(Named, nn.CrossEntropyLoss):
    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        classes = input.shape[:1] + input.shape[2:]
        fits = input.ndim >= 2 and target.dtype == torch.int64 and target.shape == classes
        if not fits or is_capturing(input) or not is_for_library(input):
            return nn.CrossEntropyLoss.forward(self, input, target)
        rows = input if input.ndim == 2 else input.movedim(1, -1).reshape(-1, input.shape[1])
        loss = cross_entropy(rows, target.reshape(-1), self.ignore_index, self.label_smoothing, self.reduction)
        return loss.reshape(target.shape) if self.reduction == "none" else loss


class Dropout(Named, nn.Dropout):
    """The seed comes from torch's random generator of the CPU."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0.0:
            return input
        if torch.compiler.is_compiling() or not is_for_library(input) or is_capturing(input):
            return nn.Dropout.forward(self, input)  # a seed would be the same in all calls
        return dropout(input, self.p, int(torch.randint(1 << 62, ())))


class Linear(Named, nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return linear(self, input, "none")


class Conv2d(Named, nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return convolution(self, input, "none")


class EmbeddingBag(Named, nn.EmbeddingBag):
    def forward(
        self,
        input: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        start = self._starts(input, offsets)
        fits = start is not None and per_sample_weights is None and is_for_library(self.weight)
        if start is None or not fits or is_capturing(self.weight):
            return nn.EmbeddingBag.forward(self, input, offsets, per_sample_weights)
        return embedding_bag(self.weight, input.reshape(-1), start, self.mode)

    def _starts(self, input: torch.Tensor, offsets: torch.Tensor | None) -> torch.Tensor | None:
        if input.ndim == 2 and offsets is None:
            return torch.arange(len(input) + 1, device=input.device) * input.shape[1]
        if input.ndim != 1 or offsets is None or offsets.ndim != 1 or offsets.dtype != input.dtype:
            return None
        return offsets if self.include_last_offset else torch.cat([offsets, offsets.new_tensor([len(input)])])


class ReLU(Named, nn.ReLU):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return activate(input, "relu") if is_for_library(input) else nn.ReLU.forward(self, input)


class GELU(Named, nn.GELU):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        activation = activation_of(self)
        if activation is None or not is_for_library(input):
            return nn.GELU.forward(self, input)
        return activate(input, activation)


class SiLU(Named, nn.SiLU):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return activate(input, "silu") if is_for_library(input) else nn.SiLU.forward(self, input)


class Sigmoid(Named, nn.Sigmoid):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return activate(input, "sigmoid") if is_for_library(input) else nn.Sigmoid.forward(self, input)


class Tanh(Named, nn.Tanh):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return activate(input, "tanh") if is_for_library(input) else nn.Tanh.forward(self, input)


class Sequential(Named, nn.Sequential):
    """Runs layers; those named in `fused` compute the activation after them in the same pass."""

    fused: tuple[str, ...]

    def forward(self, input: Any) -> Any:
        layers, x, done = list(self._modules.items()), input, False
        for at, (name, layer) in enumerate(layers):
            if done:
                done = False
                continue
            following = layers[at + 1][1] if at + 1 < len(layers) else None
            activation = activation_of(following, True) if name in self.fused else None
            if activation is None or has_hooks(layer) or has_hooks(following):
                x = layer(x)
            else:
                x, done = run_fused(layer, x, activation), True
        return x


LAYERS: dict[type[nn.Module], type[nn.Module]] = {
    nn.LayerNorm: LayerNorm,
    nn.RMSNorm: RMSNorm,
    nn.GroupNorm: GroupNorm,
    nn.Softmax: Softmax,
    nn.LogSoftmax: LogSoftmax,
    nn.CrossEntropyLoss: CrossEntropyLoss,
    nn.Dropout: Dropout,
    nn.Linear: Linear,
    nn.Conv2d: Conv2d,
    nn.EmbeddingBag: EmbeddingBag,
    nn.ReLU: ReLU,
    nn.GELU: GELU,
    nn.SiLU: SiLU,
    nn.Sigmoid: Sigmoid,
    nn.Tanh: Tanh,
}
"""Torch's layers, and ours that replace them."""

FUSING: tuple[type[nn.Module], ...] = (nn.Linear, nn.Conv2d)
"""Layers that can compute an activation in the same pass."""


def original(layer: nn.Module) -> type[nn.Module]:
    """The torch class of a layer, replaced or not."""
    return _ORIGINALS.get(type(layer), type(layer))


_ORIGINALS: dict[type[nn.Module], type[nn.Module]] = {
    **{ours: theirs for theirs, ours in LAYERS.items()},
    Sequential: nn.Sequential,
}


def unfit(layer: nn.Module) -> str | None:
    """Why a layer cannot be replaced for any input; None if it can."""
    kind = original(layer)
    if kind not in LAYERS:
        return "the library has no counterpart"
    if getattr(layer, "inplace", False):
        return "works in place"
    if isinstance(layer, nn.Conv2d) and padding_of(layer) is None:
        return f"padding {layer.padding!r} of mode {layer.padding_mode!r}"
    if isinstance(layer, nn.CrossEntropyLoss) and layer.weight is not None:
        return "weights of classes"
    if isinstance(layer, nn.EmbeddingBag):
        return _unfit_bag(layer)
    return None


def _unfit_bag(layer: nn.EmbeddingBag) -> str | None:
    options = {
        "max_norm": layer.max_norm is not None,
        "scale_grad_by_freq": layer.scale_grad_by_freq,
        "sparse": layer.sparse,
        "padding_idx": layer.padding_idx is not None,
    }
    found = [name for name, is_set in options.items() if is_set]
    return f"option {', '.join(found)}" if found else None


def activation_of(layer: nn.Module | None, in_place: bool = False) -> str | None:
    """The library's name of an activation layer; None for other layers, and for in-place ones unless `in_place`."""
    if layer is None or (getattr(layer, "inplace", False) and not in_place):
        return None
    if original(layer) is nn.GELU:
        return {"none": "gelu", "tanh": "gelu_tanh"}.get(str(layer.approximate))
    name = original(layer).__name__.lower()
    return name if original(layer) in LAYERS and name in ACTIVATIONS else None


def padding_of(layer: nn.Conv2d) -> tuple[int, int] | None:
    """The zero padding above and on the left; None for other padding or unequal sides."""
    if layer.padding_mode != "zeros" or layer.padding == "same":
        reach = [apart * (size - 1) for apart, size in zip(layer.dilation, layer.kernel_size, strict=True)]
        if layer.padding_mode != "zeros" or any(each % 2 for each in reach):
            return None
        return reach[0] // 2, reach[1] // 2
    if isinstance(layer.padding, str):
        return 0, 0
    down, across = layer.padding
    return down, across


def has_hooks(layer: nn.Module | None) -> bool:
    """Whether a layer has hooks."""
    return layer is not None and bool(
        layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    )


def linear(layer: nn.Linear, x: torch.Tensor, activation: str) -> torch.Tensor:
    """A linear layer, replaced or not, with an activation in the same pass."""
    if not is_for_library(x, layer.weight, layer.bias) or x.shape[-1] != layer.in_features:
        return _TORCHS[activation](nn.Linear.forward(layer, x))
    rows = x if x.ndim == 2 else x.reshape(-1, layer.in_features)
    out = matmul(rows, layer.weight.t(), layer.bias, activation)
    return out if x.ndim == 2 else out.reshape((*x.shape[:-1], layer.out_features))


def convolution(layer: nn.Conv2d, x: torch.Tensor, activation: str) -> torch.Tensor:
    """A convolution, replaced or not, with an activation in the same pass."""
    padding, (down, across), (apart_y, apart_x) = padding_of(layer), layer.stride, layer.dilation
    fits = x.ndim == 4 and x.shape[1] == layer.in_channels and is_for_library(x, layer.weight, layer.bias)
    if padding is None or not fits:
        return _TORCHS[activation](nn.Conv2d.forward(layer, x))
    return conv2d(
        x, layer.weight, layer.bias, (down, across), padding, (apart_y, apart_x), layer.groups, activation
    )  # fmt: skip


def run_fused(layer: nn.Module, x: torch.Tensor, activation: str) -> torch.Tensor:
    """A layer of `FUSING` with an activation in the same pass."""
    return linear(layer, x, activation) if isinstance(layer, nn.Linear) else convolution(layer, x, activation)  # type: ignore[arg-type]


_TORCHS: dict[str, Any] = {
    "none": lambda x: x,
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu_tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "silu": nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
