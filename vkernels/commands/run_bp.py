"""`vk run bp`: solve a CEED bake-off problem whose solution is known, and check the error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from vkernels.ir.errors import OptionError

from .exits import Code
from .options import Json, Threads
from .results import check_writable, console_for, write_results

if TYPE_CHECKING:
    from vkernels.bake_off.problems import Result

Number = Annotated[
    int, typer.Option(help="Problem, 1 to 6: mass, stiffness, stiffness at the nodes; even: 3 components.")
]
Degree = Annotated[int, typer.Option(min=1, help="Polynomial degree of the elements.")]
Elements = Annotated[str, typer.Option(metavar="N|NxNxN", help="Hexahedra along each side of the unit cube.")]
Curve = Annotated[float, typer.Option(help="How far curved elements move the middle of the cube along each axis.")]
DType = Annotated[str, typer.Option("--dtype", metavar="float64|float32", help="Dtype of the vectors.")]
Tolerance = Annotated[float | None, typer.Option(help="Residual to reach. Default: 1e-10; 1e-5 in float32.")]
Most = Annotated[int, typer.Option(min=1, help="Number of iterations, at most.")]

_TOLERANCES = {"float64": 1e-10, "float32": 1e-5}


def run_bp(
    problem: Number = 3,
    degree: Degree = 4,
    elements: Elements = "8",
    curve: Curve = 0.0,
    dtype: DType = "float64",
    tolerance: Tolerance = None,
    iterations: Most = 1000,
    threads: Threads = None,
    json: Json = None,
) -> None:
    """Solve a bake-off problem of CEED by conjugate gradients and compare with its known solution.

    Exit code 1: the residual is not reached.
    """
    check_writable(json)
    if dtype not in _TOLERANCES:
        raise OptionError(f"--dtype: expected float64 or float32, got {dtype!r}")

    from vkernels.bake_off.problems import run_problem
    from vkernels.runtime.threads import set_threads

    if threads is not None:
        set_threads(threads)
    reached = _TOLERANCES[dtype] if tolerance is None else tolerance
    found = run_problem(problem, degree, _counts(elements), curve, dtype, reached, iterations)
    console_for(json).print(_shown(found, dtype))
    _write(found, dtype, json)
    if not found.solution.converged:
        raise typer.Exit(Code.FINDING)


def _counts(text: str) -> tuple[int, int, int]:
    if re.fullmatch(r"[1-9]\d*(x[1-9]\d*){2}", text):
        a, b, c = map(int, text.split("x"))
        return a, b, c
    if re.fullmatch(r"[1-9]\d*", text):
        return (int(text),) * 3
    raise OptionError(f"--elements: expected a number or three, such as 8 or 8x8x4, got {text!r}")


def _shown(found: Result, dtype: str) -> str:
    solution, problem = found.solution, found.problem
    reached = "converged" if solution.converged else "not converged"
    return (
        f"BP{problem.number}: {problem.kind.replace('_', ' ')}, {problem.components} component"
        f"{'s' if problem.components > 1 else ''}, degree {found.degree}, "
        f"{' × '.join(map(str, found.elements))} elements, {found.unknowns} unknowns, {dtype}\n"
        f"{reached} in {solution.iterations} iterations, residual {solution.residual:.2e}\n"
        f"relative error in L2: {found.error:.3e}\n"
        f"{found.seconds:.4g} s, {found.rate:.4g} unknowns × iterations per second"
    )


def _write(found: Result, dtype: str, json: Json) -> None:
    write_results(
        json,
        "run bp",
        problem=found.problem.number,
        degree=found.degree,
        elements=list(found.elements),
        dtype=dtype,
        unknowns=found.unknowns,
        iterations=found.solution.iterations,
        converged=found.solution.converged,
        residual=found.solution.residual,
        error=found.error,
        seconds=found.seconds,
        unknowns_per_second=found.rate,
    )
