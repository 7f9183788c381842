"""Convolution of images, with its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

from jaxtyping import Float

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError
from vkernels.language.kernel import Kernel

from .activations import activated
from .arrays import Array, check_apart, check_shape, constant_like, empty_like, joins_bf16, zeros
from .declared import Activation, AtLeastOne, NotNegative, Result, checked, replayed
from .reductions import reduce_middle
from .samples import Constants, SampleInputs, Sizes, ceil_div, entry

__all__ = ["conv2d"]

Pair = int | tuple[int, int]
"""One number for both directions, or one for down and one for across."""
Strides = AtLeastOne | tuple[AtLeastOne, AtLeastOne]
Padding = NotNegative | tuple[NotNegative, NotNegative]


@vk.kernel
def convolve(
    image: Float[vk.Tensor, "B G C H W"],
    weight: Float[vk.Tensor, "G O C R S"],
    bias: Float[vk.Tensor, "G O"],
    out: Float[vk.Tensor, "B G O Y X"],
    step_y: vk.Constant = 1,
    step_x: vk.Constant = 1,
    above: vk.Constant = 0,
    left: vk.Constant = 0,
    apart_y: vk.Constant = 1,
    apart_x: vk.Constant = 1,
    activation: vk.Constant = "none",
):
    b = vk.tile("B")
    g = vk.tile("G")
    o = vk.tile("O")
    y = vk.tile("Y")
    x = vk.tile("X")
    c = vk.whole("C")
    total = vk.zeros((b, g, o, y, x), vk.float64 if image.dtype == vk.float64 else vk.float32)
    for r in vk.range("R"):
        for s in vk.range("S"):
            down = step_y * y + apart_y * r - above
            across = step_x * x + apart_x * s - left
            total = vk.dot(weight[g, o, c, r, s], image[b, g, c, down, across], total)
    out[b, g, o, y, x] = activated(total + bias[g, o], activation)


@vk.kernel
def convolution_weight_gradient(
    grad: Float[vk.Tensor, "B G O Y X"],
    image: Float[vk.Tensor, "B G C H W"],
    each: int,
    out: Float[vk.Tensor, "P G O C R S"],
    step_y: vk.Constant = 1,
    step_x: vk.Constant = 1,
    above: vk.Constant = 0,
    left: vk.Constant = 0,
    apart_y: vk.Constant = 1,
    apart_x: vk.Constant = 1,
):
    p = vk.tile("P")
    g = vk.tile("G")
    o = vk.tile("O")
    c = vk.tile("C")
    r = vk.tile("R")
    s = vk.tile("S")
    x = vk.whole("X")
    total = vk.zeros((p, g, o, c, r, s), vk.float64 if image.dtype == vk.float64 else vk.float32)
    for n in vk.range(each):
        for y in vk.range("Y"):
            down = step_y * y + apart_y * r - above
            across = step_x * x + apart_x * s - left
            total = vk.dot(grad[p * each + n, g, o, y, x], image[p * each + n, g, c, down, across], total)
    out[p, g, o, c, r, s] = total


@vk.kernel
def arrange_weights(weight: Float[vk.Tensor, "G O C R S"], out: Float[vk.Tensor, "G R S C O"]):
    g = vk.tile("G")
    r = vk.tile("R")
    s = vk.tile("S")
    c = vk.tile("C")
    o = vk.tile("O")
    out[g, r, s, c, o] = weight[g, o, c, r, s]


@vk.kernel
def turn_weights(weight: Float[vk.Tensor, "G C O R S"], out: Float[vk.Tensor, "G R S C O"]):
    g = vk.tile("G")
    r = vk.tile("R")
    s = vk.tile("S")
    c = vk.tile("C")
    o = vk.tile("O")
    out[g, r, s, c, o] = weight[g, c, o, vk.size("R") - 1 - r, vk.size("S") - 1 - s]


@vk.kernel
def channels_last(
    image: Float[vk.Tensor, "B C H W"],
    out: Float[vk.Tensor, "B Y X C"],
    above: vk.Constant = 0,
    left: vk.Constant = 0,
):
    b = vk.tile("B")
    y = vk.tile("Y")
    x = vk.tile("X")
    c = vk.tile("C")
    out[b, y, x, c] = image[b, c, y - above, x - left]


@vk.kernel
def channel_sums(grad: Float[vk.Tensor, "B C S"], out: Float[vk.Tensor, "C"]):
    c = vk.tile("C")
    b = vk.whole("B")
    s = vk.whole("S")
    out[c] = vk.sum(grad[b, c, s], axis=(b, s))


@replayed
@checked
def conv2d(
    image: Float[Array, "B C H W"],
    weight: Float[Array, "O I R S"],
    bias: Float[Array, "O"] | None = None,
    stride: Strides = 1,
    padding: Padding = 0,
    dilation: Strides = 1,
    groups: AtLeastOne = 1,
    activation: Activation = "none",
    out: Result[Array, "B O Y X", "image"] | None = None,
) -> Array:
    """activation(weight ∗ image + bias), as `torch.nn.functional.conv2d`: 0 beyond the image's boundary.

    `image`: B × C × H × W, `weight`: O × C / groups × R × S, of any strides and one dtype: f64, f32, f16 or bf16, the
    latter two added in f32. `bias`: O elements, or none. `stride`, `padding`, `dilation`: of rows and columns. Returns
    `out`, or a new B × O × Y × X array like image. Raises `ArgumentError` for shapes, dtypes or numbers that do not go
    together.
    """
    steps = _steps(stride, padding, dilation)
    shape = _result_shape("conv2d", image, weight, steps, groups)
    out = empty_like(image, shape) if out is None else out
    check_shape("conv2d", "out", out, shape)
    check_apart("conv2d", out, image=image, weight=weight)
    bias = constant_like(image, 0.0, shape[1:2]) if bias is None else bias
    image, steps = _for_dot_units(image, steps, groups)
    convolve(
        _in_groups(image, groups), _arranged(arrange_weights, _weights_in_groups(weight, groups)),
        bias.reshape((groups, shape[1] // groups)), _in_groups(out, groups), *steps, activation,
    )  # fmt: skip
    return out


@replayed
@checked
def conv2d_backward(
    grad: Float[Array, "B O Y X"],
    image: Float[Array, "B C H W"],
    weight: Float[Array, "O I R S"],
    stride: Strides = 1,
    padding: Padding = 0,
    dilation: Strides = 1,
    groups: AtLeastOne = 1,
) -> tuple[Array, Array, Array]:
    """The gradients of image, weight and bias, given the gradient of `conv2d` without an activation: new arrays.

    `grad`: B × O × Y × X, as the result is, of the dtype of all. Raises `ArgumentError` for another shape, and as
    `conv2d` does.
    """
    steps = _steps(stride, padding, dilation)
    check_shape("conv2d_backward", "grad", grad, _result_shape("conv2d_backward", image, weight, steps, groups))
    of_bias = empty_like(grad, (grad.shape[1],))
    channel_sums(grad.reshape((*grad.shape[:2], grad.shape[2] * grad.shape[3])), of_bias)
    of_weight = _weight_gradient(grad, image, weight, steps, groups)
    return _image_gradient(grad, image, weight, steps, groups), of_weight, of_bias


Steps = tuple[int, int, int, int, int, int]
"""Strides, padding and dilation, each down and across."""


PARTIAL_BYTES = 8 << 20
"""Memory limit of partial gradients of weights."""


def _weight_gradient(grad: Array, image: Array, weight: Array, steps: Steps, groups: int) -> Array:
    """Computed in one part per image, if there is memory, so that a part's images stay in a core's cache."""
    of_weight = empty_like(weight, tuple(weight.shape))
    images, bytes_ = grad.shape[0], math.prod(weight.shape) * max(4, weight.dtype.itemsize)
    parts = max(1, min(images, PARTIAL_BYTES // max(1, bytes_)))
    if _suits_dot_units(image, groups):  # lanes along the image's channels, words along the gradient's columns
        image, steps = _for_dot_units(image, steps, groups)
    else:  # outputs, along which lanes run, are adjacent
        grad = _channels_last(grad)
    cut = _in_groups(grad, groups)
    shape = (parts, groups, weight.shape[0] // groups, *weight.shape[1:])
    each = -(-images // parts)
    if parts == 1:
        convolution_weight_gradient(cut, _in_groups(image, groups), each, of_weight.reshape(shape), *steps)
        return of_weight
    partial = empty_like(weight, shape, computed=True)
    convolution_weight_gradient(cut, _in_groups(image, groups), each, partial, *steps)
    elements = math.prod(weight.shape)
    reduce_middle(partial.reshape((1, parts, elements)), of_weight.reshape((1, elements)), "sum")
    return of_weight


def _image_gradient(grad: Array, image: Array, weight: Array, steps: Steps, groups: int) -> Array:
    """A convolution of the gradient, spread out by the strides, with the weights turned round."""
    down, across, above, left, apart_y, apart_x = steps
    reach = (apart_y * (weight.shape[2] - 1), apart_x * (weight.shape[3] - 1))
    spread = grad
    if (down, across) != (1, 1):
        spread = zeros(grad, (*grad.shape[:2], down * grad.shape[2], across * grad.shape[3]))
        spread[:, :, ::down, ::across] = grad
    turned = _arranged(turn_weights, _weights_in_groups(weight, groups))
    out = empty_like(image, tuple(image.shape))
    bias = constant_like(image, 0.0, (groups, image.shape[1] // groups))
    steps = (1, 1, reach[0] - above, reach[1] - left, apart_y, apart_x)
    spread, steps = _for_dot_units(spread, steps, groups)
    convolve(_in_groups(spread, groups), turned, bias, _in_groups(out, groups), *steps)
    return out


def _steps(stride: Pair, padding: Pair, dilation: Pair) -> Steps:
    pairs = [(n, n) if isinstance(n, int) else tuple(n) for n in (stride, padding, dilation)]
    return tuple(n for pair in pairs for n in pair)  # type: ignore[return-value]


def _result_shape(function: str, image: Array, weight: Array, steps: Steps, groups: int) -> tuple[int, int, int, int]:
    shapes = f"image has shape {tuple(image.shape)} and weight {tuple(weight.shape)} for {groups} groups"
    if weight.shape[0] % groups:
        raise ArgumentError(f"{function}: {shapes}, expected groups that divide the outputs")
    if image.shape[1] != groups * weight.shape[1]:
        raise ArgumentError(f"{function}: {shapes}, expected {groups * weight.shape[1]} channels")
    sides = []
    for at in range(2):
        room = image.shape[2 + at] + 2 * steps[2 + at] - steps[4 + at] * (weight.shape[2 + at] - 1) - 1
        if room < 0 or weight.shape[2 + at] == 0:
            raise ArgumentError(f"{function}: {shapes}, expected an image as large as the weights, padding included")
        sides.append(room // steps[at] + 1)
    return (image.shape[0], weight.shape[0], sides[0], sides[1])


def _in_groups(image: Array, groups: int) -> Array:
    """B × C × H × W as B × groups × C / groups × H × W; a view, whatever the strides."""
    shape = image.shape
    return image.reshape((shape[0], groups, shape[1] // groups, *shape[2:]))


def _suits_dot_units(image: Array, groups: int) -> bool:
    """Whether a CPU's dot unit takes neighbouring channels of a group, once they are adjacent."""
    return image.shape[1] > groups and joins_bf16(image)


