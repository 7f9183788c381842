"""Operators of the bake-off problems beside libCEED's and torch's: `python benchmarks/bake_off.py --degrees 1,2,4`.

Needs the extra `benchmarks`. Each operator is applied to one vector of unknowns, in float64: gathered, within the
elements, summed. All give the same result, which is checked. Turns are taken, and the median counts. libCEED and its
backends run on one thread. A rate is that of unknowns of all components.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

import numpy as np
import torch
from common import take_turns
from rich.console import Console
from rich.table import Table

import vkernels as vk
from vkernels.bake_off.operators import Operator
from vkernels.bake_off.problems import PROBLEMS, make_operator

BACKENDS = ("/cpu/self/avx/blocked", "/cpu/self/avx/serial", "/cpu/self/opt/blocked", "/cpu/self/opt/serial")
VOIGT = (5, 3, 0, 1, 2, 4)
"""Our places of libCEED's xx, yy, zz, yz, xz, xy, whose first direction is our last."""

EQUATIONS = ("sk,...k->...s", "rj,...js->...rs", "qi,...irs->...qrs")

Run = Callable[[], np.ndarray]


def of_vkernels(operator: Operator, u: np.ndarray) -> Run:
    out = np.empty_like(u)
    with vk.patient():
        operator.apply(u, out)
    return lambda: operator.apply(u, out)


def of_libceed(operator: Operator, u: np.ndarray, backend: str) -> Run:
    """libCEED's operator on all nodes, of which the constrained ones are 0 in the vector."""
    import libceed

    ceed, mesh, components = libceed.Ceed(backend), operator.mesh, operator.components
    nodes, size = mesh.degree + 1, len(mesh.coordinates)
    is_mass, at_nodes = operator.kind == "mass", operator.kind == "stiffness_at_nodes"
    points = nodes if at_nodes else nodes + 1
    mode = libceed.GAUSS_LOBATTO if at_nodes else libceed.GAUSS
    basis = ceed.BasisTensorH1Lagrange(3, components, nodes, points, mode)
    index = np.ascontiguousarray(operator.unknowns.index, np.int32).ravel()
    unknowns = ceed.ElemRestriction(mesh.elements, nodes**3, components, size, components * size, index)
    found = operator.geometry.weight[:, None] if is_mass else operator.geometry.metric[:, VOIGT]
    stored = np.ascontiguousarray(found).ravel()
    count = 1 if is_mass else 6
    strides = np.array([1, points**3, count * points**3], np.int32)
    of_points = ceed.StridedElemRestriction(mesh.elements, points**3, count, stored.size, strides)
    data, x, y = ceed.Vector(stored.size), ceed.Vector(components * size), ceed.Vector(components * size)
    data.set_array(stored, cmode=libceed.COPY_VALUES)
    full = np.zeros((components, size))
    full[:, : operator.unknowns.free] = u
    x.set_array(full.ravel(), cmode=libceed.COPY_VALUES)
    y.set_value(0)
    name = ("Mass" if is_mass else "Poisson3D") + "Apply"
    made = ceed.Operator(ceed.QFunctionByName(name if components == 1 else f"Vector3{name}"))
    fields = ("u", "v") if is_mass else ("du", "dv")
    made.set_field(fields[0], unknowns, basis, libceed.VECTOR_ACTIVE)
    made.set_field("qdata", of_points, libceed.BASIS_NONE, data)
    made.set_field(fields[1], unknowns, basis, libceed.VECTOR_ACTIVE)

    def run() -> np.ndarray:
        made.apply(x, y)
        with y.array_read() as found:
            return np.asarray(found).reshape(components, size)[:, : operator.unknowns.free]

    run.kept = (ceed, data, x, y, made, stored, index, strides)  # type: ignore[attr-defined]
    return run


