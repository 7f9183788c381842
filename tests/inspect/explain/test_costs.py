"""Which phases and lines the modelled time goes to."""

from __future__ import annotations

import pytest

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
