"""`vk.profile` measures calls that ran alone, stops when it has enough, and leaves other calls as they are."""

import threading

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels import library
from vkernels.compiler.default_session import default_session
from vkernels.runtime import observed_calls
from vkernels.runtime.bound_executable import BoundExecutable
from vkernels.runtime.class_calls import ClassCalls
from vkernels.runtime.dispatch import launcher_of
from vkernels.runtime.observed_calls import ObservedCalls


@vk.kernel
def doubled(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] * 2


def arrays(size):
    x = np.random.default_rng(fresh_seed()).random(size, np.float32)
    return x, np.full_like(x, np.nan)


def test_a_profile_is_of_calls_with_the_same_sizes():
    given = [arrays(1000), arrays(3000)]
    with vk.profile(calls=50) as profiling:
        for _ in range(80):
            for x, out in given:
                out[:] = np.nan
                doubled(x, out)
                np.testing.assert_array_equal(out, x * 2)
    found = {each.key.shape["N"]: each for each in profiling.profiles}
    assert sorted(found) == [1000, 3000]
    for each in found.values():
        assert (each.key.kernel, each.key.dtypes) == ("doubled", "out=float32 x=float32")
        assert each.key.slice.startswith("cpu:cores=")
        assert each.calls == 50
        assert 0 < each.shortest <= each.lower <= each.p50 <= each.upper <= each.p99 <= each.longest
        assert 0 < each.short_gap <= each.gap
        assert default_session().call_profiles.find(each.key, each.plan) == each
        assert each.key.kernel in str(each)


def test_layouts_and_constants_are_told_apart():
    x = np.random.default_rng(fresh_seed()).random((2, 1000), np.float32)
    with vk.profile(calls=20) as profiling:
        for _ in range(60):
            doubled(x[0], np.empty(1000, np.float32))
            doubled(x.T.ravel()[::2], np.empty(1000, np.float32))
    assert sorted(each.key.layouts for each in profiling.profiles) == ["", "x=2"]


def test_few_calls_have_no_profile():
    x, out = arrays(700)
    with vk.profile() as profiling:
        for _ in range(15):
            doubled(x, out)
    assert profiling.profiles == ()


def test_repeated_calls_of_the_library_are_measured():
    torch.manual_seed(fresh_seed())
    x = torch.randn(37, 53)
    for _ in range(5):
        library.softmax(x)
    with vk.profile(calls=30) as profiling:
        for _ in range(80):
            found = library.softmax(x)
    assert torch.allclose(found, x.softmax(-1), atol=1e-6)
    (profile,) = profiling.profiles
    assert (profile.key.kernel, profile.calls) == ("softmax_rows", 30)


def test_calls_run_directly_before_and_after():
    x, out = arrays(900)
    with vk.profile():
        doubled(x, out)
        assert any(isinstance(entry.distinct, ObservedCalls) for entry in launcher_of(doubled).entries)
    assert observed_calls.OBSERVERS == ()
    doubled(x, out)
    for entry in launcher_of(doubled).entries:
        assert isinstance(entry.distinct, BoundExecutable | ClassCalls)


def test_an_exception_ends_the_measuring():
    with pytest.raises(KeyError), vk.profile():
        raise KeyError
    assert observed_calls.OBSERVERS == ()


class Blocking:
    """Calls that wait until they may end."""

    is_repeatable, is_settled = True, True

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()

    def run(self, addresses, scalars):
        self.begun.set()
        assert self.may_end.wait(60)

    def launch_record(self):
        raise AssertionError


def test_calls_that_overlap_are_not_alone():
    seen, blocking = [], [Blocking() for _ in range(3)]
    first, second, third = (
        ObservedCalls(calls, [lambda start, end, is_alone, name=name: seen.append((name, is_alone))])
        for name, calls in zip("abc", blocking, strict=True)
    )
    outer = threading.Thread(target=first.run, args=((), ()))
    outer.start()
    assert blocking[0].begun.wait(60)
    blocking[1].may_end.set()
    second.run((), ())
    blocking[0].may_end.set()
    outer.join()
    blocking[2].may_end.set()
    third.run((), ())
    assert seen == [("b", False), ("a", False), ("c", True)]


def test_a_call_that_fails_is_not_measured():
    class Failing(Blocking):
        def run(self, addresses, scalars):
            raise ZeroDivisionError

    seen = []
    with pytest.raises(ZeroDivisionError):
        ObservedCalls(Failing(), [lambda *call: seen.append(call)]).run((), ())
    passing = Blocking()
    passing.may_end.set()
    ObservedCalls(passing, [lambda *call: seen.append(call)]).run((), ())
    ((_, _, is_alone),) = seen
    assert is_alone


@pytest.mark.parametrize("calls", [19, 0, -1, 20.0, True, "20"])
def test_a_wrong_number_of_calls_is_refused(calls):
    with pytest.raises(vk.OptionError, match="expected a whole number from 20"):
        vk.profile(calls)
