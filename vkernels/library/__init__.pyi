"""Types of library functions. Made by `pytest tests/library/test_stub.py --update-goldens`; do not edit."""

from typing import Any, Protocol, TypeAlias, overload

from numpy.typing import NDArray
from torch import Tensor

from .annotations import Activation, AtLeastOne, NotNegative, Share
from .attention_blocks import Window
from .convolution import Padding, Strides
from .dense import Precision
from .elements import Decay
from .losses import Reduction
from .segments import Bag

class _SupportsDlpack(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

class _SupportsArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_NumPy: TypeAlias = NDArray[Any]
_Foreign: TypeAlias = _SupportsDlpack | _SupportsArrayInterface

__all__ = [
    "activate",
    "adamw",
    "apply_mass",
    "apply_stiffness",
    "apply_stiffness_at_nodes",
    "argmax",
    "argmin",
    "attention",
    "attention_of_sequences",
    "batched_matmul",
    "block_matmul",
    "conv2d",
    "cross_entropy",
    "csr_matmul",
    "cumulative_sum",
    "dropout",
    "ell_matmul",
    "embedding_bag",
    "group_norm",
    "grouped_matmul",
    "histogram",
    "l2_normalize",
    "layer_norm",
    "log_softmax",
    "matmul",
    "max",
    "mean",
    "min",
    "mixture_of_experts",
    "mlp",
    "rms_norm",
    "rotary_embedding",
    "sampled_matmul",
    "segment_sum",
    "softmax",
    "stencil",
    "sum",
    "topk",
]

@overload
def activate(
    x: _NumPy,
    activation: Activation,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def activate(
    x: Tensor,
    activation: Activation,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def activate(
    x: _Foreign,
    activation: Activation,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def adamw(
    parameter: _NumPy,
    grad: _NumPy,
    mean: _NumPy,
    square: _NumPy,
    step: AtLeastOne,
    rate: float = ...,
    betas: tuple[Decay, Decay] = ...,
    eps: float = ...,
    decay: float = ...,
) -> None: ...
@overload
def adamw(
    parameter: Tensor,
    grad: Tensor,
    mean: Tensor,
    square: Tensor,
    step: AtLeastOne,
    rate: float = ...,
    betas: tuple[Decay, Decay] = ...,
    eps: float = ...,
    decay: float = ...,
) -> None: ...
@overload
def adamw(
    parameter: _Foreign,
    grad: _Foreign,
    mean: _Foreign,
    square: _Foreign,
    step: AtLeastOne,
    rate: float = ...,
    betas: tuple[Decay, Decay] = ...,
    eps: float = ...,
    decay: float = ...,
) -> None: ...
@overload
def apply_mass(
    x: _NumPy,
    values: _NumPy,
    weight: _NumPy,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def apply_mass(
    x: Tensor,
    values: Tensor,
    weight: Tensor,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def apply_mass(
    x: _Foreign,
    values: _Foreign,
    weight: _Foreign,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def apply_stiffness(
    x: _NumPy,
    values: _NumPy,
    slopes: _NumPy,
    metric: _NumPy,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def apply_stiffness(
    x: Tensor,
    values: Tensor,
    slopes: Tensor,
    metric: Tensor,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def apply_stiffness(
    x: _Foreign,
    values: _Foreign,
    slopes: _Foreign,
    metric: _Foreign,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def apply_stiffness_at_nodes(
    x: _NumPy,
    slopes: _NumPy,
    metric: _NumPy,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def apply_stiffness_at_nodes(
    x: Tensor,
    slopes: Tensor,
    metric: Tensor,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def apply_stiffness_at_nodes(
    x: _Foreign,
    slopes: _Foreign,
    metric: _Foreign,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def argmax(
    x: _NumPy,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> _NumPy: ...
@overload
def argmax(
    x: Tensor,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Tensor: ...
@overload
def argmax(
    x: _Foreign,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Any: ...
@overload
def argmin(
    x: _NumPy,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> _NumPy: ...
@overload
def argmin(
    x: Tensor,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Tensor: ...
@overload
def argmin(
    x: _Foreign,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Any: ...
@overload
def attention(
    q: _NumPy,
    k: _NumPy,
    v: _NumPy,
    scale: float | None = ...,
    causal: bool = ...,
    window: Window = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None = ...,
    causal: bool = ...,
    window: Window = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def attention(
    q: _Foreign,
    k: _Foreign,
    v: _Foreign,
    scale: float | None = ...,
    causal: bool = ...,
    window: Window = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def attention_of_sequences(
    q: _NumPy,
    k: _NumPy,
    v: _NumPy,
    q_start: _NumPy,
    k_start: _NumPy,
    scale: float | None = ...,
    causal: bool = ...,
    window: Window = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def attention_of_sequences(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_start: Tensor,
    k_start: Tensor,
    scale: float | None = ...,
    causal: bool = ...,
    window: Window = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def attention_of_sequences(
    q: _Foreign,
    k: _Foreign,
    v: _Foreign,
    q_start: _Foreign,
    k_start: _Foreign,
    scale: float | None = ...,
    causal: bool = ...,
    window: Window = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def batched_matmul(
    a: _NumPy,
    b: _NumPy,
    bias: _NumPy | None = ...,
    activation: Activation | None = ...,
    precision: Precision | None = ...,
    out: _NumPy | None = ...,
    dtype: str | None = ...,
) -> _NumPy: ...
@overload
def batched_matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = ...,
    activation: Activation | None = ...,
    precision: Precision | None = ...,
    out: Tensor | None = ...,
    dtype: str | None = ...,
) -> Tensor: ...
@overload
def batched_matmul(
    a: _Foreign,
    b: _Foreign,
    bias: _Foreign | None = ...,
    activation: Activation | None = ...,
    precision: Precision | None = ...,
    out: _Foreign | None = ...,
    dtype: str | None = ...,
) -> Any: ...
@overload
def block_matmul(
    start: _NumPy,
    column: _NumPy,
    block: _NumPy,
    dense: _NumPy,
    bias: _NumPy | None = ...,
    activation: Activation = ...,
    out: _NumPy | None = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def block_matmul(
    start: Tensor,
    column: Tensor,
    block: Tensor,
    dense: Tensor,
    bias: Tensor | None = ...,
    activation: Activation = ...,
    out: Tensor | None = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def block_matmul(
    start: _Foreign,
    column: _Foreign,
    block: _Foreign,
    dense: _Foreign,
    bias: _Foreign | None = ...,
    activation: Activation = ...,
    out: _Foreign | None = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def conv2d(
    image: _NumPy,
    weight: _NumPy,
    bias: _NumPy | None = ...,
    stride: Strides = ...,
    padding: Padding = ...,
    dilation: Strides = ...,
    groups: AtLeastOne = ...,
    activation: Activation = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def conv2d(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None = ...,
    stride: Strides = ...,
    padding: Padding = ...,
    dilation: Strides = ...,
    groups: AtLeastOne = ...,
    activation: Activation = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def conv2d(
    image: _Foreign,
    weight: _Foreign,
    bias: _Foreign | None = ...,
    stride: Strides = ...,
    padding: Padding = ...,
    dilation: Strides = ...,
    groups: AtLeastOne = ...,
    activation: Activation = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def cross_entropy(
    x: _NumPy,
    target: _NumPy,
    ignored: int = ...,
    smoothing: Share = ...,
    reduction: Reduction = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def cross_entropy(
    x: Tensor,
    target: Tensor,
    ignored: int = ...,
    smoothing: Share = ...,
    reduction: Reduction = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def cross_entropy(
    x: _Foreign,
    target: _Foreign,
    ignored: int = ...,
    smoothing: Share = ...,
    reduction: Reduction = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def csr_matmul(
    start: _NumPy,
    column: _NumPy,
    value: _NumPy,
    dense: _NumPy,
    bias: _NumPy | None = ...,
    activation: Activation = ...,
    out: _NumPy | None = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def csr_matmul(
    start: Tensor,
    column: Tensor,
    value: Tensor,
    dense: Tensor,
    bias: Tensor | None = ...,
    activation: Activation = ...,
    out: Tensor | None = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def csr_matmul(
    start: _Foreign,
    column: _Foreign,
    value: _Foreign,
    dense: _Foreign,
    bias: _Foreign | None = ...,
    activation: Activation = ...,
    out: _Foreign | None = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def cumulative_sum(
    x: _NumPy,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def cumulative_sum(
    x: Tensor,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def cumulative_sum(
    x: _Foreign,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def dropout(
    x: _NumPy,
    probability: Share,
    seed: int,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def dropout(
    x: Tensor,
    probability: Share,
    seed: int,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def dropout(
    x: _Foreign,
    probability: Share,
    seed: int,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def ell_matmul(
    column: _NumPy,
    value: _NumPy,
    dense: _NumPy,
    bias: _NumPy | None = ...,
    activation: Activation = ...,
    out: _NumPy | None = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def ell_matmul(
    column: Tensor,
    value: Tensor,
    dense: Tensor,
    bias: Tensor | None = ...,
    activation: Activation = ...,
    out: Tensor | None = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def ell_matmul(
    column: _Foreign,
    value: _Foreign,
    dense: _Foreign,
    bias: _Foreign | None = ...,
    activation: Activation = ...,
    out: _Foreign | None = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def embedding_bag(
    table: _NumPy,
    index: _NumPy,
    start: _NumPy,
    kind: Bag = ...,
    out: _NumPy | None = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def embedding_bag(
    table: Tensor,
    index: Tensor,
    start: Tensor,
    kind: Bag = ...,
    out: Tensor | None = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def embedding_bag(
    table: _Foreign,
    index: _Foreign,
    start: _Foreign,
    kind: Bag = ...,
    out: _Foreign | None = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def group_norm(
    x: _NumPy,
    groups: AtLeastOne,
    weight: _NumPy | None = ...,
    bias: _NumPy | None = ...,
    eps: float = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def group_norm(
    x: Tensor,
    groups: AtLeastOne,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    eps: float = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def group_norm(
    x: _Foreign,
    groups: AtLeastOne,
    weight: _Foreign | None = ...,
    bias: _Foreign | None = ...,
    eps: float = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def grouped_matmul(
    x: _NumPy,
    weight: _NumPy,
    start: _NumPy,
    bias: _NumPy | None = ...,
    activation: Activation = ...,
    row: _NumPy | None = ...,
    out: _NumPy | None = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def grouped_matmul(
    x: Tensor,
    weight: Tensor,
    start: Tensor,
    bias: Tensor | None = ...,
    activation: Activation = ...,
    row: Tensor | None = ...,
    out: Tensor | None = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def grouped_matmul(
    x: _Foreign,
    weight: _Foreign,
    start: _Foreign,
    bias: _Foreign | None = ...,
    activation: Activation = ...,
    row: _Foreign | None = ...,
    out: _Foreign | None = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def histogram(
    x: _NumPy,
    bins: AtLeastOne,
    low: float,
    high: float,
) -> _NumPy: ...
@overload
def histogram(
    x: Tensor,
    bins: AtLeastOne,
    low: float,
    high: float,
) -> Tensor: ...
@overload
def histogram(
    x: _Foreign,
    bins: AtLeastOne,
    low: float,
    high: float,
) -> Any: ...
@overload
def l2_normalize(
    x: _NumPy,
    eps: float = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def l2_normalize(
    x: Tensor,
    eps: float = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def l2_normalize(
    x: _Foreign,
    eps: float = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def layer_norm(
    x: _NumPy,
    weight: _NumPy | None = ...,
    bias: _NumPy | None = ...,
    eps: float = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def layer_norm(
    x: Tensor,
    weight: Tensor | None = ...,
    bias: Tensor | None = ...,
    eps: float = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def layer_norm(
    x: _Foreign,
    weight: _Foreign | None = ...,
    bias: _Foreign | None = ...,
    eps: float = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def log_softmax(
    x: _NumPy,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def log_softmax(
    x: Tensor,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def log_softmax(
    x: _Foreign,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def matmul(
    a: _NumPy,
    b: _NumPy,
    bias: _NumPy | None = ...,
    activation: Activation | None = ...,
    precision: Precision | None = ...,
    out: _NumPy | None = ...,
    dtype: str | None = ...,
) -> _NumPy: ...
@overload
def matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = ...,
    activation: Activation | None = ...,
    precision: Precision | None = ...,
    out: Tensor | None = ...,
    dtype: str | None = ...,
) -> Tensor: ...
@overload
def matmul(
    a: _Foreign,
    b: _Foreign,
    bias: _Foreign | None = ...,
    activation: Activation | None = ...,
    precision: Precision | None = ...,
    out: _Foreign | None = ...,
    dtype: str | None = ...,
) -> Any: ...
@overload
def max(
    x: _NumPy,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> _NumPy: ...
@overload
def max(
    x: Tensor,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Tensor: ...
@overload
def max(
    x: _Foreign,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Any: ...
@overload
def mean(
    x: _NumPy,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> _NumPy: ...
@overload
def mean(
    x: Tensor,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Tensor: ...
@overload
def mean(
    x: _Foreign,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Any: ...
@overload
def min(
    x: _NumPy,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> _NumPy: ...
@overload
def min(
    x: Tensor,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Tensor: ...
@overload
def min(
    x: _Foreign,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Any: ...
@overload
def mixture_of_experts(
    x: _NumPy,
    expert: _NumPy,
    gate: _NumPy,
    w1: _NumPy,
    w2: _NumPy,
    b1: _NumPy | None = ...,
    b2: _NumPy | None = ...,
    activation: Activation = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def mixture_of_experts(
    x: Tensor,
    expert: Tensor,
    gate: Tensor,
    w1: Tensor,
    w2: Tensor,
    b1: Tensor | None = ...,
    b2: Tensor | None = ...,
    activation: Activation = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def mixture_of_experts(
    x: _Foreign,
    expert: _Foreign,
    gate: _Foreign,
    w1: _Foreign,
    w2: _Foreign,
    b1: _Foreign | None = ...,
    b2: _Foreign | None = ...,
    activation: Activation = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def mlp(
    x: _NumPy,
    w1: _NumPy,
    b1: _NumPy | None,
    w2: _NumPy,
    b2: _NumPy | None = ...,
    activation: Activation = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def mlp(
    x: Tensor,
    w1: Tensor,
    b1: Tensor | None,
    w2: Tensor,
    b2: Tensor | None = ...,
    activation: Activation = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def mlp(
    x: _Foreign,
    w1: _Foreign,
    b1: _Foreign | None,
    w2: _Foreign,
    b2: _Foreign | None = ...,
    activation: Activation = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def rms_norm(
    x: _NumPy,
    weight: _NumPy | None = ...,
    eps: float = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def rms_norm(
    x: Tensor,
    weight: Tensor | None = ...,
    eps: float = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def rms_norm(
    x: _Foreign,
    weight: _Foreign | None = ...,
    eps: float = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def rotary_embedding(
    x: _NumPy,
    cosine: _NumPy,
    sine: _NumPy,
    interleaved: bool = ...,
    backward: bool = ...,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def rotary_embedding(
    x: Tensor,
    cosine: Tensor,
    sine: Tensor,
    interleaved: bool = ...,
    backward: bool = ...,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def rotary_embedding(
    x: _Foreign,
    cosine: _Foreign,
    sine: _Foreign,
    interleaved: bool = ...,
    backward: bool = ...,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def sampled_matmul(
    row: _NumPy,
    column: _NumPy,
    value: _NumPy,
    a: _NumPy,
    b: _NumPy,
    out: _NumPy | None = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def sampled_matmul(
    row: Tensor,
    column: Tensor,
    value: Tensor,
    a: Tensor,
    b: Tensor,
    out: Tensor | None = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def sampled_matmul(
    row: _Foreign,
    column: _Foreign,
    value: _Foreign,
    a: _Foreign,
    b: _Foreign,
    out: _Foreign | None = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def segment_sum(
    value: _NumPy,
    start: _NumPy,
    out: _NumPy | None = ...,
    checked: bool = ...,
) -> _NumPy: ...
@overload
def segment_sum(
    value: Tensor,
    start: Tensor,
    out: Tensor | None = ...,
    checked: bool = ...,
) -> Tensor: ...
@overload
def segment_sum(
    value: _Foreign,
    start: _Foreign,
    out: _Foreign | None = ...,
    checked: bool = ...,
) -> Any: ...
@overload
def softmax(
    x: _NumPy,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def softmax(
    x: Tensor,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def softmax(
    x: _Foreign,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def stencil(
    x: _NumPy,
    weight: _NumPy,
    out: _NumPy | None = ...,
) -> _NumPy: ...
@overload
def stencil(
    x: Tensor,
    weight: Tensor,
    out: Tensor | None = ...,
) -> Tensor: ...
@overload
def stencil(
    x: _Foreign,
    weight: _Foreign,
    out: _Foreign | None = ...,
) -> Any: ...
@overload
def sum(
    x: _NumPy,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> _NumPy: ...
@overload
def sum(
    x: Tensor,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Tensor: ...
@overload
def sum(
    x: _Foreign,
    dim: int | None = ...,
    keepdim: bool = ...,
) -> Any: ...
@overload
def topk(
    x: _NumPy,
    k: NotNegative,
) -> tuple[_NumPy, _NumPy]: ...
@overload
def topk(
    x: Tensor,
    k: NotNegative,
) -> tuple[Tensor, Tensor]: ...
@overload
def topk(
    x: _Foreign,
    k: NotNegative,
) -> tuple[Any, Any]: ...
