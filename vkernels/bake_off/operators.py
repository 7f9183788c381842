"""Matrix-free operators on vectors of unknowns: gather, the bake-off kernel inside elements, and sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vkernels.library.finite_elements import apply_mass, apply_stiffness, apply_stiffness_at_nodes

from .geometry import Geometry, Quadrature, geometry, mass_diagonal, quadrature, stiffness_diagonal
from .kernels import from_elements, from_one_element, to_elements
from .mesh import Floats, HexMesh, Integers, Unknowns, number_unknowns

KINDS = ("mass", "stiffness", "stiffness_at_nodes")


@dataclass(frozen=True)
class Operator:
    """An operator of finite elements on a mesh, symmetric and positive definite, with constrained nodes left out.

    `kind`: "mass", "stiffness" (both integrated by Gauss's points) or "stiffness_at_nodes". `components`: of vectors.
    `dtype`: of vectors and of what is stored for each point.
    """

    mesh: HexMesh
    kind: str
    components: int = 1
    dtype: str = "float64"

    @cached_property
    def unknowns(self) -> Unknowns:
        return number_unknowns(self.mesh)

    @cached_property
    def points(self) -> Quadrature:
        return quadrature(self.mesh.degree, self.kind == "stiffness_at_nodes")

    @cached_property
    def geometry(self) -> Geometry:
        return geometry(self.mesh, self.points)

    @property
    def shape(self) -> tuple[int, int]:
        """Of vectors: components × unknowns."""
        return self.components, self.unknowns.free

    def apply(self, u: Floats, out: Floats) -> Floats:
        """`out` = A u, both components × unknowns."""
        self._within(self.restricted(u, self._inputs), self._outputs)
        return self.summed(self._outputs, out)

    def restricted(self, u: Floats, out: Floats | None = None) -> Floats:
        """The values of vectors at the nodes of each element: E × components × P × P × P; 0 beyond the end of u."""
        out = self._new() if out is None else out
        to_elements(u, self.unknowns.index, out.reshape(self.mesh.elements, len(u), -1))
        return out

    def summed(self, y: Floats, out: Floats) -> Floats:
        """The transpose of `restricted`: each unknown's values in all elements added up."""
        alone, shared = self._places
        length = self.unknowns.index.shape[1]
        from_one_element(y.reshape(-1), alone, out[:, : len(alone)], length=length)
        from_elements(y.reshape(-1), shared, out[:, len(alone) :], length=length, width=shared.shape[1])
        return out

    @cached_property
    def _places(self) -> tuple[Integers, Integers]:
        """Where the first component's values of `unknowns.alone` and `unknowns.shared` lie among those of elements."""
        length = self.unknowns.index.shape[1]
        found = []
        for place in (self.unknowns.alone, self.unknowns.shared):
            element, within = place // length, place % length
            moved = np.where(place < 0, -1, element * (length * self.components) + within)
            found.append(moved.astype(np.int32))
        return found[0], found[1]

    def right_hand_side(self, load: Callable[[Floats], Floats]) -> Floats:
        """The integrals of a function times each unknown's. `load`: takes coordinates, 3 × …, gives components × …."""
        at_points = np.swapaxes(load(np.moveaxis(self.geometry.coordinates, 1, 0)) * self.geometry.weight, 0, 1)
        transposed = Quadrature(self.points.values.T, self.points.slopes.T, self.points.weights)
        y = np.ascontiguousarray(transposed.at_points(at_points), self.dtype)
        return self.summed(y, np.empty(self.shape, self.dtype))

    def lifted(self, values: Floats) -> Floats:
        """A u for u that is 0 at unknowns and has `values`, components × constrained nodes, at the others."""
        full = np.zeros((self.components, len(self.unknowns.order)), self.dtype)
        full[:, self.unknowns.free :] = values
        y = self._new()
        self._within(self.restricted(full), y)
        return self.summed(y, np.empty(self.shape, self.dtype))

    @cached_property
    def diagonal(self) -> Floats:
        """The operator's diagonal, components × unknowns."""
        of = mass_diagonal if self.kind == "mass" else stiffness_diagonal
        y = np.repeat(of(self.geometry, self.points)[:, None], self.components, 1).astype(self.dtype)
        return self.summed(y, np.empty(self.shape, self.dtype))

    def _new(self) -> Floats:
        return np.empty((self.mesh.elements, self.components, *(self.mesh.degree + 1,) * 3), self.dtype)

    @cached_property
    def _inputs(self) -> Floats:
        return self._new()

    @cached_property
    def _outputs(self) -> Floats:
        return self._new()

    @cached_property
    def _stored(self) -> tuple[Floats, ...]:
        """The matrices of the basis and the data of points, as kernels take them."""
        data = self.geometry.weight if self.kind == "mass" else self.geometry.metric
        found = (self.points.values, self.points.slopes, data)
        return tuple(np.ascontiguousarray(array, self.dtype) for array in found)

    def _within(self, x: Floats, out: Floats) -> None:
        values, slopes, data = self._stored
        if self.kind == "mass":
            apply_mass(x, values, data, out)
        elif self.kind == "stiffness":
            apply_stiffness(x, values, slopes, data, out)
        else:
            apply_stiffness_at_nodes(x, slopes, data, out)
