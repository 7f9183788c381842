"""Calls from the author's text to results: right for any layout, remembered, compiled once."""

import os
import re
import threading

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.default_session import default_session
from vkernels.runtime import get_threads, set_threads
from vkernels.runtime.dispatch import launcher_of


@vk.kernel
def softmax(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)


@vk.kernel
def total(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i] = vk.sum(x[i, j], axis=j)


def new_scale():
    @vk.kernel
    def scale(x: Float[vk.Tensor, "N"], factor: vk.Scalar, out: Float[vk.Tensor, "N"], square: vk.Constant = False):
        i = vk.tile("N")
        value = x[i] * factor
        if square:
            value = value * value
        out[i] = value

    return scale


def poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, float("nan"), dtype=dtype)


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def assert_softmax(out, x):
    expected = torch.softmax(torch.as_tensor(x if torch.is_tensor(x) else x.copy()).double(), -1)
    out = torch.as_tensor(out if torch.is_tensor(out) else out.copy())
    tolerance = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}[out.dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance / 100)


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (64, 100), (2, 5000), (1000, 17)])
def test_softmax_of_torch_tensors(shape, dtype):
    x, out = normal(*shape, dtype=dtype), poisoned(*shape, dtype=dtype)
    softmax(x, out)
    assert_softmax(out, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_softmax_of_numpy_arrays(dtype):
    x, out = normal(33, 70).numpy().astype(dtype), np.full((33, 70), np.nan, dtype)
    softmax(x, out)
    assert_softmax(out, x)


LAYOUTS = {
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "every second column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "a part": lambda a: np.pad(a, 3)[3:-3, 3:-3],
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("layout_out", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides(layout, layout_out):
    x = LAYOUTS[layout](normal(21, 45).numpy())
    out = LAYOUTS[layout_out](np.full((21, 45), np.nan, np.float32))
    softmax(x, out)
    assert_softmax(out, x)


def test_rows_that_are_one_row():
    x, out = normal(1, 50).expand(8, 50), poisoned(8, 50)
    softmax(x, out)
    assert_softmax(out, x)


@pytest.mark.parametrize("shape", [(5, 300), (40, 3000), (2, 100_000)])
def test_in_place_and_apart_take_turns(shape):
    for _ in range(2):
        x, out = normal(*shape), poisoned(*shape)
        expected = x.clone()
        softmax(x, out)
        assert_softmax(out, expected)
        softmax(x, x)
        assert_softmax(x, expected)


def test_partial_overlap_is_refused_even_where_the_shape_is_known():
    memory = normal(30, 100)
    softmax(memory[:10], memory[10:20])
    softmax(memory[:, :50][:10], memory[:, 50:][:10])
    with pytest.raises(vk.ArgumentError, match="`out`: it is written, so expected the same memory as `x` or none"):
        softmax(memory[:10], memory[5:15])


@pytest.mark.parametrize(("shape", "expected"), [((0, 7), []), ((3, 0), [0, 0, 0]), ((0, 0), [])])
def test_empty_tensors(shape, expected):
    out = poisoned(shape[0])
    total(torch.zeros(shape), out)
    assert out.tolist() == expected


def test_scalars_and_constants():
    scale = new_scale()
    x = normal(100)
    for factor in (2.5, -3, True, np.float32(0.5), np.int64(7), torch.tensor(4.0)):
        out = poisoned(100)
        scale(x, factor, out)
        torch.testing.assert_close(out, x * float(factor))
    out = poisoned(100)
    scale(x, out=out, factor=3.0, square=True)
    torch.testing.assert_close(out, (x * 3.0) ** 2)


def test_code_is_compiled_once_for_what_it_serves():
    scale = new_scale()
    launcher, variants = launcher_of(scale), default_session().variants(scale)
    for factor in (1.0, 2.0, 3.0):
        scale(normal(1001), factor, poisoned(1001))
    assert (len(launcher.entries), len(variants._code)) == (1, 1)
    scale(normal(1003), 1.0, poisoned(1003))
    assert (len(launcher.entries), len(variants._code)) == (2, 1)
    scale(normal(2006)[::2], 1.0, poisoned(1003))
    assert (len(launcher.entries), len(variants._code)) == (3, 2)
    scale(normal(1001).double(), 1.0, poisoned(1001))
    assert (len(variants._ir), len(variants._code)) == (2, 3)
    scale(normal(1001), 1.0, poisoned(1001), True)
    assert (len(variants._ir), len(variants._code)) == (3, 4)


def test_threads_that_meet_a_new_kernel_compile_it_once(monkeypatch):
    scale = new_scale()
    builds = []
    build = scale.build
    monkeypatch.setattr(scale, "build", lambda signature: builds.append(signature) or build(signature))
    start = threading.Barrier(6)
    results: list[bool] = []

    def caller(number):
        start.wait()
        for repeat in range(30):
            x, out = normal(500 + number % 2), poisoned(500 + number % 2)
            scale(x, float(repeat), out)
            results.append(torch.equal(out, x * repeat))

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert results == [True] * 180
    assert len(builds) == 1
    assert len(default_session().variants(scale)._code) == 1


def test_any_number_of_threads_gives_the_same_bits_by_the_same_plan():
    before, results = get_threads(), []
    x = normal(3000, 300)
    planned = vk.kernel(plan=softmax.compile(x, poisoned(3000, 300)).plan)(softmax.function)
    for threads in (1, 2, 5):
        set_threads(threads)
        out = poisoned(3000, 300)
        for _ in range(5):
            planned(x, out)
        results.append(out)
    set_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_kernels_run_in_a_forked_child():
    x, out, again = (np.full((2000, 500), fill, np.float32) for fill in (3.0, np.nan, np.nan))
    x[:, ::7] -= 1.0
    softmax(x, out)
    child = os.fork()
    if child == 0:  # where torch must not be used: its own threads are gone
        softmax(x, again)
        os._exit(0 if np.array_equal(out, again) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("x", "out", "message"),
    [
        (torch.zeros(3, 4), torch.zeros(3, 5), "argument `out`: expected size N to be 4, as in `x`, got 5"),
        (torch.zeros(3), torch.zeros(3, 5), "argument `x`: expected 2 dimensions [M, N], got 1 dimension [3]"),
        (torch.zeros(3, 5).int(), torch.zeros(3, 5), "argument `x`: expected dtype one of"),
        (torch.zeros(3, 5), torch.zeros(3, 5).tolist(), "argument `out`: expected a torch tensor or a NumPy array"),
        (torch.zeros(3, 5), torch.zeros(3, 1).expand(3, 5), "argument `out`: it is written, so expected elements at"),
        (torch.zeros(3, 5), torch.zeros(3, 5, requires_grad=True), "argument `out`: expected memory that may be"),
    ],
)
def test_mistakes_of_a_call(x, out, message):
    for _ in range(2):
        with pytest.raises(vk.ArgumentError, match=re.escape(f"softmax: {message}")):
            softmax(x, out)


def test_autograd_notices_what_is_written():
    x = normal(4, 4).requires_grad_()
    y = x * 1.0
    loss = (y * y).sum()
    softmax(normal(4, 4), y.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_every_stage_of_compiling_can_be_read():
    compiled = softmax.compile(normal(4, 1000), poisoned(4, 1000))
    assert list(compiled.stages)[:3] == ["as-written", "after-split-phases", "after-apply-plan"]
    assert "vk.kernel @softmax" in compiled.stages["as-written"]
    assert "vk.phase" in compiled.stages["after-split-phases"]
    assert "vk.launch" in compiled.stages["after-apply-plan"]


def test_a_plan_that_cannot_be_is_refused():
    with pytest.raises(vk.PlanError, match="axis z"):
        launcher_of(softmax).compile(
            (normal(4, 4), poisoned(4, 4)), {}, vk.Plan(tiles={"i": 1, "z": 4}, chunks={"j": 4})
        )


def test_interpreting_gives_the_same_in_the_callers_memory():
    for dtype in (torch.float32, torch.bfloat16):
        x, out = normal(7, 30, dtype=dtype), poisoned(7, 30, dtype=dtype)
        softmax.interpret(x, out)
        assert_softmax(out, x)
    array = np.full((7, 30), np.nan)
    softmax.interpret(normal(7, 30).double().numpy()[::-1], array[::-1])
    assert_softmax(array, normal(7, 30).double())
