"""Which phases and lines the modelled time goes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkernels.ir.analyses import annotate_needs, phases_of
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.analysis.needs.held_values import held_values
from vkernels.ir.plan import Plan
from vkernels.library.rows import softmax_rows

from .conftest import SHAPES, TARGETS

CELLS = [(kernel, target) for kernel in SHAPES for target in TARGETS]


@pytest.mark.parametrize(("kernel", "target"), CELLS)
def test_each_part_of_the_time_is_divided_among_phases_and_lines(explained, kernel, target):
    findings = explained(kernel, target).findings
    parts = {name: seconds for name, seconds in findings.modelled.parts.items() if seconds > 0}
    assert {cost.resource: cost.seconds for cost in findings.costs} == pytest.approx(parts)
    phases = {phase.name for phase in findings.phases} | {"loop"}
    numbers = {line.number: line.text.strip() for line in findings.source}
    assert findings.costs[0].lines
    for cost in findings.costs:
        assert {each.phase for each in cost.phases} <= phases
        for each in (*cost.phases, *cost.lines):
            assert 0 < each.seconds <= 1.001 * cost.seconds
        for line in cost.lines:
            assert numbers.get(line.line, line.text) == line.text != ""


@pytest.mark.parametrize("target", ["h100-sxm5-80", "mi300x", "t4"])
def test_operations_of_lines_add_up(explained, target):
    costs = {cost.resource: cost for cost in explained("layer_norm", target).findings.costs}
    assert sum(line.seconds for line in costs["operations"].lines) == pytest.approx(
        costs["operations"].seconds, rel=0.2
    )


@pytest.mark.parametrize("target", ["h100-sxm5-80", "mi300x"])
def test_the_registers_of_gpus_are_divided_among_lines(explained, target):
    found = explained("layer_norm", target)
    held, phases = found.findings.held, found.findings.phases
    assert 0 < sum(line.bytes for line in held.lines) <= held.bytes * (1 + 1e-9)
    assert held.bytes / found.limits.register_bytes < 1.3 * max(phase.registers for phase in phases)
    numbers = {line.number: line.text.strip() for line in found.findings.source}
    for line in held.lines:
        assert numbers[line.line] == line.text != ""


@pytest.mark.parametrize("plan", [Plan(chunks={"j": 256}), Plan(chunks={"j": 4096}), Plan(chunks={"j": 256}, stages=3)])
def test_what_lines_hold_is_what_the_kernel_needs(plan):
    module, device = softmax_rows.build(softmax_rows.signature(x="float32", out="float32")), NeedsDevice(32, 255)
    (kernel,) = module.body.block.ops
    plan, sizes = replace(plan, tiles={"i": 2}, warps=4), {"M": 64, "N": 4096}
    held = held_values(phases_of(kernel), annotate_needs(kernel), plan, sizes, device)
    use = annotate_needs(kernel).evaluate(plan, sizes, device)
    assert sum(held.bytes.values()) * use.threads == pytest.approx(use.register_bytes)
