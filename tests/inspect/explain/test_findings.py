"""What is found out about kernels: compared with what the compiler itself says, never with typed-in figures."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import msgspec
import pytest

from vkernels.compiler.specialise import kernel_in
from vkernels.inspect.explain.explanation import ExplainFindings, count_native
from vkernels.inspect.explain.stages import check_stage, stages_of
from vkernels.ir.analyses import annotate_needs
from vkernels.ir.analysis.needs import NeedsDevice
from vkernels.ir.errors import OptionError
from vkernels.ir.plan_json import plan_from_json
from vkernels.ir.text import parse_module

from .conftest import SHAPES, TARGETS

CELLS = [(kernel, target) for kernel in SHAPES for target in TARGETS]


@pytest.mark.parametrize(("kernel", "target"), CELLS)
def test_a_kernel_that_fits_is_explained_down_to_the_machines_code(explained, kernel, target):
    found = explained(kernel, target)
    assert (found.fits, found.reason) == (True, "")
    assert list(found.stages) == list(stages_of(found.target.architecture, found.is_cpu))
    assert all(text.strip() for text in found.stages.values())
    assert bool(found.launches) != bool(found.findings.native)


@pytest.mark.parametrize(("kernel", "target"), CELLS)
def test_needs_are_those_of_the_kernel_as_written_under_the_plan(explained, kernel, target):
    found = explained(kernel, target)
    plan = plan_from_json({**found.findings.plan, **({"warps": 1} if found.is_cpu else {})})
    needs = annotate_needs(kernel_in(parse_module(found.stages["as-written"])))
    use = needs.evaluate(plan, found.case.shape, NeedsDevice.of(found.limits))
    assert [phase.name for phase in found.findings.phases] == [phase.name for phase in use.phases]
    for phase, its in zip(found.findings.phases, use.phases, strict=True):
        assert (phase.shared_bytes, phase.read_bytes, phase.operations) == (
            its.shared_bytes, its.global_read_bytes, its.operations,
        )  # fmt: skip
    assert found.findings.totals.programs == use.programs


@pytest.mark.parametrize(("kernel", "target"), CELLS)
def test_homes_are_those_that_the_mapped_ir_has(explained, kernel, target):
    found = explained(kernel, target)
    mapped = found.stages["after-apply-plan"]
    for value in found.findings.kept:
        on_chip = re.search(rf'vk\.scratch "{value.label}" ', mapped)
        in_memory = re.search(rf'vk\.buffer "{value.label}"', mapped)
        assert {"shared": (True, False), "memory": (False, True)}.get(value.home, (False, False)) == (
            bool(on_chip), bool(in_memory),
        )  # fmt: skip
        assert value.why


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_too_long_for_registers_is_kept_elsewhere_and_alternatives_say_what_they_take(explained, target):
    kept = explained("softmax", target).findings.kept
    assert {value.label for value in kept} == {"row", "e"}
    for value in kept:
        assert value.home in ("shared", "recompute", "memory")
        assert [each.home for each in value.alternatives if each.taken] == [value.home]
        assert {each.home for each in value.alternatives} == {"shared", "recompute", "memory"}
        shared = next(each for each in value.alternatives if each.home == "shared")
        again = next(each for each in value.alternatives if each.home == "recompute")
        assert shared.shared_bytes > again.shared_bytes
        assert "chunks of" in value.why


def test_what_does_not_fit_as_an_alternative_says_why(explained):
    misfits = [
        each.misfit for value in explained("softmax", "t4").findings.kept for each in value.alternatives if each.misfit
    ]
    assert any("shared memory of 65536" in misfit for misfit in misfits)


@pytest.mark.parametrize("kernel", SHAPES)
def test_source_lines_are_the_authors_and_belong_to_phases(explained, kernel):
    found = explained(kernel, "cpu").findings
    assert found.source[0].text.startswith("def ")
    named = {name for line in found.source for name in line.phases}
    assert named == {phase.name for phase in found.phases}


@pytest.mark.parametrize(("kernel", "target"), CELLS)
def test_the_plan_is_told_with_its_origin_its_time_and_what_the_planner_would_do(explained, kernel, target):
    found = explained(kernel, target).findings
    assert found.origin in ("author", "chosen", "plain")
    assert found.modelled.seconds > 0
    parts = {**found.modelled.parts, "launches": found.modelled.launches}
    assert parts[found.modelled.bottleneck] == max(parts.values())
    assert found.proposal.rung in ("registers", "shared", "recompute", "memory", "launches", "bottom")
    rows = {(row.field, row.about): row.value for row in found.decisions}
    for axis, size in {**found.plan["tiles"], **found.plan["chunks"]}.items():
        assert str(size) in (rows.get(("tiles", axis)), rows.get(("chunks", axis)))
    assert all(row.means for row in found.decisions)


def test_findings_come_back_from_json_as_they_were(explained):
    findings = explained("spdnn", "t4").findings
    assert msgspec.convert(json.loads(json.dumps(asdict(findings))), ExplainFindings) == findings


def test_a_stage_that_is_asked_for_alone_compiles_nothing_that_it_does_not_need(explained):
    early = explained("softmax", "t4", only_stage="ttir")
    assert "ttir" in early.stages
    assert not early.launches
    assert "ptx" not in early.stages


@pytest.mark.parametrize(
    ("name", "architecture", "is_cpu", "meant"),
    [("ptxx", "sm_90", False, "ptx"), ("amdgn", "gfx942", False, "amdgcn"), ("asembly", "x86_64", True, "assembly")],
)
def test_an_unknown_stage_is_a_mistake_that_says_what_was_meant(name, architecture, is_cpu, meant):
    with pytest.raises(OptionError, match=f"did you mean {meant}"):
        check_stage(name, architecture, is_cpu)
    check_stage(meant, architecture, is_cpu)


def test_native_code_is_counted_by_what_its_operands_are():
    lines = ["pushq\t%rax", "vmovups\t(%rdi), %ymm0", "vmovups\t%ymm0, 32(%rsp)", "vaddps\t%ymm0, %ymm1, %ymm0", "retq"]
    text = "\t.text\nf:\n" + "".join(f"\t{line}\n" for line in lines)
    native = count_native(text, 64)
    assert (native.instructions, native.vector, native.stack_vectors, native.workspace) == (5, 3, 1, 64)
