"""Launches of their own, and fewer programs at once, are chosen where they take less time, and not elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ir.planning.kernels import build, kernel_of
from vkernels.ir.cost_model.launches import cuts_of, parts_of
from vkernels.ir.facts import Facts
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Home
from vkernels.ir.planning.choose_plan import choose_plan
from vkernels.ir.planning.one_plan import batch_of, model_plan
from vkernels.ir.planning.space import read_space
from vkernels.ir.transforms.apply_plan import apply_plan
from vkernels.ir.transforms.verify_mapped import verify_mapped
from vkernels.targets import limits_of, target_named

T4 = limits_of(target_named("t4"))
ROWS = {"M": 512, "N": 32768}


def test_phases_that_hold_much_get_a_launch_of_their_own_where_registers_are_few():
    module = build("layer_norm_rows", "float16")[1]
    chosen = choose_plan(kernel_of(module), ROWS, T4)
    together = choose_plan(kernel_of(module), ROWS, T4, pin=Pin(launches=()))
    assert chosen.plan.launches
    assert chosen.rung == "launches"
    assert chosen.seconds < together.seconds
    assert not together.plan.launches
    mapped = apply_plan(module, chosen.plan, Facts(ROWS))
    verify_mapped(mapped)
    assert sum(op.name == "vk.launch" for op in mapped.walk()) == len(chosen.plan.launches) + 1


def test_a_launch_more_is_not_begun_where_it_wins_nothing():
    plan = choose_plan(kernel_of(build("softmax_rows")[1]), {"M": 8, "N": 64}, T4).plan
    assert not plan.launches


@pytest.mark.parametrize("name", ["softmax_rows", "layer_norm_rows", "mlp_rows"])
def test_what_crosses_a_launch_is_modelled_as_memory_of_every_program(name):
    kernel = kernel_of(build(name)[1])
    sizes = dict.fromkeys(("M", "N", "K", "H"), 2048)
    space = read_space(kernel, sizes, T4)
    whole = choose_plan(kernel, sizes, T4, pin=Pin(launches=())).plan
    whole = replace(whole, homes={label: Home.MEMORY for label, home in whole.homes.items()})
    for label in cuts_of(space.kernel):
        cut = replace(whole, launches=(label,))
        at = batch_of(space, cut)
        parts = parts_of(at)
        assert len(parts) == 2
        assert sum(len(part.loops) for part in parts) == len(at.loops) >= len(batch_of(space, whole).loops)
        written = [step.touch for loop in parts[0].loops for step in loop.steps if step.touch and step.touch.writes]
        read = {s.touch.place: s.touch for loop in parts[1].loops for s in loop.steps if s.touch and not s.touch.writes}
        handed = [touch for touch in written if touch.place in read]
        assert all(touch.home is None and set(space.tiles) <= set(touch.axes) for touch in handed)
        one, two = model_plan(space, whole), model_plan(space, cut)
        assert float(two.launches) >= float(one.launches) + T4.launch_seconds
        assert float(two.parts["latency"]) > 0


def test_fewer_programs_run_at_once_where_what_they_read_again_then_stays_in_the_cache():
    """Rows that are read again, of which the cache holds one for each multiprocessor and no more; memory is slow."""
    row = 1 << 18
    kernel = kernel_of(build("softmax_rows")[1])
    roomy = replace(T4, cache=3 * T4.multiprocessors * 4 * row, memory_bandwidth=2e10, cache_bandwidth=1e13)
    sizes, pin = {"M": 4096, "N": row}, Pin(chunks={"j": 2048}, warps=4, splits={"j": 1})
    chosen = choose_plan(kernel, sizes, roomy, pin=pin)
    assert chosen.plan.resident_programs == T4.multiprocessors
    assert chosen.rung == "recompute"
    everything = choose_plan(kernel, sizes, roomy, pin=replace(pin, resident_programs=0))
    assert everything.plan.resident_programs == 0
    assert chosen.seconds < 0.9 * everything.seconds


LAYERS = {"M": 8192, "K": 1024, "H": 4096, "N": 1024}


def test_layers_are_two_launches_whose_programs_divide_the_sides_of_both_products():
    """As modelled in less time than with rows alone. Hidden features cross as f16, or what they are computed from as
    f32, which is modelled within a hundredth as fast: four stages of features have no room in shared memory."""
    kernel, limits = kernel_of(build("mlp_rows", "float16")[1]), limits_of(target_named("h100-sxm5-80"))
    chosen = choose_plan(kernel, LAYERS, limits)
    rows = choose_plan(kernel, LAYERS, limits, pin=Pin(launches=(), parallel=()))
    features = choose_plan(kernel, LAYERS, limits, pin=Pin(launches=("hidden",)))
    assert chosen.plan.launches in (("hidden",), ("product",))
    assert chosen.plan.parallel == ("h", "n")
    assert chosen.plan.homes == {chosen.plan.launches[0]: Home.MEMORY}
    assert features.plan.homes == {"hidden": Home.MEMORY}
    assert features.seconds < 0.9 * rows.seconds
    assert features.seconds < 1.02 * chosen.seconds
    space = read_space(kernel, LAYERS, limits)
    parts = parts_of(batch_of(space, chosen.plan))
    assert [part.choices.order for part in parts] == [("i", "h"), ("i", "n")]
    assert not any("h" in loop.axes for loop in parts[0].loops)
    assert not any("n" in loop.axes for loop in parts[1].loops)
    programs = [-(-LAYERS["M"] // chosen.plan.tiles["i"]) * -(-LAYERS[size] // chosen.plan.chunks[axis])
                for size, axis in (("H", "h"), ("N", "n"))]  # fmt: skip
    assert [int(np.max(part.programs)) for part in parts] == programs
    assert space.use_of(chosen.plan).programs == tuple(programs)


def test_scores_of_attention_do_not_cross_launches_where_they_exceed_its_tensors_by_far():
    kernel = kernel_of(build("attention_rows")[1])
    sizes = {"B": 4, "G": 8, "R": 4, "M": 4096, "N": 4096, "D": 128, "E": 128}
    plan = choose_plan(kernel, sizes, limits_of(target_named("h100-sxm5-80"))).plan
    assert not plan.parallel
    assert "score" not in plan.launches
