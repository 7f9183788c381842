"""What quadrature needs of curved elements, in float64: weights, metrics, coordinates, diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from vkernels.ir.errors import ArgumentError
from vkernels.library.finite_elements import Basis, basis

from .mesh import Floats, HexMesh

PAIRS = tuple(combinations_with_replacement(range(3), 2))
"""The places of a symmetric matrix in order: xx, xy, xz, yy, yz, zz."""


@dataclass(frozen=True)
class Quadrature:
    """Points along a side: `values`, `slopes`: of each node's polynomial there, Q × P; `weights`: Q."""

    values: Floats
    slopes: Floats
    weights: Floats

    def at_points(self, x: Floats) -> Floats:
        """Values at all points of what has values at nodes, in its last three dimensions."""
        return _apply((self.values,) * 3, x)

    def slopes_at_points(self, x: Floats) -> list[Floats]:
        """Derivatives along the three directions of the reference element."""
        return [_apply([self.slopes if axis == d else self.values for axis in range(3)], x) for d in range(3)]


def quadrature(degree: int, at_nodes: bool = False) -> Quadrature:
    """Gauss's, of degree + 2 points, or Gauss-Lobatto's at the nodes themselves."""
    found: Basis = basis(degree)
    if at_nodes:
        return Quadrature(np.eye(degree + 1), found.node_slopes, found.node_weights)
    return Quadrature(found.values, found.slopes, found.weights)


@dataclass(frozen=True)
class Geometry:
    """`weight`: E × Q × Q × Q, quadrature weights times volume; `metric`: E × 6 × Q × Q × Q, the symmetric matrix
    between gradients on the reference element; `coordinates`: E × 3 × Q × Q × Q, of the points."""

    weight: Floats
    metric: Floats
    coordinates: Floats


def geometry(mesh: HexMesh, points: Quadrature) -> Geometry:
    """The geometry of every element. Raises `ArgumentError` where an element is turned inside out."""
    x = mesh.at_elements
    jacobian = np.stack(points.slopes_at_points(x), 2)  # E × 3 (of x) × 3 (along the reference element) × Q × Q × Q
    cofactors = np.stack(
        [np.cross(jacobian[:, :, b], jacobian[:, :, c], axis=1) for b, c in ((1, 2), (2, 0), (0, 1))], 2
    )
    volume = np.einsum("eaqrs,eaqrs->eqrs", jacobian[:, :, 0], cofactors[:, :, 0])
    if volume.min(initial=1.0) <= 0:
        raise ArgumentError("an element of the mesh is turned inside out: its volume at some point is not positive")
    weights = np.einsum("q,r,s->qrs", *[points.weights] * 3)
    scale = weights / volume
    metric = np.stack(
        [np.einsum("eaqrs,eaqrs->eqrs", cofactors[:, :, a], cofactors[:, :, b]) * scale for a, b in PAIRS], 1
    )
    return Geometry(weights * volume, metric, points.at_points(x))


def mass_diagonal(found: Geometry, points: Quadrature) -> Floats:
    """The diagonal of each element's mass matrix: E × P × P × P."""
    return _apply((points.values.T**2,) * 3, found.weight)


def stiffness_diagonal(found: Geometry, points: Quadrature) -> Floats:
    """The diagonal of each element's stiffness matrix: E × P × P × P."""
    total = np.zeros((len(found.weight), *(points.values.shape[1],) * 3))
    for place, (a, b) in enumerate(PAIRS):
        factors = []
        for axis in range(3):
            one, other = (points.slopes if axis == each else points.values for each in (a, b))
            factors.append((one * other).T)
        total += (1 if a == b else 2) * _apply(factors, found.metric[:, place])
    return total


def _apply(matrices: Sequence[Floats], x: Floats) -> Floats:
    """A matrix along each of the last three dimensions."""
    a, b, c = matrices
    x = np.matmul(x, c.T)
    x = np.einsum("rj,...jk->...rk", b, x, optimize=True)
    found: Floats = np.einsum("qi,...ijk->...qjk", a, x, optimize=True)
    return found
