"""Bake-off problems: their operators are what they should be, and their solutions converge at degree + 1."""

from __future__ import annotations

import math

import numpy as np
import pytest

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels.bake_off.geometry import geometry, quadrature
from vkernels.bake_off.mesh import box_mesh, number_unknowns
from vkernels.bake_off.operators import KINDS, Operator
from vkernels.bake_off.problems import PROBLEMS, make_operator, run_problem
from vkernels.bake_off.solve import solve


def dense(operator: Operator) -> np.ndarray:
    """The matrix of an operator, by its columns."""
    size = math.prod(operator.shape)
    columns = np.empty((size, size))
    for number in range(size):
        unit = np.zeros(size)
        unit[number] = 1.0
        out = np.full(operator.shape, np.nan, operator.dtype)
        columns[number] = operator.apply(unit.reshape(operator.shape).astype(operator.dtype), out).ravel()
    return columns


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("number", PROBLEMS)
def test_operators_are_symmetric_and_definite(number):
    operator = make_operator(PROBLEMS[number], 2, (2, 1, 2), curve=0.07)
    matrix = dense(operator)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-13 * np.abs(matrix).max())
    assert np.linalg.eigvalsh(matrix).min() > 0
    np.testing.assert_allclose(operator.diagonal.ravel(), np.diag(matrix), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("degree", range(1, 7))
@pytest.mark.parametrize("kind", KINDS)
def test_symmetry_and_definiteness_of_random_vectors(kind, degree):
    random = np.random.default_rng(fresh_seed())
    counts = tuple(int(count) for count in random.integers(1, 4, 3))
    mesh = box_mesh(counts, degree, curve=float(random.uniform(0, 0.08)), dirichlet=kind != "mass")
    operator = Operator(mesh, kind, components=int(random.choice([1, 3])))
    if not math.prod(operator.shape):
        return
    u, v = random.normal(size=(2, *operator.shape))
    image, other = (operator.apply(x, np.full(operator.shape, np.nan)) for x in (u, v))
    size = np.linalg.norm(image) * np.linalg.norm(v)
    assert abs((v * image).sum() - (u * other).sum()) <= 1e-12 * size
    assert (u * image).sum() > 0


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(("degree", "coarse"), [(1, 6), (2, 3), (3, 2), (4, 2)])
@pytest.mark.parametrize("curve", [0.0, 0.05])
@pytest.mark.parametrize("number", PROBLEMS)
def test_errors_fall_with_degree_plus_one(number, curve, degree, coarse):
    errors = []
    for count in (coarse, 2 * coarse):
        found = run_problem(number, degree, (count,) * 3, curve)
        assert found.solution.converged
        errors.append(found.error)
    order = math.log2(errors[0] / errors[1])
    assert order > degree + 1 - 0.65, "on meshes this coarse the order is not reached in full"


@pytest.mark.thorough
@pytest.mark.parametrize("number", PROBLEMS)
def test_the_order_of_finer_meshes(number):
    errors = [run_problem(number, 2, (count,) * 3, 0.05).error for count in (8, 16)]
    assert abs(math.log2(errors[0] / errors[1]) - 3) < 0.25


def test_the_mass_of_one_is_the_volume():
    """The surface stays where it is, so the curved cube has volume 1."""
    mesh = box_mesh((3, 2, 2), 4, curve=0.08, dirichlet=False)
    operator = Operator(mesh, "mass")
    one = np.ones(operator.shape)
    assert (operator.apply(one, np.full_like(one, np.nan)).sum() - 1) == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["stiffness", "stiffness_at_nodes"])
def test_values_on_the_surface_are_lifted(kind):
    """A linear function solves Laplace's equation exactly: its values on the surface give it inside."""
    mesh = box_mesh((2, 3, 2), 3, curve=0.0)
    operator = Operator(mesh, kind)
    unknowns = operator.unknowns
    linear = (mesh.coordinates @ [1.0, -2.0, 0.5] + 3.0)[unknowns.order]
    found = solve(operator, -operator.lifted(linear[None, unknowns.free :]), 1e-13)
    np.testing.assert_allclose(found.u[0], linear[: unknowns.free], rtol=1e-10)


@pytest.mark.parametrize("components", [1, 3])
def test_summing_is_the_transpose_of_gathering(components):
    random = np.random.default_rng(fresh_seed())
    operator = Operator(box_mesh((3, 1, 2), 2), "stiffness", components)
    u = random.normal(size=operator.shape)
    gathered = operator.restricted(u)
    y = random.normal(size=gathered.shape)
    summed = operator.summed(y, np.full(operator.shape, np.nan))
    assert (y * gathered).sum() == pytest.approx((u * summed).sum(), rel=1e-12)


def test_every_node_is_numbered_once():
    mesh = box_mesh((2, 3, 1), 3)
    unknowns = number_unknowns(mesh)
    assert sorted(unknowns.order) == list(range(len(mesh.coordinates)))
    assert not mesh.is_constrained[unknowns.order[: unknowns.free]].any()
    assert mesh.is_constrained[unknowns.order[unknowns.free :]].all()
    np.testing.assert_array_equal(unknowns.order[unknowns.index].ravel(), mesh.index.ravel())
    assert len(unknowns.alone) + len(unknowns.shared) == unknowns.free


@pytest.mark.slow
def test_float32_converges_to_its_own_tolerance():
    found = run_problem(3, 3, (3, 3, 3), 0.03, "float32", 1e-5)
    assert found.solution.converged
    assert found.error < 5e-3
    assert found.solution.u.dtype == np.float32


def test_elements_turned_inside_out_are_refused():
    with pytest.raises(vk.ArgumentError, match="inside out"):
        geometry(box_mesh((2, 2, 2), 2, curve=0.9), quadrature(2))
    with pytest.raises(vk.ArgumentError, match="at least 1 element"):
        box_mesh((0, 1, 1), 2)


@pytest.mark.parametrize(("number", "degree", "elements"), [(7, 2, 2), (3, 1, 1)])
def test_problems_that_there_are_not(number, degree, elements):
    with pytest.raises(vk.OptionError):
        run_problem(number, degree, (elements,) * 3)
