"""Tiles whose lanes lie across rows of memory: every element is where it belongs, and none beside them is touched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Num

import vkernels as vk
from vkernels.language.kernel import Kernel

torch = pytest.importorskip("torch")


@vk.kernel
def turned(x: Num[vk.Tensor, "B N M"], out: Num[vk.Tensor, "B M N"]):
    b = vk.tile("B")
    i = vk.tile("M")
    j = vk.tile("N")
    out[b, i, j] = x[b, j, i]


@vk.kernel
def sums_of_columns(x: Num[vk.Tensor, "N M"], y: Num[vk.Tensor, "M N"], out: Num[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[j, i] + y[i, j]


def by(kernel, plan) -> Kernel:
    return Kernel(kernel.function, replace(kernel.options, plan=plan))


DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32,
          torch.int64, torch.uint8)  # fmt: skip
SIZES = ((1, 16, 16), (2, 33, 18), (1, 64, 7), (3, 5, 70), (1, 100, 129), (2, 1, 40), (1, 40, 1), (0, 8, 8), (1, 0, 9))


@pytest.fixture
def random():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    return np.random.default_rng(seed)


def filled(random, shape, dtype):
    return torch.from_numpy(random.integers(0, 100, shape)).to(dtype)


def poisoned(shape, dtype):
    """A tensor within a larger one, and all of that: what is beside the tensor must stay."""
    room = torch.full((int(np.prod(shape)) + 128,), 99, dtype=torch.int64).to(dtype)
    return room[64:-64].view(shape), room


PAIRS = [(one, other) for one in (1, 2, 3, 4, 6, 8, 12, 16, 20, 32, 64) for other in (4, 8, 16, 32, 64)]


@pytest.fixture
def pairs(request):
    """What the sides of tiles are drawn from: LLVM takes up to 13 s for the largest, which are for the thorough run."""
    thorough = request.node.get_closest_marker("thorough") is not None
    return [pair for pair in PAIRS if thorough or pair[0] * pair[1] <= 512]


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lanes", ["i", "j"])
def test_elements_go_where_they_belong(random, pairs, dtype, lanes):
    for size in SIZES:
        batch, columns, rows = size
        x = filled(random, (batch, columns, rows), dtype)
        one, other = (int(side) for side in random.choice(pairs))
        tiles = {"b": 1, "i": other, "j": one} if lanes == "i" else {"b": 1, "i": one, "j": other}
        out, room = poisoned((batch, rows, columns), dtype)
        by(turned, vk.Plan(tiles, {}, lanes=lanes, order=("b", "i", "j")))(x, out)
        assert torch.equal(out, x.mT), (size, tiles)
        assert (room[:64] == room.new_tensor(99)).all()
        assert (room[-64:] == room.new_tensor(99)).all()


@pytest.mark.parametrize("strides", [(1, 0), (1, 3), (0, 0)], ids=["columns", "padded", "rows"])
def test_any_strides_of_rows_are_right(random, strides):
    along, padding = strides
    room = filled(random, (70, 50 + padding), torch.float32)
    x = room[:, :50] if along else filled(random, (50, 70), torch.float32).T
    out, _ = poisoned((50, 70), torch.float32)
    by(turned, vk.Plan({"b": 1, "i": 16, "j": 16}, {}, lanes="j", order=("b", "i", "j")))(x[None], out[None])
    assert torch.equal(out, x.T)


@pytest.mark.sample(3)
@pytest.mark.parametrize("chunk", [16, 32, 64])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 6, 8, 12])
def test_rows_are_turned_within_loops(random, chunk, rows):
    x, y = filled(random, (203, 57), torch.float32), filled(random, (57, 203), torch.float32)
    out, _ = poisoned((57, 203), torch.float32)
    by(sums_of_columns, vk.Plan({"i": rows}, {"j": chunk}, lanes="j", order=("i",)))(x, y, out)
    assert torch.equal(out, x.T + y)


def test_memory_may_overlap_itself_if_it_is_only_read(random):
    """Rows that begin one element after another: each is loaded by itself."""
    line = filled(random, (120,), torch.float32)
    x = line.as_strided((1, 64, 40), (0, 1, 1))
    out, _ = poisoned((1, 40, 64), torch.float32)
    by(turned, vk.Plan({"b": 1, "i": 8, "j": 16}, {}, lanes="j", order=("b", "i", "j")))(x, out)
    assert torch.equal(out, x.mT)


def test_rows_are_loaded_whole_and_not_gathered():
    x, out = torch.zeros(1, 64, 64), torch.zeros(1, 64, 64)
    kernel = by(turned, vk.Plan({"b": 1, "i": 16, "j": 16}, {}, lanes="j", order=("b", "i", "j")))
    text = kernel.compile(x, out).stages["llvm"]
    assert "shufflevector" in text
    assert "masked.gather" not in text


@pytest.mark.sample(3)
@pytest.mark.parametrize("lanes", ["i", "j"], ids=["stored", "loaded"])
@pytest.mark.parametrize("side", [2, 3, 5, 6, 7, 9, 13, 19])
def test_rows_of_any_length_are_turned(random, side, lanes):
    """Whole ones; nothing beside them is read into elements, or written."""
    x = filled(random, (2, 48, side) if lanes == "j" else (2, side, 48), torch.float32)
    out, room = poisoned(tuple(x.mT.shape), torch.float32)
    tiles = {"b": 1, "i": side, "j": 16} if lanes == "j" else {"b": 1, "i": 16, "j": side}
    kernel = by(turned, vk.Plan(tiles, {}, lanes=lanes, order=("b", "i", "j")))
    kernel(x, out)
    assert torch.equal(out, x.mT)
    assert (room[:64] == 99).all()
    assert (room[-64:] == 99).all()


@pytest.mark.parametrize("side", [2, 3, 5, 6, 7, 12])
def test_short_rows_are_not_gathered(side):
    x, out = torch.zeros(1, 64, side), torch.zeros(1, side, 64)
    kernel = by(turned, vk.Plan({"b": 1, "i": side, "j": 16}, {}, lanes="j", order=("b", "i", "j")))
    assert "masked.gather" not in kernel.compile(x, out).stages["llvm"]


@vk.kernel
def spread_out(x: Num[vk.Tensor, "M N"], y: Num[vk.Tensor, "M N"], out: Num[vk.Tensor, "M K"], step: vk.Constant = 2):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, step * j] = x[i, j]
    out[i, step * j + 1] = y[i, j]


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("cut", [0, 1, 7])
def test_elements_are_stored_apart_and_nothing_between_them(random, dtype, step, cut):
    """`cut`: elements that the last ones of a row are beyond the tensor by."""
    for rows, columns in ((3, 70), (5, 16), (1, 1), (4, 33)):
        x, y = filled(random, (rows, columns), dtype), filled(random, (rows, columns), dtype)
        length = max(1, step * columns - cut)
        out, room = poisoned((rows, length), dtype)
        expected = out.clone()
        for values, first in ((x, 0), (y, 1)):
            places = torch.arange(columns) * step + first
            inside = places < length
            expected[:, places[inside]] = values[:, inside]
        tiles = {"i": int(random.choice([1, 2, 4])), "j": int(random.choice([4, 8, 16, 32, 64]))}
        by(spread_out, vk.Plan(tiles, {}, lanes="j", order=("i", "j")))(x, y, out, step)
        assert torch.equal(out, expected), (rows, columns, tiles)
        assert (room[:64] == room.new_tensor(99)).all()
        assert (room[-64:] == room.new_tensor(99)).all()
