"""The bake-off kernels equal the same contractions in float64, and integrate polynomials exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import vkernels as vk
from vkernels.library.finite_elements import apply_mass, apply_stiffness, apply_stiffness_at_nodes, basis

from .reference import DTYPES, assert_close, fresh_seed, normal, poisoned


def everywhere(matrices, x: torch.Tensor) -> torch.Tensor:
    return torch.einsum("qi,rj,sk,ecijk->ecqrs", *matrices, x)


def reference(x, metric, values, slopes) -> torch.Tensor:
    """Gradients at all points, times each point's matrix, and back."""
    directions = [(slopes, values, values), (values, slopes, values), (values, values, slopes)]
    full = metric[:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].unflatten(1, (3, 3))
    gradients = torch.stack([everywhere(each, x) for each in directions], 2)
    flux = torch.einsum("eabqrs,ecbqrs->ecaqrs", full, gradients)
    return sum(everywhere([m.t() for m in each], flux[:, :, at]) for at, each in enumerate(directions))


def inputs(degree: int, components: int, elements: int, dtype: torch.dtype, seed: int):
    found, nodes, points = basis(degree), degree + 1, degree + 2
    x = normal((elements, components, nodes, nodes, nodes), dtype, seed)
    metric = normal((elements, 6, points, points, points), dtype, seed + 1)
    matrices = [torch.from_numpy(m).to(dtype) for m in (found.values, found.slopes, found.node_slopes)]
    return x, metric, *matrices


CASES = [
    (1, 1, 9, torch.float32),
    (2, 3, 5, torch.float32),
    (3, 1, 2, torch.float64),
    (1, 3, 3, torch.float16),
    (1, 1, 0, torch.float32),
]


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("degree", "components", "elements", "dtype"), CASES)
def test_operators_are_right(degree, components, elements, dtype):
    x, metric, values, slopes, node_slopes = inputs(degree, components, elements, dtype, fresh_seed())
    exact = [each.double() for each in (x, metric, values, slopes, node_slopes)]
    found = apply_mass(x, values, metric[:, 0], poisoned(x.shape, dtype))
    weighted = everywhere([exact[2]] * 3, exact[0]) * exact[1][:, :1]
    terms = (degree + 2) ** 3
    assert_close(found, everywhere([exact[2].t()] * 3, weighted), terms=terms, scale=16.0)
    found = apply_stiffness(x, values, slopes, metric, poisoned(x.shape, dtype))
    assert_close(found, reference(exact[0], exact[1], exact[2], exact[3]), terms=terms, scale=64.0)
    at_nodes = metric[..., :-1, :-1, :-1]
    found = apply_stiffness_at_nodes(x, node_slopes, at_nodes, poisoned(x.shape, dtype))
    expected = reference(exact[0], at_nodes.double(), torch.eye(degree + 1, dtype=torch.float64), exact[4])
    assert_close(found, expected, terms=terms, scale=64.0)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("degree", range(1, 9))
def test_operators_of_every_degree_are_right(degree, dtype):
    test_operators_are_right(degree, 1 + 2 * (degree % 2), 3, dtype)


@pytest.mark.parametrize("degree", range(1, 9))
def test_bases_integrate_and_differentiate_polynomials_exactly(degree):
    found = basis(degree)
    for power in range(degree + 1):
        at_nodes, slopes = found.nodes**power, power * found.points ** max(0, power - 1)
        np.testing.assert_allclose(found.values @ at_nodes, found.points**power, atol=1e-12)
        np.testing.assert_allclose(found.slopes @ at_nodes, slopes, atol=1e-11)
        np.testing.assert_allclose(found.node_slopes @ at_nodes, power * found.nodes ** max(0, power - 1), atol=1e-11)
    for points, weights, most in (
        (found.points, found.weights, 2 * degree + 3), (found.nodes, found.node_weights, 2 * degree - 1),
    ):  # fmt: skip
        for power in range(most + 1):
            np.testing.assert_allclose(weights @ points**power, (1 + (-1) ** power) / (power + 1), atol=1e-13)


@pytest.mark.slow
def test_a_cube_has_its_volume_and_constants_have_no_slope():
    found = basis(3)
    weight = np.einsum("q,r,s->qrs", *[found.weights] * 3)[None]
    ones = np.ones((1, 1, 4, 4, 4))
    np.testing.assert_allclose(apply_mass(ones, found.values, weight).sum(), 8.0, rtol=1e-12)
    metric = np.random.default_rng(fresh_seed()).normal(size=(1, 6, 5, 5, 5))
    np.testing.assert_allclose(apply_stiffness(ones, found.values, found.slopes, metric), 0, atol=1e-11)


def test_wrong_arguments_are_named():
    x, values, weight = torch.zeros(2, 1, 3, 3, 3), torch.zeros(4, 3), torch.zeros(2, 4, 4, 4)
    for message, call in {
        "expected 5 dimensions: E × C × P × P × P": lambda: apply_mass(x[0], values, weight),
        r"values has shape \(3, 4\), expected": lambda: apply_mass(x, values.t(), weight),
        r"weight has shape \(1, 4, 4, 4\), expected \(2, 4, 4, 4\)": lambda: apply_mass(x, values, weight[:1]),
        "out is x": lambda: apply_mass(x, values, weight, x),
        "degree is 0": lambda: basis(0),
    }.items():
        with pytest.raises(vk.ArgumentError, match=message):
            call()
