"""What authors pin and allow: it holds whatever else is chosen, and mistakes are told in the author's words."""

from dataclasses import fields

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.ir.budget import within
from vkernels.ir.pin import with_pin
from vkernels.runtime.dispatch import launcher_of

SHAPE = (6, 300)


def softmax_with(**options):
    @vk.kernel(**options)
    def softmax(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        row = x[i, j]
        e = vk.exp(row - vk.max(row, axis=j))
        out[i, j] = e / vk.sum(e, axis=j)

    return softmax


def blurred_with(**options):
    @vk.kernel(**options)
    def blurred(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        buffer = vk.scratch((i, j), x.dtype)
        buffer[i, j] = x[i, j] * 2.0
        out[i, j] = buffer[i, j] + vk.max(x[i, j], axis=j)

    return blurred


def compiled(kernel):
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    out = np.full_like(x, np.nan)
    return kernel.compile(x, out).plan, x, out


def test_all_of_a_plan_can_be_pinned():
    assert {each.name for each in fields(vk.Plan)} <= {each.name for each in fields(vk.Pin)}


def test_what_is_pinned_holds_and_the_rest_is_chosen():
    free, _, _ = compiled(softmax_with())
    kernel = softmax_with(plan=vk.Pin(chunks={"j": 64}, homes={"e": "shared"}))
    plan, x, out = compiled(kernel)
    assert plan.chunks == {"j": 64}
    assert plan.homes == {"e": vk.Home.SHARED}
    assert (plan.tiles.keys(), plan.lanes) == (free.tiles.keys(), free.lanes)
    kernel(x, out)
    expected = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, expected / expected.sum(1, keepdims=True), rtol=1e-5)


def test_pins_hold_over_a_hand_written_plan():
    kernel = softmax_with(plan=vk.Pin(tiles={"i": 3}))

    @kernel.plan
    def plan(sizes, dtypes, limits):
        return vk.Plan(tiles={"i": 1}, chunks={"j": 128}, lanes="j", streams=("out",))

    found, _, _ = compiled(kernel)
    assert (found.tiles, found.chunks, found.streams) == ({"i": 3}, {"j": 128}, ("out",))


def test_nothing_pinned_changes_nothing():
    plan = vk.Plan(tiles={"i": 2}, packs=("x",), warps=2)
    assert with_pin(plan, vk.Pin()) == plan
    assert with_pin(plan, vk.Pin(packs=())).packs == ()


UNKNOWN = {
    "a whole axis": ({"tiles": {"j": 4}}, "tiles pins 'j', but there is no tile axis of that name; there are i"),
    "a size": ({"tiles": {"M": 4}}, "did you mean i, the axis over M?"),
    "a size of a whole axis": ({"chunks": {"N": 4}}, "did you mean j, the axis over N?"),
    "an unknown axis": ({"splits": {"k": 4}}, "splits pins 'k', but there is no whole axis"),
    "lanes": ({"lanes": "z"}, "lanes pins 'z', but there is no axis of that name; there are i, j"),
    "an unknown tensor": ({"packs": ("y",)}, "packs pins 'y', but there is no tensor of that name; there are x, out"),
    "a near tensor": ({"streams": ("outt",)}, "did you mean out?"),
    "no scratchpad": ({"copies": ("e",)}, "copies pins 'e', but there is no scratchpad of that name"),
    "what crosses nothing": ({"homes": {"elephant": "shared"}}, "homes pins 'elephant', but there is no value that"),
    "an online tile axis": ({"online": ("i",)}, "online pins 'i', but there is no whole axis of that name"),
    "no phase": ({"launches": ("first",)}, "launches pins 'first', but there is no phase of that name"),
    "too few in order": ({"order": ()}, "order pins nothing; it must have each tile axis once: i"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_pin_of_what_the_kernel_does_not_have_is_told(name):
    pinned, words = UNKNOWN[name]
    with pytest.raises(vk.PlanError) as error:
        compiled(softmax_with(plan=vk.Pin(**pinned)))
    assert "error: softmax: " in str(error.value)
    assert error.value.place is not None
    assert words in str(error.value)


def test_a_scratchpad_may_be_given_a_home():
    plan, x, out = compiled(kernel := blurred_with(plan=vk.Pin(homes={"buffer": "memory"}, chunks={"j": 32})))
    assert plan.homes == {"buffer": vk.Home.MEMORY}
    kernel(x, out)
    np.testing.assert_allclose(out, 2 * x + x.max(1, keepdims=True), rtol=1e-6)


WRONG = {
    "tiles": ([("i", 4)], {"i": 0}, {"i": "4"}, {"i": True}, {3: 4}),
    "homes": ({"e": "attic"}, {"e": 3}, ["e"]),
    "launches": ("e",),
    "packs": ("x", (3,), ("x", "x"), {"x": 1}),
    "descriptors": ("x", (3,), ("x", "x")),
    "warps": (0, 3, "4", True, 2.0),
    "stages": (0, -1),
    "swizzle": (0, "8", 4.0),
    "private_copies": (-1, "2", True),
    "resident_programs": (-1, None.__class__),
    "lanes": (3, ("i",)),
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, each in WRONG.items() for value in each])
def test_what_no_plan_can_have_is_refused_when_it_is_written(field, value):
    with pytest.raises(vk.OptionError, match=rf"^vk\.Pin: {field}"):
        vk.Pin(**{field: value})


def test_a_plan_that_is_none_is_refused_when_it_is_written():
    with pytest.raises(vk.OptionError, match=r"expected a vk\.Plan, a vk\.Pin or a function"):
        softmax_with(plan={"tiles": {"i": 4}})


def test_a_budget_bounds_the_limits_that_plans_are_made_for():
    seen = []
    kernel = softmax_with(budget=vk.Budget(registers=12, shared=4096))

    @kernel.plan
    def plan(sizes, dtypes, limits):
        seen.append(limits)
        return vk.Plan(tiles={"i": 1}, chunks={"j": 8}, lanes="j")

    compiled(kernel)
    assert (seen[0].registers, seen[0].shared) == (12, 4096)
    assert kernel.budget == vk.Budget(registers=12, shared=4096)


def test_a_budget_never_gives_more_than_there_is():
    limits = vk.Limits(32, 32, 1 << 20, 2, 1 << 22, threads=64)
    assert within(limits, None) is limits
    assert within(limits, vk.Budget(registers=1000, shared=1 << 30, threads=9999)) == limits
    assert within(limits, vk.Budget(shared=0)).shared == 0


@pytest.mark.parametrize("wrong", [{"registers": 0}, {"shared": -1}, {"threads": "64"}, {"registers": True}])
def test_a_budget_that_is_none_is_refused(wrong):
    with pytest.raises(vk.OptionError, match=r"^vk\.Budget: "):
        vk.Budget(**wrong)


def test_a_pin_does_not_change_what_others_share():
    shared = {"i": 2}
    pin = vk.Pin(tiles=shared)
    shared["i"] = 99
    assert pin.tiles == {"i": 2}
    assert launcher_of(softmax_with(plan=pin)).kernel.pin is pin


def test_homes_of_a_whole_plan_may_be_texts():
    whole = {"tiles": {"i": 2}, "chunks": {"j": 64}, "lanes": "j"}
    plan, _, _ = compiled(softmax_with(plan=vk.Plan(**whole, homes={"e": "shared"})))
    assert plan.homes["e"] is vk.Home.SHARED
    kernel = softmax_with()
    kernel.plan(lambda sizes, dtypes, limits: vk.Plan(**whole, homes={"e": "shared"}))
    assert compiled(kernel)[0].homes["e"] is vk.Home.SHARED


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tiles": {"i": "2"}}, r"tiles\['i'\]: expected a whole number of at least 1, got '2'"),
        ({"tiles": [2]}, "tiles: expected a mapping by name"),
        ({"homes": {"e": "nowhere"}}, r"homes\['e'\]: expected registers or"),
        ({"packs": "x"}, "packs: expected names in a tuple"),
        ({"lanes": 1}, "lanes: expected the name of an axis"),
        ({"stages": None}, "stages: expected a value"),
        ({"warps": 3}, "warps: expected a power of two"),
    ],
)
def test_a_whole_plan_that_cannot_be_is_refused_by_whoever_gives_it(wrong, message):
    with pytest.raises(vk.OptionError, match=f"vk.Plan: {message}"):
        softmax_with(plan=vk.Plan(**wrong))
    kernel = softmax_with()
    kernel.plan(lambda sizes, dtypes, limits: vk.Plan(**wrong))
    with pytest.raises(vk.OptionError, match=f"softmax: the function that plans it: vk.Plan: {message}"):
        compiled(kernel)


def test_a_function_that_plans_gives_a_plan():
    kernel = softmax_with()
    kernel.plan(lambda sizes, dtypes, limits: {"tiles": {"i": 2}})
    with pytest.raises(vk.OptionError, match=r"expected a vk\.Plan, got "):
        compiled(kernel)
