"""How much the plans of the library depend on constants of the CPU's cost model that are typed in, not measured.

    python benchmarks/constants.py [--processors cpu:sapphirerapids:cores=2,cpu:znver4:cores=2] [--dtype bfloat16]
                                   [--constants own,gradual,OVERLAP]

Each constant is halved and doubled, and the library's kernels are planned anew. The plan chosen so is timed by the
model as it is, beside the usual plan: what is lost where a machine has another constant than the model's. Nothing runs.
`--constants` also takes names of what calibration measures (`CoreCosts`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean

import typer
from rich.console import Console
from rich.table import Table

from vkernels.autotune.arguments import built
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.inspect.task import Task
from vkernels.ir.core_costs import CoreCosts
from vkernels.ir.errors import Error
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import model_plan
from vkernels.ir.planning.space import PlanSearchSpace, read_space
from vkernels.library.tasks import library_tasks
from vkernels.targets import limits_of
from vkernels.targets.processors import processor_targets
from vkernels.targets.slices import target_or_slice

MODEL = "vkernels.ir.cost_model"
CONSTANTS = {
    "CROWDED": ("cpu",), "GRADUAL_1": ("cpu",), "SHORT": ("cpu_rows",), "CLOSER": ("cpu_rows",),
    "MOST_FETCHED": ("cpu_rows",), "TOGETHER": ("cpu_steps",), "BROKEN": ("cpu_steps",), "UPDATE_MANY": ("atomics",),
    "MASKED_TIMES": ("cpu_packs",), "OVERLAP": ("plan_batch",),
}  # fmt: skip
"""By the modules of the model that know them."""
TIMES = (0.5, 2.0)


@contextmanager
def changed(name: str, times: float) -> Iterator[None]:
    """Within, a constant is so many times as large."""
    modules = [importlib.import_module(f"{MODEL}.{module}") for module in CONSTANTS[name]]
    before = getattr(modules[0], name)
    try:
        for module in modules:
            setattr(module, name, before * times)
        yield
    finally:
        for module in modules:
            setattr(module, name, before)


@contextmanager
def changed_cost(name: str, times: float) -> Iterator[None]:
    """Within, what calibration measures, or a family's table says, is so many times as large."""
    before = Limits.core_costs

    def core_costs(limits: Limits) -> CoreCosts:
        found: CoreCosts = before.__get__(limits)
        return replace(found, **{name: times * getattr(found, name)})

    try:
        Limits.core_costs = property(core_costs)  # type: ignore[method-assign, assignment]
        yield
    finally:
        Limits.core_costs = before  # type: ignore[method-assign]


@dataclass(frozen=True)
class Row:
    """A kernel of the library on a processor, the plan that it usually has, and that plan's modelled seconds."""

    name: str
    space: PlanSearchSpace
    usual: Plan
    seconds: float

    @staticmethod
    def of(task: Task, limits: Limits) -> Row:
        kernel = built(task)
        shape = dict(task.shape)
        space = read_space(kernel, shape, limits)
        usual = choose_plan(kernel, shape, limits, space.needs).plan
        return Row(task.name, space, usual, model_plan(space, usual).seconds)

    def lost(self, constant: str, times: float) -> float:
        """The modelled time of the plan that is chosen with a changed constant, over that of the usual plan."""
        with changed(constant, times) if constant in CONSTANTS else changed_cost(constant, times):
            plan = choose_plan(self.space.kernel, self.space.sizes, self.space.limits, self.space.needs).plan
        return 1.0 if plan == self.usual else model_plan(self.space, plan).seconds / self.seconds


def rows_of(
    kernels: Sequence[str], processor: str, dtype: str | None = None, without: Sequence[str] = ()
) -> Iterator[Row]:
    """The kernels that can be planned for a processor with their usual sizes."""
    limits = limits_of(target_or_slice(processor, processor_targets()))
    for task in library_tasks(kernels, SpecialisationRequest(dtype)):
        with suppress(Error):
            if task.name not in without:
                yield Row.of(task, limits)


def main(
    processors: str = "cpu:sapphirerapids:cores=2,cpu:znver4:cores=2", kernels: str = "all", without: str = "",
    constants: str = ",".join(CONSTANTS), dtype: str | None = None,
) -> None:  # fmt: skip
    console = Console(highlight=False, width=120)
    for processor in processors.split(","):
        table = Table("constant", "times", "other plans", "lost, mean", "most", "of")
        rows = list(rows_of(kernels.split(","), processor, dtype, without.split(",")))
        for constant in constants.split(","):
            for times in TIMES:
                found = [(row.lost(constant, times), row.name) for row in rows]
                most, where = max(found)
                mean = exp(fmean(log(each) for each, _ in found))
                others = sum(each != 1.0 for each, _ in found)
                table.add_row(constant, f"{times:g}", str(others), f"{mean:.4f}", f"{most:.3f}", where)
        console.print(f"{processor}: {len(rows)} kernels", table)


if __name__ == "__main__":
    typer.run(main)
