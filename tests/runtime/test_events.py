"""Whoever listens is told of every call, counters are exact, and nobody else notices."""

import logging
import os
import threading
import time

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.plans import stated_rung
from vkernels.runtime import events
from vkernels.runtime.dispatch import launcher_of

CALLS = 500


@pytest.fixture
def add(request):
    """A kernel of its own, by a name that no other test has."""

    def body(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        out[i] = x[i] + 1.0

    body.__name__ = f"add_{abs(hash(request.node.nodeid))}"
    return vk.kernel(body)


def arrays(size=100):
    x = np.arange(float(size), dtype=np.float32)
    return x, np.full_like(x, np.nan)


def test_a_launch_is_told_with_all_that_is_known_of_it(add):
    x, out = arrays()
    seen = []
    before = time.perf_counter()
    with vk.on_launch(seen.append):
        add(x, out)
        add(x, out)
    after = time.perf_counter()
    first, second = seen
    assert (first.kernel, first.device, first.stream, first.launches) == (add.name, "cpu", 0, 1)
    assert first.slice.startswith("cpu:cores=")
    assert first.plan == add.compile(x, out).plan
    assert (first.cache_hit, second.cache_hit) == (False, True)
    assert before <= first.start <= first.end <= second.start <= second.end <= after
    assert first.seconds == first.end - first.start
    assert first.rung == "registers"
    assert first.called == second.called
    assert first.called.file == add.function.__code__.co_filename
    assert dict(first.called.sizes) == {"N": 100}
    assert dict(first.called.dtypes) == {"x": "float32", "out": "float32"}
    assert dict(first.called.constants) == {}
    np.testing.assert_array_equal(out, x + 1)


def test_nothing_is_told_after_the_end(add):
    x, out = arrays()
    seen, others = [], []
    remove = vk.on_launch(seen.append)
    with vk.on_launch(others.append):
        add(x, out)
        remove()
        remove()
        add(x, out)
    add(x, out)
    assert (len(seen), len(others)) == (1, 2)
    assert events.LISTENERS == ()


def test_a_new_shape_a_new_dtype_and_a_forgotten_call_are_no_hits(add):
    x, out = arrays()
    seen = []
    add(x, out)
    with vk.on_launch(seen.append):
        add(x, out)
        add(*arrays(77))
        add(x.astype(np.float64), out.astype(np.float64))
        launcher_of(add).forget()
        add(x, out)
        add(x, out)
    assert [event.cache_hit for event in seen] == [True, False, False, False, True]


def test_tensors_that_share_memory_are_told_too(add):
    x, _ = arrays()
    seen = []
    with vk.on_launch(seen.append):
        add(x, x)
        add(x, x)
    assert [event.cache_hit for event in seen] == [False, True]


def test_swap_space_and_rung_are_said():
    @vk.kernel(plan=vk.Plan({"i": 1}, {"j": 64}, {"e": vk.Home.MEMORY}, lanes="j"))
    def keeps(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.whole("N")
        e = vk.exp(x[i, j])
        out[i, j] = e / vk.sum(e, axis=j)

    x = np.zeros((3, 1000), np.float32)
    seen = []
    with vk.on_launch(seen.append):
        keeps(x, np.empty_like(x))
    (event,) = seen
    assert event.rung == "memory"
    assert event.swap_bytes >= 1000 * 4


@pytest.mark.parametrize(
    ("plan", "rung"),
    [
        (vk.Plan(), "registers"),
        (vk.Plan(homes={"a": vk.Home.SHARED, "b": vk.Home.REGISTERS}), "shared"),
        (vk.Plan(homes={"a": vk.Home.SHARED, "b": vk.Home.RECOMPUTE}), "recompute"),
        (vk.Plan(homes={"a": vk.Home.MEMORY, "b": vk.Home.RECOMPUTE}), "memory"),
        (vk.Plan(homes={"a": vk.Home.MEMORY}, splits={"j": 4}), "launches"),
        (vk.Plan(homes={"a": vk.Home.SHARED}, splits={"j": 1}), "shared"),  # one program shares nothing
    ],
)
def test_the_last_rung_that_a_plan_names_is_told(plan, rung):
    assert stated_rung(plan) == rung


def test_a_callback_that_fails_harms_nobody_and_is_said_once(add, caplog):
    x, out = arrays()
    seen = []

    def fail(event):
        raise RuntimeError("mine")

    with caplog.at_level(logging.ERROR), vk.on_launch(fail), vk.on_launch(seen.append):
        add(x, out)
        add(x, out)
    assert len(seen) == 2
    assert [record.message for record in caplog.records if "mine" in record.exc_text] == [
        "a callback of vk.on_launch failed; it will be called again, but this is said once"
    ]


def test_kernels_that_a_callback_calls_are_not_told(add):
    x, out = arrays()
    seen = []

    def again(event):
        seen.append(event)
        add(x, out)

    with vk.on_launch(again):
        add(x, out)
        add(x, out)
    assert len(seen) == 2


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="expects a function, got 'print'"):
        vk.on_launch("print")


def test_a_call_that_fails_is_neither_told_nor_counted(add):
    x, out = arrays()
    seen = []
    with vk.on_launch(seen.append), pytest.raises(vk.ArgumentError):
        add(x, np.zeros_like(out, dtype=np.int32))
    assert seen == []
    assert add.name not in vk.stats().kernels


def test_counters_add_up(add):
    x, out = arrays()
    for _ in range(5):
        add(x, out)
    add(*arrays(77))
    found = vk.stats().kernels[add.name]
    assert (found.calls, found.misses, found.hits) == (6, 2, 4)
    assert found.compiles >= 1
    assert found.compile_seconds > 0
    whole = vk.stats()
    assert whole.calls >= 6
    assert whole.calls == sum(kernel.calls for kernel in whole.kernels.values())
    assert whole.compile_seconds >= found.compile_seconds


def test_stats_do_not_change_afterwards(add):
    x, out = arrays()
    add(x, out)
    before = vk.stats()
    add(x, out)
    assert vk.stats().kernels[add.name].calls == before.kernels[add.name].calls + 1


def test_threads_count_and_tell_exactly(add):
    seen = []
    together = threading.Barrier(4)

    def work(size):
        x, out = arrays(size)
        together.wait()
        for _ in range(CALLS):
            add(x, out)

    with vk.on_launch(seen.append):
        threads = [threading.Thread(target=work, args=(size,)) for size in (50, 60, 70, 80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 4 * CALLS
    assert vk.stats().kernels[add.name].calls == 4 * CALLS
    assert sum(not event.cache_hit for event in seen) == vk.stats().kernels[add.name].misses == 4


def test_listeners_come_and_go_while_others_call(add):
    x, out = arrays()
    add(x, out)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            add(x, out)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(200):
            seen = []
            with vk.on_launch(seen.append):
                add(x, out)
            assert seen
    finally:
        stop.set()
        thread.join()
    assert events.LISTENERS == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_counters_work_in_a_child_whose_parent_held_the_lock():
    with events._lock:
        child = os.fork()
        if child == 0:
            vk.stats()
            os._exit(0)
    for _ in range(100):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.1)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")
