"""`vk.admit` answers from profiles where there are some, else as modelled; and watches what it admitted."""

import os
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels import library
from vkernels.compiler.default_session import default_session
from vkernels.inspect import admit as admitting
from vkernels.inspect import latency
from vkernels.inspect.admit import admit
from vkernels.ir.errors import PlanError
from vkernels.runtime import observed_calls
from vkernels.runtime.dispatch import launcher_of
from vkernels.runtime.profiling import profile_of

SIZES = {"M": 64, "N": 300}
LONG = {"M": 4096, "N": 4096}


@vk.kernel
def scaled(x: Float[vk.Tensor, "M N"], factor: vk.Scalar, out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = factor * x[i, j]


@pytest.fixture(autouse=True)
def without_profiles():
    default_session().call_profiles.forget()
    yield
    default_session().call_profiles.forget()
    assert observed_calls.OBSERVERS == ()


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(admitting, "usable_cores", lambda: 2)
    before = vk.get_threads()
    vk.set_threads(2)
    yield
    vk.set_threads(before)


def asked(p99=1.0, kernel=scaled, inputs=SIZES, **options):
    return admit(kernel, inputs, p99=p99, watch=False, **options)


def know(answer_of, seconds, beside=()):
    """Store a profile as if calls had taken so long."""
    call = latency.Call.of(admitting._compilation(*answer_of, None))
    names = tuple(sorted(f"{level} {_key(*of)} {_key(*of).dtypes}" for *of, level in beside))
    default_session().call_profiles.keep([profile_of(call.key, call.plan, seconds, beside=names)])


def _key(kernel, inputs):
    return latency.Call.of(admitting._compilation(kernel, inputs, None)).key


def random_seconds(low, high):
    return list(np.random.default_rng(fresh_seed()).uniform(low, high, 200))


def test_without_profiles_the_model_answers():
    answer = asked()
    assert answer
    assert answer.p99 == latency.UNMEASURED * answer.p50 > 0
    assert "as modelled" in answer.why
    assert not asked(p99=answer.p99 / 2)
    assert not asked(p99=answer.p99)
    assert asked(p99=1.01 * admitting.MARGIN * answer.p99)


def test_a_profile_of_calls_alone_is_taken():
    seconds = random_seconds(1e-4, 2e-4)
    know((scaled, SIZES), seconds)
    answer = asked(p99=1e-3)
    assert answer.p50 == pytest.approx(np.quantile(seconds, 0.5))
    assert answer.p99 == pytest.approx(np.quantile(seconds, 0.99))
    assert "measured over 200 calls" in answer.why
    assert "refused" in asked(p99=0.99 * admitting.MARGIN * answer.p99).why
    assert "admitted" in asked(p99=1.01 * admitting.MARGIN * answer.p99).why


def test_a_profile_beside_the_same_others_is_taken_first():
    beside = [(scaled, LONG)]
    know((scaled, SIZES), random_seconds(1e-4, 2e-4))
    estimate = asked(beside=beside)
    assert not estimate.is_measured
    seconds = random_seconds(7e-3, 9e-3)
    know((scaled, SIZES), seconds, [(scaled, LONG, "low")])
    answer = asked(beside=beside)
    assert answer.is_measured
    assert answer.p99 == pytest.approx(np.quantile(seconds, 0.99))
    assert not asked(beside=[(scaled, LONG, "normal")]).is_measured


def test_work_that_gives_way_costs_helpers_a_turn_where_cores_do_not_suffice(two_cores, monkeypatch):
    """One of two threads waits for a turn; the other does its work meanwhile."""
    short = {"M": 300, "N": 4000}
    know((scaled, short), random_seconds(1e-4, 2e-4))
    know((scaled, LONG), random_seconds(5e-3, 6e-3))  # on both cores
    alone, beside = asked(inputs=LONG), asked(inputs=LONG, beside=[(scaled, short)])
    assert alone.p99 + latency.TURN / 2 <= beside.p99 < alone.p99 + 5 * latency.TURN
    assert "until a turn of theirs ends" in beside.why
    monkeypatch.setattr(admitting, "usable_cores", lambda: 8)
    assert "turn" not in asked(inputs=LONG, beside=[(scaled, short)]).why


def test_a_call_of_one_thread_waits_for_no_turn(two_cores):
    """Its thread has a core when it begins."""
    short = {"M": 300, "N": 4000}
    know((scaled, short), random_seconds(1e-4, 2e-4))
    know((scaled, SIZES), random_seconds(5e-6, 6e-6))
    assert "turn" not in asked(beside=[(scaled, short)]).why


def test_the_system_takes_cores_at_once_from_long_calls_of_low_priority(two_cores):
    know((scaled, LONG), random_seconds(5e-3, 6e-3))
    assert "turn" not in asked(inputs=LONG, beside=[(scaled, LONG)]).why


def test_a_turn_is_one_program_at_least(two_cores):
    coarse = {"M": 300, "N": 4000}
    know((scaled, coarse), random_seconds(2.8e-4, 2.9e-4))
    call = latency.Call.of(admitting._compilation(scaled, coarse, None))
    assert latency.Beside(call, "low", yields=True).turn == max(latency.TURN, call.program_seconds)
    one = replace(call, demand=replace(call.demand, programs=1))
    assert latency.Beside(one, "low", yields=True).turn == pytest.approx(one.seconds)


def test_threads_that_have_a_core_do_the_work_of_helpers_that_wait():
    """Against steps of time in which each thread with a core does the same."""
    random_ = np.random.default_rng(fresh_seed())
    for _ in range(50):
        threads, seconds, turn = int(random_.integers(1, 9)), random_.uniform(0.1, 2), random_.uniform(0, 2)
        helpers = int(random_.integers(-1, threads))
        left, now, step = threads * seconds, 0.0, 1e-3
        while left > 0:
            left -= step * (threads - max(0, helpers) if now < turn else threads)
            now += step
        assert latency.waited(seconds, threads, turn, helpers) == pytest.approx(now - seconds, abs=5e-3)


def test_work_of_normal_priority_takes_turns_on_cores(two_cores):
    know((scaled, LONG), random_seconds(5e-3, 6e-3))
    alone, beside = asked(inputs=LONG), asked(inputs=LONG, beside=[(scaled, LONG, "normal")])
    assert beside.p50 >= 2 * alone.p50
    assert beside.p99 >= 2 * alone.p99 + latency.TIME_SLICE


def test_calls_that_give_way_are_promised_little(two_cores):
    know((scaled, LONG), random_seconds(5e-3, 6e-3))
    answer = asked(inputs=LONG, beside=[(scaled, LONG, "high")], priority="normal")
    assert not answer
    assert answer.p99 > 1


def test_what_cannot_be_modelled_is_refused_unless_it_was_measured(monkeypatch):
    def none(*_):
        raise PlanError("no needs")

    monkeypatch.setattr(latency, "demand_of", none)
    answer = asked()
    assert not answer
    assert answer.p50 is None
    assert answer.p99 is None
    assert "cannot be modelled" in answer.why
    know((scaled, SIZES), random_seconds(1e-4, 2e-4))
    assert asked()
    assert not asked(beside=[(scaled, LONG)])


def test_arguments_sizes_and_functions_name_the_same_calls():
    x = torch.zeros(64, 300)
    by_sizes = asked(kernel=library.rows.softmax_rows)
    assert asked(kernel=library.rows.softmax_rows, inputs=(x, torch.empty_like(x))) == by_sizes
    assert asked(kernel=library.rows.softmax_rows, inputs={"x": x, "out": torch.empty_like(x)}) == by_sizes
    assert asked(kernel=library.softmax, inputs=(x,)) == by_sizes
    assert by_sizes.slice == f"cpu:cores={vk.get_threads()}"
    assert "float16" in str(_compilation_dtypes("float16"))


def _compilation_dtypes(dtype):
    return admitting._compilation(scaled, SIZES, dtype).request.arguments.dtypes


@pytest.mark.parametrize("p99", [0, -1e-3, float("nan"), float("inf"), "1ms", None, True])
def test_a_wrong_p99_is_refused(p99):
    with pytest.raises(vk.OptionError, match="expected seconds, a positive number"):
        admit(scaled, SIZES, p99=p99)


def test_mistakes_are_told():
    x = np.zeros((4, 4), np.float32)
    with pytest.raises(vk.OptionError, match="calls of low priority wait"):
        asked(priority="low")
    with pytest.raises(vk.OptionError, match="did you mean high"):
        asked(priority="hihg")
    with pytest.raises(vk.OptionError, match="expected high, normal or low"):
        asked(beside=[(scaled, SIZES, "urgent")])
    with pytest.raises(vk.OptionError, match="pairs of a kernel and its inputs"):
        asked(beside=[scaled])
    with pytest.raises(vk.OptionError, match="has no size"):
        asked(inputs={"M": 3, "N": 4, "K": 5})
    with pytest.raises(vk.ArgumentError, match="size N is not given"):
        asked(inputs={"M": 3})
    with pytest.raises(vk.ArgumentError, match="`out` is missing"):
        asked(inputs=(x, 2.0))
    with pytest.raises(vk.ArgumentError, match="expected a kernel or a function"):
        asked(kernel=3)
    with pytest.raises(vk.OptionError, match="calls no kernel"):
        asked(kernel=lambda: None, inputs=())

    def both():
        scaled(x, 2.0, np.empty_like(x))
        library.softmax(x)

    with pytest.raises(vk.OptionError, match=r"several kernels \(scaled, softmax_rows\)"):
        asked(kernel=both, inputs=())


def test_what_is_admitted_is_watched():
    x, out = np.ones((64, 300), np.float32), np.empty((64, 300), np.float32)
    with admit(scaled, SIZES, p99=100.0) as answer:
        assert answer
        for _ in range(250):
            with vk.priority("high"):
                scaled(x, 2.0, out)
            scaled(x, 2.0, out)  # of normal priority
        (stats,) = vk.stats().contracts
        assert 200 <= stats.calls <= 250
        assert (stats.late, stats.broken, stats.hundreds) == (0, 0, 2)
        assert stats.is_kept
        assert 0 < stats.longest < 100
        assert (stats.kernel, stats.p99, stats.priority) == ("scaled M=64 N=300", 100.0, "high")
    assert vk.stats().contracts == ()


def test_a_broken_contract_says_how_often():
    know((scaled, SIZES), [1e-12] * 200)
    x, out = np.ones((64, 300), np.float32), np.empty((64, 300), np.float32)
    with admit(scaled, SIZES, p99=1e-11, priority="normal") as answer:
        assert answer
        for _ in range(250):
            scaled(x, 2.0, out)
        (stats,) = vk.stats().contracts
    assert stats.late == stats.calls >= 200
    assert stats.broken == stats.hundreds == 2
    assert not stats.is_kept


def test_refused_calls_and_questions_are_not_watched():
    assert not admit(scaled, SIZES, p99=1e-12)
    assert asked()
    assert vk.stats().contracts == ()


def test_a_single_late_call_breaks_nothing():
    contract = vk.admit(scaled, SIZES, p99=1.0).contract
    see = contract.watch(*_code())
    with vk.priority("high"):
        for number in range(150):
            see(0.0, 2.0 if number == 7 else 0.5, True)
        assert contract.stats.is_kept
        assert contract.stats.late == 1
        assert contract.stats.broken == 0
        see(0.0, 3.0, True)
    assert not contract.stats.is_kept
    assert contract.stats.longest == 3.0
    contract.end()
    contract.end()


def _code():
    x, out = np.ones((64, 300), np.float32), np.empty((64, 300), np.float32)
    seen = []

    class Seen:
        def watch(self, compilation, record):
            seen.append((compilation, record))

    observed_calls.observe(observer := Seen())
    with vk.patient():
        scaled(x, 2.0, out)
    observed_calls.stop_observing(observer)
    return seen[-1]


def test_calls_beside_others_become_a_profile():
    beside = [(scaled, LONG)]
    answer = admit(scaled, SIZES, p99=1.0, beside=beside)
    see = answer.contract.watch(*_code())
    seconds = random_seconds(1e-3, 2e-3)
    with vk.priority("high"):
        for each in seconds:
            see(0.0, each, False)
            see(0.0, 1e-9, True)  # alone: not of the profile
    answer.end()
    later = asked(beside=beside)
    assert later.is_measured
    assert later.p50 == pytest.approx(np.quantile(seconds, 0.5))


def test_calls_of_the_others_are_noticed_and_no_more():
    sizes = ({"M": 64, "N": 300}, {"M": 70, "N": 300}, {"M": 80, "N": 300})
    given = [(np.ones((each["M"], 300), np.float32), np.empty((each["M"], 300), np.float32)) for each in sizes]
    with admit(scaled, sizes[0], p99=1.0, beside=[(scaled, sizes[1])]), vk.patient():
        for x, out in given:
            scaled(x, 2.0, out)
        watched = {
            entry.call_record.sizes["M"]
            for entry in launcher_of(scaled).entries
            if isinstance(entry.distinct, observed_calls.ObservedCalls)
        }
    assert watched == {64, 70}


def test_few_calls_beside_others_become_none():
    beside = [(scaled, LONG)]
    with admit(scaled, SIZES, p99=1.0, beside=beside) as answer:
        see = answer.contract.watch(*_code())
        with vk.priority("high"):
            for _ in range(99):
                see(0.0, 1e-3, False)
    assert not asked(beside=beside).is_measured


def test_other_threads_calls_count_by_their_own_priority():
    x, out = np.ones((64, 300), np.float32), np.empty((64, 300), np.float32)

    def call():
        with vk.priority("high"):
            for _ in range(50):
                scaled(x, 2.0, out)

    with admit(scaled, SIZES, p99=100.0):
        call()
        before = vk.stats().contracts[0].calls
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert vk.stats().contracts[0].calls == before + 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_counts_its_own_calls():
    x, out = np.ones((64, 300), np.float32), np.empty((64, 300), np.float32)
    with admit(scaled, SIZES, p99=100.0, priority="normal"), vk.patient():
        for _ in range(30):
            scaled(x, 2.0, out)
        before = vk.stats().contracts[0].calls
        assert before > 0
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            first = vk.stats().contracts[0].calls
            for _ in range(30):
                scaled(x, 2.0, out)
            os.write(writing, bytes([first, vk.stats().contracts[0].calls]))
            os._exit(0)
        os.waitpid(process, 0)
        first, last = os.read(reading, 2)
        assert (first, last >= 10, last <= 30) == (0, True, True)  # those that settle the threads are not observed
        assert vk.stats().contracts[0].calls == before
    for end in (reading, writing):
        os.close(end)


def test_an_exception_ends_the_watching():
    with pytest.raises(KeyError), admit(scaled, SIZES, p99=100.0):
        raise KeyError
    assert vk.stats().contracts == ()


def test_answers_compare_by_what_they_say():
    answer = asked()
    assert replace(answer, contract=object()) == answer