def of_torch(operator: Operator, u: np.ndarray) -> Run:
    """Index, einsums, one direction after another, and `index_add`."""
    points = operator.points
    values, slopes = torch.from_numpy(points.values), torch.from_numpy(points.slopes)
    index, free = torch.from_numpy(operator.unknowns.index).long(), operator.unknowns.free
    nodes, x = operator.mesh.degree + 1, torch.from_numpy(u)
    is_mass = operator.kind == "mass"
    data = torch.from_numpy(operator.geometry.weight if is_mass else operator.geometry.metric)
    axes = [[slopes if d == axis else values for axis in range(3)] for d in range(3)]
    total = int(index.max()) + 1

    def along(matrices: list[torch.Tensor], of: torch.Tensor) -> torch.Tensor:
        for equation, matrix in zip(
            ("sk,...k->...s", "rj,...js->...rs", "qi,...irs->...qrs"), matrices[::-1], strict=True
        ):
            of = torch.einsum(equation, matrix, of)
        return of

    def back(matrices: list[torch.Tensor], of: torch.Tensor) -> torch.Tensor:
        return along([matrix.t() for matrix in matrices], of)

    def run() -> np.ndarray:
        padded = torch.nn.functional.pad(x, (0, total - free)) if total > free else x
        local = padded[:, index].unflatten(-1, (nodes, nodes, nodes))
        if is_mass:
            made = back([values] * 3, along([values] * 3, local) * data)
        else:
            a, b, c = (along(each, local) for each in axes)
            m = data.unbind(1)
            flux = (m[0] * a + m[1] * b + m[2] * c, m[1] * a + m[3] * b + m[4] * c, m[2] * a + m[4] * b + m[5] * c)
            made = sum(back(each, f) for each, f in zip(axes, flux, strict=True))
        out = torch.zeros(operator.components, total, dtype=x.dtype)
        return out.index_add_(1, index.flatten(), made.flatten(1))[:, :free].numpy()

    return run


def measured(number: int, degree: int, unknowns: int, rounds: int, threads: int) -> dict[str, float]:
    """Unknowns a second, by the name of what was run. Each case has a process of its own, as a solver has: kernels that
    one process calls with many sizes get plans for classes of sizes."""
    vk.set_threads(threads)
    torch.set_num_threads(threads)
    problem = PROBLEMS[number]
    side = max(2, round((unknowns / problem.components) ** (1 / 3) / degree))
    operator = make_operator(problem, degree, (side,) * 3, curve=0.05)
    u = np.random.default_rng(number * 100 + degree).normal(size=operator.shape)
    runs: dict[str, Run] = {"vkernels": of_vkernels(operator, u), "torch": of_torch(operator, u)}
    runs |= {backend.removeprefix("/cpu/self/"): of_libceed(operator, u, backend) for backend in BACKENDS}
    expected = runs["torch"]()
    for name, run in runs.items():
        np.testing.assert_allclose(run(), expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max(), err_msg=name)
    return {name: u.size / median(seconds) for name, seconds in take_turns(runs, rounds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python benchmarks/bake_off.py", description=__doc__)
    parser.add_argument("--problems", default="1,2,3,4,5,6")
    parser.add_argument("--degrees", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--unknowns", type=int, default=200_000, help="of all components, about")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="of vkernels and torch")
    options = parser.parse_args()
    table = Table(title=f"million unknowns a second, {options.threads} threads")
    for name in ("problem", "degree", "vkernels", "torch", "best of libCEED", "which", "ratio"):
        table.add_column(name)
    for number in map(int, options.problems.split(",")):
        for degree in map(int, options.degrees.split(",")):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                case = process.submit(measured, number, degree, options.unknowns, options.rounds, options.threads)
                rates = case.result()
            best = max((name for name in rates if "/" in name), key=rates.__getitem__)
            ratio = rates["vkernels"] / max(rate for name, rate in rates.items() if name != "vkernels")
            shown = [f"{rates[name] / 1e6:.1f}" for name in ("vkernels", "torch", best)]
            table.add_row(f"BP{number}", str(degree), *shown, best, f"{ratio:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
