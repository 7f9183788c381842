"""Kernels between unknowns and elements, and of the conjugate gradients' vectors."""

from __future__ import annotations

from jaxtyping import Float, Int

import vkernels.language as vk


@vk.kernel
def to_elements(u: Float[vk.Tensor, "C N"], index: Int[vk.Tensor, "E L"], out: Float[vk.Tensor, "E C L"]):
    """The values of each element: those of nodes beyond u are 0."""
    c, e, l = vk.tile("C"), vk.tile("E"), vk.tile("L")
    node = index[e, l]
    out[e, c, l] = vk.load(u[c, node], where=node < vk.size("N"))


@vk.kernel
def from_one_element(
    y: Float[vk.Tensor, "F"], place: Int[vk.Tensor, "A"], out: Float[vk.Tensor, "C A"], length: vk.Constant
):
    """`place`: of the first component's value in y; those of the next are `length` further each."""
    c, a = vk.tile("C"), vk.tile("A")
    out[c, a] = y[place[a] + length * c]


@vk.kernel
def from_elements(
    y: Float[vk.Tensor, "F"],
    place: Int[vk.Tensor, "S W"],
    out: Float[vk.Tensor, "C S"],
    length: vk.Constant,
    width: vk.Constant,
):
    """The sum of the values of a node in all elements that share it; places of -1 are none."""
    c, s = vk.tile("C"), vk.tile("S")
    total = vk.zeros((c, s), vk.compute_dtype(y))
    for way in range(width):
        at = place[s, way]
        total += vk.load(y[at + length * c], where=at >= 0)
    out[c, s] = total


@vk.kernel
def inner_product(x: Float[vk.Tensor, "N"], y: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "1"]):
    n = vk.whole("N")
    out[0] = vk.sum(x[n] * y[n], axis=n)


@vk.kernel
def advance(
    x: Float[vk.Tensor, "N"],
    residual: Float[vk.Tensor, "N"],
    direction: Float[vk.Tensor, "N"],
    image: Float[vk.Tensor, "N"],
    length: vk.Scalar,
):
    """One step along a direction, whose image under the operator is given."""
    n = vk.tile("N")
    x[n] = x[n] + length * direction[n]
    residual[n] = residual[n] - length * image[n]


@vk.kernel
def norms(residual: Float[vk.Tensor, "N"], inverse: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "2"]):
    """The squares of the residual's norm, preconditioned and plain."""
    n = vk.whole("N")
    square = residual[n] * residual[n]
    out[0] = vk.sum(square * inverse[n], axis=n)
    out[1] = vk.sum(square, axis=n)


@vk.kernel
def turn(
    direction: Float[vk.Tensor, "N"], residual: Float[vk.Tensor, "N"], inverse: Float[vk.Tensor, "N"], part: vk.Scalar
):
    """The next direction: the preconditioned residual and a part of the last direction."""
    n = vk.tile("N")
    direction[n] = inverse[n] * residual[n] + part * direction[n]
