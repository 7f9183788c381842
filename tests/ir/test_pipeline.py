"""The order of passes: known to `vk-opt`, readable at every stage, and as the page on explaining says."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vkernels.ir.facts import Facts
from vkernels.ir.pipeline import PASSES, cpu_pipeline, gpu_pipeline, load_pass, run_passes, stages_of
from vkernels.ir.plan import Plan
from vkernels.ir.text import parse_module, print_module

PIPELINES = {"cpu": cpu_pipeline(Plan(), Facts()), "gpu": gpu_pipeline(Plan(), Facts())}
DOCS = Path(__file__).parents[2] / "docs"
KERNEL = """
vk.kernel @double(%x: !vk.tensor<[N], f32>, %out: !vk.tensor<[N], f32>) {
  %N = vk.size N
  vk.tile i < %N
  %a = vk.load %x[i] : !vk.tensor<[N], f32> -> tensor<?xf32, #vk.axes<i>>
  %b = arith.addf %a, %a : tensor<?xf32, #vk.axes<i>>
  vk.store %b in %out[i] : !vk.tensor<[N], f32> <- tensor<?xf32, #vk.axes<i>>
}
"""


@pytest.mark.parametrize("name", PASSES)
def test_vk_opt_finds_every_pass_under_its_name(name: str) -> None:
    assert load_pass(name).name == name


@pytest.mark.parametrize("passes", PIPELINES.values(), ids=PIPELINES)
def test_every_pass_of_a_pipeline_has_a_name_and_says_what_it_gives(passes: tuple[ModulePass, ...]) -> None:
    assert {each.name for each in passes} <= set(PASSES)
    assert all(stages_of(passes).values())


@pytest.mark.parametrize("passes", PIPELINES.values(), ids=PIPELINES)
def test_the_page_on_explaining_names_the_stages_in_their_order(passes: tuple[ModulePass, ...]) -> None:
    page = (DOCS / "explain.md").read_text()
    places = [page.find(f"| `{stage}` |") for stage in stages_of(passes)]
    assert -1 not in places
    assert places == sorted(places)


def test_running_a_pipeline_shows_every_stage_and_leaves_the_kernel_as_written() -> None:
    module = parse_module(KERNEL, "double.mlir")
    written, passes, shown = print_module(module), cpu_pipeline(Plan(tiles={"i": 8}), Facts()), dict[str, str]()

    def observe(stage: str, reached: ModuleOp) -> None:
        reached.verify()
        shown[stage] = print_module(reached)

    mapped = run_passes(passes, module, observe)
    assert list(shown) == list(stages_of(passes))
    assert shown["as-written"] == written == print_module(module)
    assert "vk.phase" in shown["after-split-phases"]
    assert "vk.launch" in shown["after-apply-plan"]
    assert print_module(mapped) == print_module(run_passes(passes, module)) == shown["after-expand-math"]
