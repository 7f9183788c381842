"""A bundle as the lowest layer of plans: tuned plans win over its own, and what it lacks is compiled."""

from dataclasses import replace

import numpy as np
import pytest

import vkernels as vk
from tests.bundles import kernels
from vkernels.compiler.default_session import default_session
from vkernels.compiler.tuned_plans import TunedPlan


@pytest.fixture(scope="module")
def layered(net, secret):
    return vk.load(net, frozen=False, trust=secret)


class Provider:
    """Gives tuned plans, as a database does. `plans_of`: by a query."""

    def __init__(self, plans_of):
        self._plans_of = plans_of

    def plans(self, query):
        return [TunedPlan(plan, lambda: "a test's") for plan in self._plans_of(query)]

    def variants(self, query):
        return []


@pytest.fixture
def tuned():
    """Lets a session take tuned plans from a function of queries, for one test."""
    session, before = default_session(), default_session().tuned_plans.provider
    yield lambda plans_of: session.use_provider(Provider(plans_of))
    session.use_provider(before)


def drawn(*shape):
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def plan_of(*call):
    """The plan that a call runs by."""
    found = []
    with vk.on_launch(lambda event: found.append(event.plan)):
        kernels.softmax(*call)
    return found[-1]


def compiles():
    counted = vk.stats().kernels.get("softmax")
    return 0 if counted is None else counted.compiles


def test_calls_that_it_has_code_for_compile_nothing(layered, tuned):
    tuned(lambda query: [])
    x, out = drawn(6, 37), np.full((6, 37), np.nan, np.float32)
    before = compiles()
    with layered.active():
        kernels.softmax(x, out)
    assert compiles() == before
    frozen = np.full_like(out, np.nan)
    layered.softmax(x, frozen)
    assert out.tobytes() == frozen.tobytes()


def test_a_tuned_plan_wins(layered, tuned):
    x, out = drawn(6, 37), np.full((6, 37), np.nan, np.float32)
    tuned(lambda query: [])
    with layered.active():
        own = plan_of(x, out)
    other = replace(own, tiles={"i": 3 if own.tiles.get("i") != 3 else 2})
    tuned(lambda query: [other])
    out[:] = np.nan
    with layered.active():
        assert plan_of(x, out).tiles == other.tiles
    wide = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, wide / wide.sum(1, keepdims=True), rtol=1e-5)


def test_what_it_lacks_is_compiled(layered, tuned):
    tuned(lambda query: [])
    with layered.active():
        for x in (drawn(5, 41), np.asfortranarray(drawn(6, 37)), drawn(6, 37).astype(np.float64)):
            out = np.full_like(x, np.nan)
            kernels.softmax(x, out)
            wide = np.exp(x.astype(np.float64))
            np.testing.assert_allclose(out, wide / wide.sum(1, keepdims=True), rtol=1e-5)
        x = np.linspace(0, 1, 12)
        out = np.full_like(x, np.nan)
        doubled(x, out)
        assert (out == 2 * x).all()


@vk.kernel
def doubled(x: kernels.Float[vk.Tensor, "N"], out: kernels.Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = 2 * x[i]


def test_tensors_that_are_the_same_run_its_code_or_are_compiled(layered, tuned):
    tuned(lambda query: [])
    x = drawn(6, 37)
    wanted = x * np.float32(3)
    with layered.active():
        kernels.scale(x, 3.0, x)  # the bundle has code for this
    assert (x == wanted).all()


def test_a_fallback_is_of_frozen_bundles(net, secret):
    with pytest.raises(vk.OptionError, match="is for frozen bundles"):
        vk.load(net, frozen=False, trust=secret, fallback="plain")