def _for_dot_units(image: Array, steps: Steps, groups: int) -> tuple[Array, Steps]:
    """An image for a CPU's dot unit: within zeros for its padding, so that tiles need no guards, channels last; and the
    steps that are left. Other images as they are."""
    if not _suits_dot_units(image, groups):
        return image, steps
    down, across, above, left, apart_y, apart_x = steps
    rows, columns = max(0, above), max(0, left)
    return _channels_last(image, rows, columns), (down, across, above - rows, left - columns, apart_y, apart_x)


def _channels_last(image: Array, above: int = 0, left: int = 0) -> Array:
    """A copy in which the channels of a position are adjacent, with so many rows and columns of zeros on either side,
    as a view in the usual order."""
    batch, channels, height, width = image.shape
    out = empty_like(image, (batch, height + 2 * above, width + 2 * left, channels))
    channels_last(image, out, above, left)
    return out.swapaxes(2, 3).swapaxes(1, 2)


def _arranged(kernel: Kernel, weight: Array) -> Array:
    """A copy of the weights in which those of all outputs are adjacent, as a view G × O × C × R × S.

    Programs read weights repeatedly; in torch's layout each one is in a cache line of its own.
    """
    groups, outputs, channels, rows, columns = weight.shape
    if kernel is turn_weights:
        outputs, channels = channels, outputs
    out = empty_like(weight, (groups, rows, columns, channels, outputs))
    kernel(weight, out)
    return out.swapaxes(1, 4).swapaxes(2, 3).swapaxes(3, 4)


