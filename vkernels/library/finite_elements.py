"""The CEED bake-off kernels BK1 to BK6: operators inside hexahedral elements, sum-factorised.

Fischer et al., Scalability of high-performance PDE solvers (2020). With degree p there are P = p + 1 nodes along each
side; BK1 to BK4 integrate at Q = P + 1 Gauss points, BK5 and BK6 at the nodes themselves (Gauss-Lobatto), as libCEED's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre

import vkernels.language as vk

from .arrays import Array, check_apart, empty_like
from .declared import AtLeastOne, Result, checked, replayed
from .samples import entry

__all__ = ["apply_mass", "apply_stiffness", "apply_stiffness_at_nodes"]


@vk.kernel
def mass(
    x: Float[vk.Tensor, "E C P P P"],
    values: Float[vk.Tensor, "Q P"],
    weight: Float[vk.Tensor, "E Q Q Q"],
    out: Float[vk.Tensor, "E C P P P"],
):
    e = vk.tile("E")
    c = vk.tile("C")
    i = vk.whole("P")
    j = vk.whole("P")
    k = vk.whole("P")
    q = vk.whole("Q")
    r = vk.whole("Q")
    s = vk.whole("Q")
    one = vk.dot(values[s, k], x[e, c, i, j, k])
    two = vk.dot(values[r, j], one)
    three = vk.dot(values[q, i], two)
    back_one = vk.dot(values[q, i], three * weight[e, q, r, s])
    back_two = vk.dot(values[r, j], back_one)
    back_three = vk.dot(values[s, k], back_two)
    out[e, c, i, j, k] = back_three


@vk.function
def row_times(metric, e, q, r, s, row: vk.Constant, a, b, c):
    """A row of the symmetric matrix of a point, stored as xx, xy, xz, yy, yz, zz, times a vector."""
    places = ((0, 1, 2), (1, 3, 4), (2, 4, 5))
    x, y, z = places[row]
    return metric[e, x, q, r, s] * a + metric[e, y, q, r, s] * b + metric[e, z, q, r, s] * c


@vk.kernel
def stiffness(
    x: Float[vk.Tensor, "E C P P P"],
    values: Float[vk.Tensor, "Q P"],
    slopes: Float[vk.Tensor, "Q P"],
    metric: Float[vk.Tensor, "E 6 Q Q Q"],
    out: Float[vk.Tensor, "E C P P P"],
):
    e = vk.tile("E")
    c = vk.tile("C")
    i = vk.whole("P")
    j = vk.whole("P")
    k = vk.whole("P")
    q = vk.whole("Q")
    r = vk.whole("Q")
    s = vk.whole("Q")
    value, slope = vk.dot(values[s, k], x[e, c, i, j, k]), vk.dot(slopes[s, k], x[e, c, i, j, k])
    value_value, slope_value = vk.dot(values[r, j], value), vk.dot(slopes[r, j], value)
    value_slope = vk.dot(values[r, j], slope)
    along_q, along_r = vk.dot(slopes[q, i], value_value), vk.dot(values[q, i], slope_value)
    along_s = vk.dot(values[q, i], value_slope)
    flux_q = row_times(metric, e, q, r, s, 0, along_q, along_r, along_s)
    flux_r = row_times(metric, e, q, r, s, 1, along_q, along_r, along_s)
    flux_s = row_times(metric, e, q, r, s, 2, along_q, along_r, along_s)
    by_q, by_r, by_s = vk.dot(slopes[q, i], flux_q), vk.dot(values[q, i], flux_r), vk.dot(values[q, i], flux_s)
    back_q, back_r, back_s = vk.dot(values[r, j], by_q), vk.dot(slopes[r, j], by_r), vk.dot(values[r, j], by_s)
    plain, sloped = vk.dot(values[s, k], back_q + back_r), vk.dot(slopes[s, k], back_s)
    out[e, c, i, j, k] = plain + sloped


@vk.kernel
def stiffness_at_nodes(
    x: Float[vk.Tensor, "E C P P P"],
    slopes: Float[vk.Tensor, "P P"],
    metric: Float[vk.Tensor, "E 6 P P P"],
    out: Float[vk.Tensor, "E C P P P"],
):
    e = vk.tile("E")
    c = vk.tile("C")
    i = vk.whole("P")
    j = vk.whole("P")
    k = vk.whole("P")
    a = vk.whole("P")
    along_i = vk.dot(slopes[i, a], x[e, c, a, j, k])
    along_j = vk.dot(slopes[j, a], x[e, c, i, a, k])
    along_k = vk.dot(slopes[k, a], x[e, c, i, j, a])
    flux_i = vk.scratch((e, c, i, j, k), along_i.dtype)
    flux_j = vk.scratch((e, c, i, j, k), along_i.dtype)
    flux_k = vk.scratch((e, c, i, j, k), along_i.dtype)
    flux_i[e, c, i, j, k] = row_times(metric, e, i, j, k, 0, along_i, along_j, along_k)
    flux_j[e, c, i, j, k] = row_times(metric, e, i, j, k, 1, along_i, along_j, along_k)
    flux_k[e, c, i, j, k] = row_times(metric, e, i, j, k, 2, along_i, along_j, along_k)
    vk.phase()
    back_i = vk.dot(slopes[a, i], flux_i[e, c, a, j, k])
    back_j = vk.dot(slopes[a, j], flux_j[e, c, i, a, k])
    back_k = vk.dot(slopes[a, k], flux_k[e, c, i, j, a])
    out[e, c, i, j, k] = back_i + back_j + back_k


@dataclass(frozen=True)
class Basis:
    """The basis of elements of degree p, in float64, on [-1, 1]; P = p + 1, Q = P + 1.

    `nodes`: P Gauss-Lobatto points; `points`, `weights`: Q of Gauss. `values`, `slopes`: Q × P, the polynomials that
    are 1 at one node and 0 at the others, and their derivatives, at the points. `node_weights`: P; `node_slopes`: P ×
    P, derivatives at the nodes.
    """

    nodes: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    node_weights: np.ndarray
    node_slopes: np.ndarray


@checked
def basis(degree: AtLeastOne) -> Basis:
    """The basis of a degree from 1 on. Raises `ArgumentError` for others."""
    last = legendre.Legendre.basis(degree)
    nodes = np.concatenate([[-1.0], np.sort(last.deriv().roots().real), [1.0]])
    node_weights = 2.0 / (degree * (degree + 1) * last(nodes) ** 2)
    points, weights = legendre.leggauss(degree + 2)
    to_nodal = np.linalg.inv(legendre.legvander(nodes, degree))
    derivative = legendre.legder(np.eye(degree + 1), axis=0)

    def slopes_at(where: np.ndarray) -> np.ndarray:
        return legendre.legvander(where, degree - 1) @ derivative @ to_nodal

    values = legendre.legvander(points, degree) @ to_nodal
    return Basis(nodes, points, weights, values, slopes_at(points), node_weights, slopes_at(nodes))


@replayed
@checked
def apply_mass(
    x: Float[Array, "E C P P P"],
    values: Float[Array, "Q P"],
    weight: Float[Array, "E Q Q Q"],
    out: Result[Array, "E C P P P", "x"] | None = None,
) -> Array:
    """The mass operator of each element, Bᵀ W B: BK1 with one component, BK2 with three.

    `x`: E × C × P × P × P values at nodes; `values`: Q × P, each node's polynomial at the points along a side;
    `weight`: E × Q × Q × Q, quadrature weight times the volume at each point. Of any strides and one dtype: f64, f32,
    f16 or bf16, the latter two computed in f32. Returns `out`, or a new array like x.
    Raises `ArgumentError` for shapes or dtypes that do not match.
    """
    out = _like("apply_mass", x, out)
    mass(x, values, weight, out)
    return out


@replayed
@checked
def apply_stiffness(
    x: Float[Array, "E C P P P"],
    values: Float[Array, "Q P"],
    slopes: Float[Array, "Q P"],
    metric: Float[Array, "E 6 Q Q Q"],
    out: Result[Array, "E C P P P", "x"] | None = None,
) -> Array:
    """The stiffness operator of each element, Gᵀ D G: BK3 with one component, BK4 with three.

    `x`: E × C × P × P × P values at nodes; `values`, `slopes`: Q × P, each node's polynomial and its derivative at the
    points along a side; `metric`: E × 6 × Q × Q × Q, the symmetric matrix of each point: xx, xy, xz, yy, yz, zz. Of any
    strides and one dtype: f64, f32, f16 or bf16, the latter two computed in f32. Returns `out`, or a new array like x.
    Raises `ArgumentError` for shapes or dtypes that do not match.
    """
    out = _like("apply_stiffness", x, out)
    stiffness(x, values, slopes, metric, out)
    return out


@replayed
@checked
def apply_stiffness_at_nodes(
    x: Float[Array, "E C P P P"],
    slopes: Float[Array, "P P"],
    metric: Float[Array, "E 6 P P P"],
    out: Result[Array, "E C P P P", "x"] | None = None,
) -> Array:
    """The stiffness operator with the nodes as points, as for spectral elements: BK5 with one component, BK6 with
    three. `slopes`: P × P, `metric`: E × 6 × P × P × P; otherwise as `apply_stiffness`."""
    out = _like("apply_stiffness_at_nodes", x, out)
    stiffness_at_nodes(x, slopes, metric, out)
    return out


def _like(function: str, x: Array, out: Array | None) -> Array:
    if out is None:
        return empty_like(x, tuple(x.shape))
    check_apart(function, out, x=x)
    return out


_HEXAHEDRA = {"E": 8192, "C": 1, "P": 5, "Q": 6}


CATALOGUE = (
    entry("apply_mass", mass, _HEXAHEDRA, {"E": 1024, "C": 1, "P": 5, "Q": 6}, "float64"),
    entry("apply_stiffness", stiffness, _HEXAHEDRA, {"E": 1024, "C": 1, "P": 5, "Q": 6}, "float64"),
    entry("apply_stiffness", stiffness_at_nodes, _HEXAHEDRA, {"E": 1024, "C": 1, "P": 5}, "float64"),
)
