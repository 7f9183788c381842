"""What one trip of a loop over chunks holds, as the model of time reads it."""

from __future__ import annotations

from jaxtyping import Float, Int

import vkernels.language as vk
from vkernels.compiler.protocols import Signature
from vkernels.ir.cost_model.loops import executed
from vkernels.ir.cost_model.plan_batch import PlanBatch
from vkernels.ir.cost_model.traffic import CacheTraffic
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home, Plan
from vkernels.ir.planning.one_plan import batch_of
from vkernels.ir.planning.space import read_space

from ..planning.kernels import kernel_of

LIMITS = Limits(registers=32, register_bytes=64, shared=1 << 20, multiprocessors=1, cache=32 << 20)


@vk.kernel
def attention(
    q: Float[vk.Tensor, "M D"],
    k: Float[vk.Tensor, "N D"],
    v: Float[vk.Tensor, "N E"],
    out: Float[vk.Tensor, "M E"],
):
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[i, d], k[j, d], axis=d)
    p = vk.exp(score - vk.max(score, axis=j))
    total = vk.dot(p, v[j, e], axis=j)
    out[i, e] = total


@vk.kernel
def blocks(
    x: Float[vk.Tensor, "N I"],
    column: Int[vk.Tensor, "G Q"],
    weight: Float[vk.Tensor, "G P Q"],
    out: Float[vk.Tensor, "G P I"],
):
    i = vk.tile("I")
    g = vk.whole("G")
    p = vk.whole("P")
    total = vk.zeros((g, p, i), vk.float32)
    for n in vk.range("Q"):
        total += weight[g, p, n] * x[column[g, n], i]
    out[g, p, i] = total


def planned(kernel: vk.Kernel, sizes: dict[str, int], plan: Plan) -> PlanBatch:
    dtypes = {each.name: "int32" if each.name == "column" else "float32" for each in kernel.parameters}
    module = kernel.build(Signature(tuple(dtypes.items()), ()))
    return batch_of(read_space(kernel_of(module), sizes, LIMITS), plan)


def test_loops_within_the_same_trips_need_room_for_all_that_they_touch():
    """64 queries and 64 rows of sums, each of 32 KiB, and six keys and values are gone through for every six keys."""
    homes = {"total": Home.SHARED}
    plan = Plan({"i": 64}, {"j": 6, "d": 8, "e": 8}, homes, online=("j",), packs=("q",), lanes="i", order=("i",))
    batch = planned(attention, {"M": 512, "N": 510, "D": 128, "E": 128}, plan)
    small, large = (CacheTraffic(batch, on_chip_counts=True).missed(room << 10, 64)[0] for room in (60, 72))
    assert small > 8 * large


def test_what_a_range_does_is_done_for_each_chunk_around_the_range():
    """Rows that are gathered for all of `p` are gathered for each chunk of it."""
    sizes = {"N": 1024, "I": 512, "G": 8, "P": 16, "Q": 32}
    plan = Plan({"i": 64}, {"g": 1, "p": 2}, lanes="i", order=("i",))
    loops = planned(blocks, sizes, plan).loops
    loaded = [executed(loop, step) for loop in loops for step, touch in loop.touches if touch.place == "x"]
    assert loaded == [("g", "p")]
