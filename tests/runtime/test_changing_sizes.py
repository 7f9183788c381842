"""Calls whose sizes change: few compiles, the right results at any size, and exact code for shapes that run often."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.arguments import example_arguments
from vkernels.compiler.request import CompileRequest
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.tuned_plans import TunedPlan
from vkernels.ir.plan import Plan
from vkernels.library.attention import attention_rows
from vkernels.library.elements import rotate_pairs
from vkernels.library.rows import layer_norm_rows, softmax_rows
from vkernels.runtime import class_calls
from vkernels.runtime.class_calls import ClassCalls
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.present_target import present_target

EDGES = (0, 1, 2, 15, 16, 17, 97, 127, 128, 129, 1024, 1025, 4097)


@pytest.fixture
def launcher_of():
    session = CompilerSession(patience=60.0)
    yield lambda kernel: Launcher(kernel, session)
    session.close()


def compiles(launcher):
    found = launcher.session.counters.kernels.get(launcher.kernel.name)
    return 0 if found is None else found.compiles


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, float("nan"), dtype=dtype)


def check_softmax(launcher, x, out):
    launcher(x, out)
    torch.testing.assert_close(out.double(), torch.softmax(x.double(), -1), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_random_lengths_compile_a_dozen_times_at_most(launcher_of):
    softmax, seed = launcher_of(softmax_rows), random.randrange(1 << 20)
    print("seed =", seed)
    choose = random.Random(seed)
    for length in [*(choose.randint(1, 4096) for _ in range(60)), 1, 10, 20, 50, 90, 100, 200, 2000]:
        check_softmax(softmax, normal(3, length), poisoned(3, length))
    assert compiles(softmax) <= 12


@pytest.mark.slow
def test_every_edge_of_a_class_is_right(launcher_of):
    norm = launcher_of(layer_norm_rows)
    for length in (300, 301, *EDGES, *EDGES[::-1]):
        x, weight, bias, out = normal(2, length), normal(length), normal(length), poisoned(2, length)
        norm(x, weight, bias, 1e-5, out)
        if length:
            expected = torch.nn.functional.layer_norm(x.double(), [length], weight.double(), bias.double())
            torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_rows_and_columns_may_change_at_once_in_any_layout(launcher_of):
    softmax, choose = launcher_of(softmax_rows), random.Random(1)
    for _ in range(12):
        m, n, step = choose.randint(1, 40), choose.choice([1, 3, 16, 100, 1000, 2000]), choose.choice([1, 1, 1, 2])
        x = normal(m, n * step)[:, ::step] if choose.random() < 0.7 else normal(n, m).T
        check_softmax(softmax, x, poisoned(m, n + choose.choice([0, 0, 16]))[:, :n])
        same = x.clone()
        softmax(same, same)
        torch.testing.assert_close(same.double(), torch.softmax(x.double(), -1), rtol=1e-6, atol=1e-8)


@pytest.mark.thorough
def test_attention_of_changing_lengths(launcher_of):
    attention = launcher_of(attention_rows)
    for length in (5, 70, 33, 40, 90, 1, 64, 150):
        q, k, v = (normal(2, 2, length, 16) for _ in range(3))
        out = poisoned(2, 2, 1, length, 16)
        attention(q[:, :, None].transpose(3, 4), k, v, 0.25, out.transpose(3, 4))
        expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
        torch.testing.assert_close(out[:, :, 0].double(), expected, rtol=1e-5, atol=1e-6)
    assert compiles(attention) <= 12


def test_rotations_of_changing_lengths(launcher_of):
    rotate = launcher_of(rotate_pairs)
    for length in (5, 70, 33, 9, 40, 64, 1, 1000):
        x, angle = normal(1, length, 2, 2, 8), normal(length, 8)
        out = poisoned(*x.shape)
        rotate(x, angle.cos(), angle.sin(), 1.0, out)
        c, s = angle.cos()[:, None], angle.sin()[:, None]
        expected = torch.stack([x[..., 0, :] * c - x[..., 1, :] * s, x[..., 1, :] * c + x[..., 0, :] * s], -2)
        torch.testing.assert_close(out, expected)
    assert compiles(rotate) <= 12


def new_add(**options):
    @vk.kernel(**options)
    def add(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        out[i] = x[i] + 1

    return add


def class_of(launcher):
    *_, entry = launcher.entries
    return dict(entry.compilation.size_class.most)


def run_softmax(launcher, lengths):
    for length in lengths:
        check_softmax(launcher, normal(2, length), poisoned(2, length))


def test_a_shape_that_runs_for_long_gets_code_of_its_own(launcher_of, monkeypatch):
    softmax = launcher_of(softmax_rows)
    run_softmax(softmax, (100, 200, 300, 400, 500))
    entry = [*softmax.entries][-1]
    assert isinstance(entry.distinct, ClassCalls)
    assert class_of(softmax) == {"N": 1024}
    monkeypatch.setattr(class_calls, "WORTH_SECONDS", 0.0)
    run_softmax(softmax, (500,))
    deadline = time.monotonic() + 60
    while isinstance(entry.distinct, ClassCalls) and time.monotonic() < deadline:
        time.sleep(0.01)
    run_softmax(softmax, (500,))
    assert not isinstance(entry.distinct, ClassCalls)
    assert entry.distinct.plan is not None
    softmax.forget()
    run_softmax(softmax, (500,))
    assert class_of(softmax) == {}


def test_shapes_compiled_ahead_run_that_code(launcher_of):
    softmax = launcher_of(softmax_rows)
    run_softmax(softmax, (100, 200, 300, 400))
    signature = next(iter(softmax.entries)).compilation.request.arguments.signature
    arguments = example_arguments(softmax_rows, signature, {"M": 2, "N": 500})
    softmax.session.compile(CompileRequest(softmax_rows, arguments, present_target("cpu"))).executable()
    before = compiles(softmax)
    run_softmax(softmax, (500,))
    assert class_of(softmax) == {}
    assert compiles(softmax) == before
    run_softmax(softmax, (501,))
    assert class_of(softmax) == {"N": 1024}


@pytest.mark.parametrize("options", [{"plan": vk.Pin(tiles={"i": 8})}, {"budget": vk.Budget(threads=64)}])
def test_what_an_author_decided_is_for_the_sizes_of_a_call(launcher_of, options):
    add = launcher_of(new_add(**options))
    for length in range(10, 20):
        out = poisoned(length)
        add(normal(length), out)
        assert class_of(add) == {}
        torch.testing.assert_close(out, normal(length) + 1)


@pytest.mark.slow
def test_threads_share_what_is_compiled(launcher_of):
    softmax, failures = launcher_of(softmax_rows), []

    def work(seed):
        choose = random.Random(seed)
        try:
            run_softmax(softmax, [choose.randint(100, 1000) for _ in range(20)])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert compiles(softmax) <= 12


def test_numpy_arrays_have_classes_too(launcher_of):
    softmax = launcher_of(softmax_rows)
    for length in (100, 200, 300, 400, 500, 600):
        x = np.random.default_rng(length).standard_normal((2, length)).astype(np.float16)
        out = np.full_like(x, np.nan)
        softmax(x, out)
        expected = torch.softmax(torch.from_numpy(x).double(), -1)
        torch.testing.assert_close(torch.from_numpy(out).double(), expected, rtol=2e-3, atol=1e-5)
    assert compiles(softmax) <= 5


def test_a_class_too_large_for_memory_leaves_the_call_its_own_plan(launcher_of, monkeypatch):
    """The largest sizes of a class would need more swap space than there is."""

    @vk.kernel
    def turn(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        kept = vk.scratch((i, j), x.dtype)
        kept[i, j] = x[i, j]
        out[i, j] = kept[i, vk.size("N") - 1 - j]

    small = replace(present_target("cpu").limits, shared=4096, memory=100_000, multiprocessors=2)
    monkeypatch.setattr(
        "vkernels.runtime.dispatch.present_target", lambda device: replace(present_target("cpu"), limits=small)
    )
    seen, turned = [], launcher_of(turn)
    with vk.on_launch(seen.append):
        for length in (300, 500, 700, 5000, 5001):
            x, out = normal(3, length), poisoned(3, length)
            turned(x, out)
            torch.testing.assert_close(out, x.flip(1))
    assert class_of(turned) == {"N": 16384}
    assert [event.rung for event in seen][-2:] == ["memory"] * 2


class TunedFor:
    """A provider of a plan for one length of softmax."""

    def __init__(self, length, plan):
        self.length, self.plan = length, plan

    def plans(self, query):
        return [TunedPlan(self.plan, lambda: "an entry")] if query.sizes["N"] == self.length else []

    def variants(self, query):
        return ()


def test_tuned_shapes_run_their_plan(launcher_of):
    softmax = launcher_of(softmax_rows)
    plan = Plan({"i": 2}, {"j": 8}, lanes="j", order=("i",), warps=1)
    softmax.session.use_provider(TunedFor(500, plan))
    run_softmax(softmax, (100, 200, 300, 400, 501, 500))
    entries = [*softmax.entries]
    assert [bool(entry.compilation.size_class.most) for entry in entries] == [False] * 3 + [True, True, False]
    assert entries[-1].distinct.plan == plan
