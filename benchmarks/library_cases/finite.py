"""Cases of finite elements: torch's as einsums, one direction after another, or as products with the whole operator."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import apply_mass, apply_stiffness, apply_stiffness_at_nodes
from vkernels.library.finite_elements import basis

from .case import Case, Cases, bytes_of

SHAPES = {"small": (32, 1, 2), "medium": (1024, 1, 4), "large": (4096, 3, 5)}
"""Elements, components, degree."""


def cases() -> list[Case]:
    found = Cases()
    for size, (elements, components, degree) in SHAPES.items():
        made = basis(degree)
        nodes, points = degree + 1, degree + 2
        values, slopes, node_slopes = (
            torch.from_numpy(matrix).float() for matrix in (made.values, made.slopes, made.node_slopes)
        )
        x = torch.randn(elements, components, nodes, nodes, nodes)
        weight, metric = torch.rand(elements, points, points, points), torch.rand(elements, 6, points, points, points)
        metric_at_nodes = torch.rand(elements, 6, nodes, nodes, nodes)
        shape = f"{elements}×{components}, degree {degree}"
        by_k, by_j, by_i = nodes**3 * points, nodes**2 * points**2, nodes * points**3
        mass = 4 * (by_k + by_j + by_i) + points**3
        stiffness = 8 * by_k + 12 * by_j + 12 * by_i + 15 * points**3
        at_nodes = 12 * nodes**4 + 15 * nodes**3
        each = elements * components
        found.add(
            "apply_mass", size, shape, (x, values, weight), apply_mass,
            {"einsum": _mass, "whole": _mass_whole}, bytes_of(x, x, weight), each * mass,
        )  # fmt: skip
        found.add(
            "apply_stiffness", size, shape, (x, values, slopes, metric), apply_stiffness,
            {"einsum": _stiffness, "whole": _stiffness_whole}, bytes_of(x, x, metric), each * stiffness,
        )  # fmt: skip
        found.add(
            "apply_stiffness_at_nodes", size, shape, (x, node_slopes, metric_at_nodes), apply_stiffness_at_nodes,
            {"einsum": _at_nodes}, bytes_of(x, x, metric_at_nodes), each * at_nodes,
        )  # fmt: skip
    return found.found


def _along(a: Any, b: Any, c: Any, x: Any) -> Any:
    """A matrix along each of the last three dimensions, one after another."""
    return torch.einsum(
        "qi,...irs->...qrs", a, torch.einsum("rj,...ijs->...irs", b, torch.einsum("sk,...ijk->...ijs", c, x))
    )


def _mass(x: Any, values: Any, weight: Any) -> Any:
    back = values.t()
    return _along(back, back, back, _along(values, values, values, x) * weight[:, None])


def _whole(a: Any, b: Any, c: Any) -> Any:
    """The matrix of all three directions at once, from nodes to points; it costs little beside the products."""
    return torch.einsum("qi,rj,sk->qrsijk", a, b, c).reshape(a.shape[0] ** 3, a.shape[1] ** 3)


def _mass_whole(x: Any, values: Any, weight: Any) -> Any:
    operator, shape = _whole(values, values, values), x.shape
    there = x.reshape(*shape[:2], -1) @ operator.t()
    return ((there * weight.reshape(shape[0], 1, -1)) @ operator).reshape(shape)


def _flux(metric: Any, slopes: Any) -> Any:
    x, y, z = slopes
    rows = ((0, 1, 2), (1, 3, 4), (2, 4, 5))
    return [metric[:, None, a] * x + metric[:, None, b] * y + metric[:, None, c] * z for a, b, c in rows]


def _stiffness(x: Any, values: Any, slopes: Any, metric: Any) -> Any:
    v, s = values, slopes
    flux = _flux(metric, [_along(s, v, v, x), _along(v, s, v, x), _along(v, v, s, x)])
    v, s = values.t(), slopes.t()
    return _along(s, v, v, flux[0]) + _along(v, s, v, flux[1]) + _along(v, v, s, flux[2])


def _stiffness_whole(x: Any, values: Any, slopes: Any, metric: Any) -> Any:
    v, s, shape = values, slopes, x.shape
    operators = [_whole(s, v, v), _whole(v, s, v), _whole(v, v, s)]
    flat, cut = x.reshape(*shape[:2], -1), metric.reshape(*metric.shape[:2], -1)
    flux = _flux(cut, [flat @ operator.t() for operator in operators])
    return sum(one @ operator for one, operator in zip(flux, operators, strict=True)).reshape(shape)


def _at_nodes(x: Any, slopes: Any, metric: Any) -> Any:
    def each(matrix: Any, one: Any, two: Any, three: Any) -> list[Any]:
        return [
            torch.einsum("qi,...ijk->...qjk", matrix, one),
            torch.einsum("qj,...ijk->...iqk", matrix, two),
            torch.einsum("qk,...ijk->...ijq", matrix, three),
        ]

    return sum(each(slopes.t(), *_flux(metric, each(slopes, x, x, x))))
