"""The six problems, with solutions that are known."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from vkernels.compiler.default_session import patient
from vkernels.ir.errors import OptionError

from .geometry import geometry, quadrature
from .mesh import Floats, box_mesh
from .operators import Operator
from .solve import Solution, solve


@dataclass(frozen=True)
class Problem:
    """A bake-off problem: `kind` of its operator, `components` of its unknowns."""

    number: int
    kind: str
    components: int

    @property
    def is_constrained(self) -> bool:
        """Whether the surface has Dirichlet conditions."""
        return self.kind != "mass"


PROBLEMS = {
    number: Problem(number, kind, components)
    for number, (kind, components) in enumerate(
        ((kind, components) for kind in ("mass", "stiffness", "stiffness_at_nodes") for components in (1, 3)), 1
    )
}


def exact(x: Floats, components: int) -> Floats:
    """The solution, components × …: sines that are 0 on the surface, with other waves for each component."""
    waves = ((1, 1, 1), (2, 1, 1), (1, 2, 1))[:components]
    return np.stack([np.prod([np.sin(m * np.pi * x[axis]) for axis, m in enumerate(wave)], 0) for wave in waves])


def load_of(problem: Problem, x: Floats) -> Floats:
    """What the operator makes of the solution, before it is integrated."""
    found = exact(x, problem.components)
    if problem.kind == "mass":
        return found
    squares = (3.0, 6.0, 6.0)[: problem.components]
    return np.stack([square * np.pi**2 * each for square, each in zip(squares, found, strict=True)])


@dataclass(frozen=True)
class Result:
    """A solved problem. `error`: of u in L2, relative to the exact solution's norm; `seconds`: of the solver alone;
    `unknowns`: of all components."""

    problem: Problem
    degree: int
    elements: tuple[int, int, int]
    unknowns: int
    solution: Solution
    error: float
    seconds: float

    @property
    def rate(self) -> float:
        """Unknowns times iterations a second."""
        return self.unknowns * self.solution.iterations / self.seconds if self.seconds else math.inf


def make_operator(
    problem: Problem, degree: int, elements: tuple[int, int, int], curve: float = 0.0, dtype: str = "float64"
) -> Operator:
    """A problem's operator on the unit cube. Raises `ArgumentError` for a mesh that there cannot be."""
    mesh = box_mesh(elements, degree, curve, dirichlet=problem.is_constrained)
    return Operator(mesh, problem.kind, problem.components, dtype)


def run_problem(
    number: int,
    degree: int,
    elements: tuple[int, int, int],
    curve: float = 0.0,
    dtype: str = "float64",
    tolerance: float = 1e-10,
    most: int = 1000,
) -> Result:
    """Solve a problem whose solution is known, twice: the first time compiles. Raises `OptionError` for a number that
    no problem has, and `ArgumentError` for a mesh that there cannot be."""
    if number not in PROBLEMS:
        raise OptionError(f"there is no bake-off problem {number}: expected 1 to {len(PROBLEMS)}")
    problem = PROBLEMS[number]
    operator = make_operator(problem, degree, elements, curve, dtype)
    if not math.prod(operator.shape):
        raise OptionError("all nodes are on the surface, where the solution is given: take more elements or degrees")
    with patient():
        right = operator.right_hand_side(lambda x: load_of(problem, x))
        solve(operator, right, tolerance, most=2)
    began = time.perf_counter()
    found = solve(operator, right, tolerance, most)
    seconds = time.perf_counter() - began
    return Result(problem, degree, elements, math.prod(operator.shape), found, error_of(operator, found.u), seconds)


def error_of(operator: Operator, u: Floats) -> float:
    """The L2 norm of u minus the exact solution, by Gauss's points, relative to that of the exact solution."""
    points = quadrature(operator.mesh.degree)
    found = geometry(operator.mesh, points)
    at_points = np.swapaxes(points.at_points(operator.restricted(u).astype(np.float64)), 0, 1)
    expected = exact(np.moveaxis(found.coordinates, 1, 0), operator.components)
    apart, whole = (float((each**2 * found.weight).sum()) for each in (at_points - expected, expected))
    return math.sqrt(apart / whole)
