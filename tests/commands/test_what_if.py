"""`vk explain --what-if`: the answers as text and JSON, and questions that are refused."""

from __future__ import annotations

import json

import pytest

from vkernels.targets import limits_of, target_named


@pytest.fixture
def vk(run_vk, shared_workers):
    """Runs `vk explain`, judging no other plans."""
    return lambda *arguments: run_vk("explain", "softmax_rows", "--judge", "1", "--shape", "M=64,N=70000", *arguments)


@pytest.mark.slow
def test_each_question_is_answered_for_this_plan_and_for_the_plan_chosen_anew(vk):
    code, output, said = vk(
        "--target", "t4", "--what-if", "bandwidth=2x", "--what-if", "registers=16", "--what-if", "target=a100-sxm4-80",
        "--json", "-",
    )  # fmt: skip
    assert (code, said) == (0, said)
    found = json.loads(output)
    faster, tight, other = found["what_if"]
    limits = limits_of(target_named("t4"))
    assert faster["changed"] == {"bandwidth": [limits.memory_bandwidth, 2 * limits.memory_bandwidth]}
    assert faster["same_plan"]["plan"] == found["plan"]
    assert faster["same_plan"]["modelled"]["seconds"] < found["modelled_seconds"]
    assert faster["chosen_anew"]["modelled"]["seconds"] <= faster["same_plan"]["modelled"]["seconds"]
    assert "registers a thread of 16" in tight["same_plan"]["misfit"]
    assert tight["same_plan"]["modelled"] is None
    assert tight["chosen_anew"]["modelled"]["seconds"] > found["modelled_seconds"]
    assert other["chosen_anew"]["modelled"]["seconds"] < found["modelled_seconds"] / 2


def test_the_text_says_what_changes_and_why_a_plan_does_not_fit(vk):
    code, output, _ = vk("--target", "t4", "--what-if", "registers=16", "--what-if", "shared=+1K")
    assert code == 0
    section = output[output.index("What if") : output.index("The compiled code")]
    assert "registers 255 → 16" in section
    assert "does not fit" in section
    assert "registers a thread of 16" in section
    assert "shared 64 KiB → 65 KiB" in section


def test_each_rate_and_each_size_of_the_plan_is_changed_alone(vk):
    code, output, _ = vk("--target", "t4", "--what-if", "bandwidth=1.1x", "--json", "-")
    assert code == 0
    found = json.loads(output)
    changes = {each["what"]: each for each in found["small_changes"]}
    plan = found["plan"]
    sizes = {f"tile of {axis}" for axis in plan["tiles"]} | {f"chunk of {axis}" for axis in plan.get("chunks", {})}
    assert changes.keys() == {"bandwidth", "cache_bandwidth", "shared_bandwidth", "clock", *sizes}
    asked = found["what_if"][0]["same_plan"]["modelled"]["seconds"] / found["modelled_seconds"]
    assert changes["bandwidth"]["seconds"] == pytest.approx(asked)
    assert all(each["seconds"] <= 1 + 1e-9 for each in changes.values() if each["factor"] < 2 and each["seconds"])


def test_pins_hold_under_other_limits_and_in_what_these_are_compared_with(run_vk, shared_workers, tmp_path):
    own = tmp_path / "own.py"
    own.write_text("""
import vkernels as vk
from jaxtyping import Float

@vk.kernel(plan=vk.Pin(tiles={"i": 2}))
def pinned(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j]
""")
    arguments = ("--target", "t4", "--shape", "M=512,N=4096", "--judge", "1", "--json", "-")
    code, output, _ = run_vk("explain", f"{own}:pinned", *arguments, "--what-if", "registers=40")
    found = json.loads(output)
    assert code == 0
    for each in (found["what_if_unchanged"], *found["what_if"]):
        assert each["chosen_anew"]["plan"]["tiles"]["i"] == 2


@pytest.mark.slow
def test_a_budget_holds_under_other_limits_too(run_vk, shared_workers, tmp_path):
    own = tmp_path / "own.py"
    own.write_text("""
import vkernels as vk
from jaxtyping import Float

@vk.kernel(budget=vk.Budget(shared=1024))
def kept(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    e = vk.exp(x[i, j] - vk.max(x[i, j], axis=j))
    out[i, j] = e / vk.sum(e, axis=j)
""")
    arguments = ("--target", "h100-sxm5-80", "--shape", "M=256,N=131072", "--judge", "1", "--json", "-")
    code, output, _ = run_vk("explain", f"{own}:kept", *arguments, "--what-if", "shared=4x")
    found = json.loads(output)
    assert code == 0
    assert found["what_if"][0]["chosen_anew"]["plan"] == found["proposal"]["plan"]


@pytest.mark.parametrize("question", ["shared", "sharde=1K", "shared=many", "target=cpu", "registers=-999"])
def test_a_question_that_makes_no_sense_is_refused_before_anything_runs(vk, question):
    code, output, said = vk("--target", "t4", "--what-if", question)
    assert (code, output) == (2, "")
    assert "--what-if" in said


def test_ir_answers_no_questions(vk):
    code, _, said = vk("--target", "t4", "--what-if", "shared=2x", "--ir", "ptx")
    assert code == 2
    assert "leave one of them out" in said


def test_the_page_has_the_costs_and_the_answers(vk, tmp_path):
    page = tmp_path / "page.html"
    assert vk("--target", "t4", "--what-if", "registers=16", "--html", page)[0] == 0
    html = page.read_text()
    section = html[html.index("<h2>What if</h2>") : html.index("<h2>The compiled code</h2>")]
    assert "<td>registers=16</td><td>does not fit</td>" in section
    assert "registers 255 → 16" in section
    assert "row = x[i, j]" in html[html.index("<h2>What costs the time</h2>") : html.index("<h2>What if</h2>")]
