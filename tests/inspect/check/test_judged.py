"""`vk check`, `vk explain` and compiling ahead come to the same plan by its binaries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vkernels.compiler.default_session import use_session
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.cases import KernelCase, KernelSource, as_deterministic
from vkernels.inspect.check import judge_cells as judging
from vkernels.inspect.check.cells import CHOSEN, Cell, PlanSummary
from vkernels.inspect.check.check import CheckTools, check, triton_version
from vkernels.inspect.check.judge_cells import judge_cells, judged_plans, number_of_best
from vkernels.inspect.check.prepare_cells import CellRequest, PreparedCell
from vkernels.inspect.explain.explain import explain
from vkernels.inspect.resolve import resolve_case
from vkernels.inspect.specialisation import parse_specialisation
from vkernels.inspect.worker_client import InspectPool
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.plan_json import plan_from_json
from vkernels.ir.unseen_time import UnseenTime
from vkernels.library.catalogue import CATALOGUE
from vkernels.library.rows import softmax_rows
from vkernels.targets import target_named

COUNT = 3
H100 = "h100-sxm5-80"
SHAPE = {"M": 512, "N": 3000}


@pytest.mark.slow
def test_all_commands_come_to_one_plan(tmp_path):
    disk, target = DiskCache(tmp_path), target_named(H100)
    with InspectPool(1, 300) as preparing, CompilePool(2, 300) as compiling:
        tools = CheckTools(preparing, compiling, disk, triton_version(), judge=COUNT)
        request = parse_specialisation("float16", ",".join(f"{name}={size}" for name, size in SHAPE.items()), None)
        case, _ = resolve_case("softmax_rows", request, CATALOGUE, preparing)
        judged, alone = check([case, as_deterministic(case)], [target], tools, lambda *step: None).cells
        explained = explain(case, target, tools)
        stage = explain(case, target, tools, only_stage="ttir")
    session = CompilerSession(disk, judge=COUNT)
    with use_session(session):
        (made,) = softmax_rows.compile(shapes=SHAPE, targets=[target], dtype="float16")
    session.close()
    assert judged.planned is not None
    assert plan_from_json(judged.planned.plan) == plan_from_json(explained.findings.plan) == made.plan
    assert stage.stages["ttir"] == explained.stages["ttir"]
    assert judged.planned.judged == explained.findings.judged
    assert COUNT <= judged.planned.judged <= COUNT + 2  # two neighbours of the best at most
    assert alone.planned is not None
    assert alone.planned.judged == 0


def verdict(
    seconds: float,
    spills: int = 0,
    fits: bool = True,
    short: bool = False,
    bounded: bool = True,
    resident: int = 1,
    warps: int = 4,
    tensor: float = 0.0,
) -> Any:
    bound = SimpleNamespace(seconds=seconds, parts={"issue": seconds}, tensor_seconds=tensor) if bounded else None
    use = SimpleNamespace(spills=spills, instructions=250)
    loops = SimpleNamespace(bound=bound, loops=(SimpleNamespace(use=use),), resident=resident, warps=warps)
    return SimpleNamespace(fits=fits, shortage="spills" if short else None, launches=(SimpleNamespace(loops=loops),))


@pytest.mark.parametrize(
    ("verdicts", "best"),
    [
        ((verdict(2.0), verdict(1.0), verdict(3.0)), 1),
        ((verdict(2.0), verdict(1.0, fits=False), verdict(1.9)), 2),
        ((verdict(2.0), verdict(1.0, short=True), verdict(3.0)), 1),
        ((verdict(2.0), verdict(1.0, spills=3, short=True), verdict(3.0)), 0),
        ((verdict(2.0, fits=False), verdict(1.0, spills=3, short=True)), None),
        ((verdict(2.0), verdict(1.0, spills=3), verdict(3.0)), 0),
        ((verdict(2.0), verdict(1.0, spills=2), verdict(3.0)), 1),
        ((verdict(2.0, spills=5), verdict(1.0, spills=3)), 1),
        ((verdict(2.0), verdict(1.99)), 0),
        ((verdict(2.0, warps=21), verdict(2.05, warps=32), verdict(1.99, warps=34)), 1),
        ((verdict(2.0, warps=21), verdict(2.2, warps=64)), 0),
        ((verdict(2.0, warps=8, tensor=1.0), verdict(2.0, warps=16, tensor=1.0)), 0),
        ((verdict(2.0), verdict(1.0, bounded=False)), 0),
        ((verdict(2.0, bounded=False), verdict(1.0, fits=False)), None),
    ],
)
def test_the_best_fits_and_has_the_lowest_bound(verdicts, best):
    plans = [PreparedCell(CellRequest(None, target_named(H100))) for _ in verdicts]
    assert number_of_best(plans, verdicts) == best


def test_what_no_binary_shows_counts_too():
    plans = [PreparedCell(CellRequest(None, target_named(H100)), unseen=UnseenTime(least)) for least in (2.0, 5.0, 1.0)]
    assert number_of_best(plans, (verdict(2.5), verdict(1.0), verdict(2.0))) == 2


def test_how_many_programs_a_multiprocessor_holds_is_read_from_binaries():
    """The second plan waits longer with one program, and less long with as many as there is room for."""
    waits = (UnseenTime(0.0, ((4.0, 3.0),)), UnseenTime(0.0, ((6.0, 2.0, 1.0),)))
    plans = [PreparedCell(CellRequest(None, target_named(H100)), unseen=each) for each in waits]
    assert number_of_best(plans, (verdict(0.5), verdict(0.5))) == 0
    assert number_of_best(plans, (verdict(0.5, resident=2), verdict(0.5, resident=5))) == 1


def test_the_cell_of_the_best_takes_the_place_of_the_models(monkeypatch):
    case = KernelCase(KernelSource("k", module="m"), "float32", {}, {})
    want = CellRequest(case, target_named(H100))
    cells = [
        Cell("k", H100, "sm_90", "float32", {}, {}, planned=PlanSummary(CHOSEN, {"n": number}, rung="registers"))
        for number in range(3)
    ]
    plans = tuple(PreparedCell(want, planned=cell.planned) for cell in cells)
    monkeypatch.setattr(judging, "prepare_to_judge", lambda wants, count, pool: [plans for _ in wants])
    monkeypatch.setattr(judging, "is_of_use", lambda bound: True)
    monkeypatch.setattr(judging, "number_of_best", lambda plans, verdicts: 2)
    (found,) = judge_cells([want], [cells[0]], 3, None, lambda plans: cells)
    assert found.planned == PlanSummary(CHOSEN, {"n": 2}, rung="registers", judged=3)
    kept = CellRequest(case, target_named(H100), unknown="no compiler")
    assert judge_cells([kept], [Cell("k", H100, "sm_90", "float32", {}, {}, unknown="no")], 3, None, list)[0].unknown


def test_other_plans_take_the_place_of_those_that_cannot_be_taken(monkeypatch):
    """Each request goes on until its plans are of use, or there are no more; neighbours of the best come last."""
    case = KernelCase(KernelSource("k", module="m"), "float32", {}, {})
    wants = [CellRequest(case, target_named(H100)), CellRequest(case, target_named("a100-sxm4-80"))]
    spilling = {("sm_90", 0), ("sm_90", 2), ("sm_80", 1)}
    asked = []

    def prepare(some, count, pool):
        asked.append([(want.target.architecture, want.of_use) for want in some])
        for want in some:
            if want.near:
                assert [each["n"] for each in want.near] == [len(want.judged) - 1 if len(want.judged) > 2 else 0]
                yield tuple(
                    PreparedCell(want, planned=PlanSummary(CHOSEN, {"n": n})) for n in (8, 9)[: len(want.judged) - 2]
                )
                continue
            missing, first = count - sum(want.of_use), len(want.of_use)
            numbers = range(first, min(first + missing, 4 if want.target.architecture == "sm_90" else 2))
            yield tuple(PreparedCell(want, planned=PlanSummary(CHOSEN, {"n": n})) for n in numbers)

    def verdicts(plans):
        numbers = [(plan.want.target.architecture, plan.planned.plan["n"]) for plan in plans]
        return [verdict(10.0 - each[1], spills=9 * (each in spilling)) for each in numbers]

    monkeypatch.setattr(judging, "prepare_to_judge", prepare)
    found = judged_plans(wants, 2, None, verdicts)
    assert [[plan.planned.plan["n"] for plan in plans] for plans, _ in found] == [[0, 1, 2, 3, 8, 9], [0, 1]]
    assert [number_of_best(*each) for each in found] == [5, 0]
    assert asked == [
        [("sm_90", ()), ("sm_80", ())],
        [("sm_90", (False, True)), ("sm_80", (True, False))],
        [("sm_90", (False, True, False))],
        [("sm_90", (False, True, False, True)), ("sm_80", (True, False))],
    ]