def _weights_in_groups(weight: Array, groups: int) -> Array:
    return weight.reshape((groups, weight.shape[0] // groups, *weight.shape[1:]))


def _side(image: str, weight: str, step: str, before: str, apart: str) -> Callable[[Sizes, Constants], int]:
    def length(sizes: Sizes, constants: Constants) -> int:
        room = sizes[image] + 2 * int(constants[before]) - int(constants[apart]) * (sizes[weight] - 1) - 1
        return max(0, room // int(constants[step]) + 1)

    return length


_SIDES = {"Y": _side("H", "R", "step_y", "above", "apart_y"), "X": _side("W", "S", "step_x", "left", "apart_x")}
_IMAGES = {"B": 16, "G": 1, "C": 64, "H": 56, "W": 56, "O": 64, "R": 3, "S": 3, "Y": 54, "X": 54}
_CPU_IMAGES = {"B": 4, "G": 1, "C": 32, "H": 28, "W": 28, "O": 64, "R": 3, "S": 3}
_WEIGHTS, _CPU_WEIGHTS = {"G": 1, "O": 64, "C": 64, "R": 3, "S": 3}, {"G": 1, "O": 256, "C": 128, "R": 3, "S": 3}


CATALOGUE = (
    entry("conv2d", convolve, _IMAGES, _CPU_IMAGES, samples=SampleInputs(_SIDES, layout={"weight": "G R S C O"})),
    entry("conv2d", arrange_weights, _WEIGHTS, _CPU_WEIGHTS),
    entry("conv2d", turn_weights, _WEIGHTS, _CPU_WEIGHTS),
    entry(
        "conv2d",
        convolution_weight_gradient,
        {**_IMAGES, "P": 16},
        {**_CPU_IMAGES, "P": 4},
        computed=("out",),
        samples=SampleInputs(
            _SIDES, numbers=lambda sizes: {"each": ceil_div(sizes["B"], sizes["P"])}, layout={"grad": "B Y X G O"}
        ),
    ),
    entry(
        "conv2d",
        channels_last,
        {"B": 16, "C": 64, **dict.fromkeys("HWYX", 54)},
        {"B": 4, "C": 64, **dict.fromkeys("HWYX", 28)},
    ),
    entry("conv2d", channel_sums, {"B": 16, "C": 64, "S": 2916}, {"B": 4, "C": 64, "S": 784}),
)
