"""Meshes of hexahedra: nodes, elements, and which values of elements belong to which unknowns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vkernels.ir.errors import ArgumentError
from vkernels.library.finite_elements import basis

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class HexMesh:
    """Hexahedra of one degree p, curved as their nodes lie; P = p + 1.

    `coordinates`: nodes × 3. `index`: elements × P × P × P, the node at each of an element's Gauss-Lobatto points.
    `is_constrained`: nodes, whether a Dirichlet condition gives the value there.
    """

    degree: int
    coordinates: Floats
    index: Integers
    is_constrained: np.ndarray[Any, np.dtype[np.bool_]]

    @property
    def elements(self) -> int:
        return len(self.index)

    @property
    def at_elements(self) -> Floats:
        """Coordinates at the nodes of each element: elements × 3 × P × P × P."""
        return np.ascontiguousarray(np.moveaxis(self.coordinates[self.index], -1, 1))


def box_mesh(elements: tuple[int, int, int], degree: int, curve: float = 0.0, dirichlet: bool = True) -> HexMesh:
    """The unit cube in `elements` hexahedra along x, y and z, of a degree from 1 on.

    `curve`: how far the middle of the cube is moved along each axis; its surface stays. `dirichlet`: constrain the
    nodes on the surface. Raises `ArgumentError` for counts or degrees below 1.
    """
    if min(elements) < 1 or degree < 1:
        raise ArgumentError(f"box_mesh: expected at least 1 element each way and degree 1, got {elements}, {degree}")
    sides = [_side(count, degree) for count in elements]
    lattice = np.stack(np.meshgrid(*sides, indexing="ij"), -1)
    lattice += curve * np.prod(np.sin(np.pi * lattice), -1, keepdims=True)
    on_surface = np.zeros(lattice.shape[:3], bool)
    if dirichlet:
        for axis in range(3):
            on_surface[(slice(None),) * axis + ((0, -1),)] = True
    starts = np.meshgrid(*(np.arange(count) * degree for count in elements), indexing="ij")
    local = np.meshgrid(*[np.arange(degree + 1)] * 3, indexing="ij")
    places = [np.add.outer(start.ravel(), offset) for start, offset in zip(starts, local, strict=True)]
    index = np.ravel_multi_index(tuple(places), lattice.shape[:3]).astype(np.int32)
    return HexMesh(degree, lattice.reshape(-1, 3), index, on_surface.ravel())


def _side(count: int, degree: int) -> Floats:
    """The coordinates of nodes along a side of the unit cube."""
    nodes = (basis(degree).nodes + 1) / 2
    inner = (np.arange(count)[:, None] + nodes[None, :-1]).ravel() / count
    return np.append(inner, 1.0)


@dataclass(frozen=True)
class Unknowns:
    """The order of nodes in vectors: unknowns that one element has, those that several share, then constrained nodes.

    `order`: nodes of the mesh in this order; `free`: how many are unknowns. `index`: elements × P³, places in vectors.
    `alone`: the value, among all of all elements, of each unknown that one element has. `shared`: of the others, as
    many values as elements may share one, -1 where there are fewer.
    """

    order: Integers
    free: int
    index: Integers
    alone: Integers
    shared: Integers


def number_unknowns(mesh: HexMesh) -> Unknowns:
    """Order a mesh's nodes so that an unknown of one element is gathered where the element's values lie."""
    flat = mesh.index.ravel()
    nodes = len(mesh.coordinates)
    by_node = np.argsort(flat, kind="stable").astype(np.int32)
    counts = np.bincount(flat, minlength=nodes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    first = by_node[np.minimum(starts, len(flat) - 1)]
    kind = np.where(mesh.is_constrained, 2, np.where(counts > 1, 1, 0))
    order = np.lexsort((first, kind)).astype(np.int32)
    rank = np.empty(nodes, np.int32)
    rank[order] = np.arange(nodes, dtype=np.int32)
    shared = order[kind[order] == 1]
    width = max(1, int(counts[shared].max(initial=0)))
    slots = np.arange(width)
    values = by_node[np.minimum(starts[shared][:, None] + slots, len(flat) - 1)]
    table = np.where(slots < counts[shared][:, None], values, -1).astype(np.int32)
    alone = first[order[kind[order] == 0]]
    return Unknowns(order, int((kind < 2).sum()), rank[flat].reshape(mesh.elements, -1), alone, table)
