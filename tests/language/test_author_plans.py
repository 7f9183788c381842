"""What cannot be planned as an author wants is said at the author's line, with what can be done."""

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk


def doubled_with(pin):
    @vk.kernel(plan=pin)
    def doubled(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        row = x[i, j] * 2.0
        out[i, j] = row - vk.max(row, axis=j)

    return doubled


def stacked_with(pin):
    @vk.kernel(plan=pin)
    def stacked(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        kept = vk.scratch((i, j), x.dtype)
        kept[i, j] = x[i, j]
        vk.phase()
        out[i, j] = kept[i, j] - vk.max(x[i, j], axis=j)

    return stacked


def sorted_with(pin):
    @vk.kernel(plan=pin)
    def in_order(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        out[i, j] = vk.sort(x[i, j], axis=j)

    return in_order


CASES = [
    pytest.param(
        doubled_with(vk.Pin(homes={"row": "registers"}, chunks={"j": 16}, tiles={"i": 2})),
        'no plan can keep homes={"row": "registers"}: ',
        "row = x[i, j] * 2.0",
        'homes={"row": "shared"}',
        id="registers of a value in chunks",
    ),
    pytest.param(
        sorted_with(vk.Pin(splits={"j": 4}, tiles={"i": 2})),
        'no plan can keep splits={"j": 4}: axis j cannot be split',
        'j = vk.whole("N")',
        "Leave it out",
        id="a split sort",
    ),
    pytest.param(
        stacked_with(vk.Pin(homes={"kept": "registers"})),
        'no plan can keep homes={"kept": "registers"}: ',
        "kept = vk.scratch(",
        "Leave it out",
        id="registers of a scratchpad",
    ),
    pytest.param(
        doubled_with(vk.Pin(online=("j",), chunks={"j": 16})),
        "no plan can keep online=('j',)",
        'j = vk.whole("N")',
        "Leave it out",
        id="an axis that cannot go online",
    ),
]


@pytest.mark.parametrize(("kernel", "pins", "line", "help_"), CASES)
def test_pins_that_cannot_be_kept_are_named_at_their_line(kernel, pins, line, help_):
    x = np.random.default_rng(3).normal(size=(6, 96)).astype(np.float32)
    out = np.full_like(x, np.nan)
    with pytest.raises(vk.PlanError) as caught:
        kernel(x, out)
    text = str(caught.value)
    assert pins in text
    assert "bottom rung" not in text
    assert help_ in text
    shown = text.splitlines()
    assert line in shown[1]
    assert set(shown[2].strip()) == {"^"}
    assert np.isnan(out).all()


def test_pins_that_can_be_kept_are_kept_beside_others():
    x = np.random.default_rng(4).normal(size=(6, 96)).astype(np.float32)
    out = np.full_like(x, np.nan)
    kernel = doubled_with(vk.Pin(homes={"row": "shared"}, chunks={"j": 16}))
    kernel(x, out)
    np.testing.assert_allclose(out, 2 * x - 2 * x.max(1, keepdims=True), rtol=1e-6)
