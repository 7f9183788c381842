"""Classes of sizes: which sizes share code, for which sizes it is planned, and when calls get their own."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.arguments import example_arguments
from vkernels.compiler.protocols import Signature
from vkernels.compiler.request import CompileRequest
from vkernels.compiler.size_classes import EXACT, LEVELS_ON_CPU, LEVELS_ON_GPU, WIDE, class_at, with_sizes
from vkernels.compiler.size_history import MAX_CLASSES, MAX_EXACT, SizeHistory
from vkernels.ir.facts import Facts
from vkernels.library.rows import softmax_rows
from vkernels.runtime.bind_arguments import bind
from vkernels.runtime.present_target import present_target


@vk.kernel
def identity(x: Float[vk.Tensor, "A B C"], out: Float[vk.Tensor, "A B C"]):
    a = vk.tile("A")
    b = vk.tile("B")
    c = vk.tile("C")
    out[a, b, c] = x[a, b, c]


LEVELS = [*((level, False) for level in LEVELS_ON_CPU), *((level, True) for level in LEVELS_ON_GPU)]


@pytest.mark.parametrize(("level", "on_gpu"), LEVELS)
def test_every_size_has_one_class_that_holds_it(level, on_gpu):
    for size in (2, 3, 15, 16, 17, 64, 65, 128, 129, 1024, 1025, 4096, 4097, 1 << 20, (1 << 40) + 1):
        found = class_at(level, {"N": size}, on_gpu)
        assert found.holds({"N": size})
        assert found.least["N"] <= size <= found.most["N"]
        assert not found.holds({"N": found.most["N"] + 1})
        assert ("N" in found.wide) == (on_gpu and size % WIDE == 0)
        for sample in found.samples({"M": 3, "N": size}):
            assert sample["M"] == 3
            assert found.holds(sample), sample
        edges = {class_at(level, {"N": n}, False).key for n in (found.least["N"], size, found.most["N"])}
        assert len(edges) == 1


def samples_of(level, size, on_gpu):
    return [each["N"] for each in class_at(level, {"N": size}, on_gpu).samples({"N": size})]


def test_one_sample_of_a_cpu_is_a_power_of_two_one_is_the_first_call_and_the_others_are_odd():
    for size in (201, 3001, (1 << 20) - 1):
        *others, power, first = samples_of(LEVELS_ON_CPU[0], size, False)
        assert power & (power - 1) == 0
        assert first == size
        assert all(each % 2 for each in others)
        assert all(each % 2 for each in samples_of(LEVELS_ON_GPU[0], size, True))


def test_what_divides_the_first_call_of_a_class_divides_most_samples():
    for size, divisor in ((200, 8), (3008, 16), (1 << 20, 16)):
        small, odd, large, *_ = samples_of(LEVELS_ON_CPU[0], size, False)
        assert small % divisor == large % divisor == 0
        assert odd % 2 == 1


def test_later_calls_of_a_class_have_the_samples_of_the_first():
    history = SizeHistory(on_gpu=False, exact_shapes=1)
    _, first, later = (history.class_of({"N": size}, never) for size in (100, 300, 777))
    assert later is first
    assert {"N": 300} in later.samples({"N": 777})


@pytest.mark.parametrize("permuted", list(itertools.permutations(range(3))))
def test_other_sizes_are_laid_out_as_the_call_is(permuted):
    """A tensor with its dimensions in any order, with or without gaps."""
    for gap in (0, 3, 8):
        shape = [4, 6, 8 + gap]
        x = np.zeros(shape, np.float32)[:, :, :8].transpose(permuted)
        arguments = bind(identity, (x, x.copy()))
        larger = with_sizes(identity, arguments, {name: 2 * n for name, n in arguments.sizes.items()})
        assert np.argsort(larger.tensors["x"].strides).tolist() == np.argsort(arguments.tensors["x"].strides).tolist()
        packed = np.zeros([8, 12, 16], np.float32).transpose(permuted)
        assert (larger.tensors["x"].strides == tuple(n // 4 for n in packed.strides)) == (gap == 0)
        assert [n % WIDE == 0 for n in larger.tensors["x"].strides if n > 1] == [gap != 3] * 2


def never():
    return False


def test_the_first_shapes_are_exact_and_then_only_sizes_that_changed_have_classes():
    history = SizeHistory(on_gpu=False, exact_shapes=2)
    assert history.class_of({"M": 5, "N": 100}, never) is EXACT
    assert history.class_of({"M": 7, "N": 100}, never) is EXACT
    assert dict(history.class_of({"M": 40, "N": 100}, never).most) == {"M": 48}
    assert dict(history.class_of({"M": 41, "N": 90}, never).most) == {"M": 48, "N": 96}
    assert history.class_of({"M": 5, "N": 100}, never) is EXACT, "as before"
    assert dict(history.class_of({"M": 1, "N": 90}, never).most) == {"N": 96}, "one row takes other ways"
    assert history.class_of({"M": 0, "N": 1}, never) is EXACT


def test_shapes_with_a_plan_of_their_own_are_exact_up_to_a_number():
    history = SizeHistory(on_gpu=False, exact_shapes=1)
    found = [history.class_of({"N": n}, lambda: True) for n in range(2, 2 + 2 * MAX_EXACT)]
    assert sum(each is EXACT for each in found) == MAX_EXACT
    assert not history.make_exact({"N": 10_000})
    assert history.make_exact({"N": 2})


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("names", ["A", "AB", "ABC"])
def test_however_many_sizes_change_there_are_few_classes(on_gpu, names):
    choose, history = random.Random(3), SizeHistory(on_gpu, exact_shapes=1)
    keys = {history.class_of({name: choose.randint(2, 4096) for name in names}, never).key for _ in range(3000)}
    assert len(keys) <= (2 * MAX_CLASSES + 2 ** len(names) if len(names) > 1 else MAX_CLASSES)


def test_a_class_is_planned_once_and_its_facts_name_no_size_that_changes(compiler_session):
    signature = Signature((("x", "float32"), ("out", "float32")), (), ())
    of = class_at(LEVELS_ON_CPU[0], {"N": 300}, False)
    codes = set()
    for n in (300, 777, 1024):
        arguments = example_arguments(softmax_rows, signature, {"M": 64, "N": n})
        request = CompileRequest(softmax_rows, arguments, present_target("cpu"))
        compilation = compiler_session.compile(request).of_class(of)
        code = compilation.executable().code
        assert code.facts.sizes == {}
        assert code.facts.most("N") == 1024
        codes.add(id(code))
        exact = compiler_session.compile(request)
        assert exact.plans.cache_key != compilation.plans.cache_key
    assert len(codes) == 1
    assert compiler_session.counters.kernels["softmax_rows"].compiles == 1


def test_the_least_known_bound_counts():
    facts = Facts({"K": 3}, bounds={"N": 64, "K": 64}, capacities={"N": 16})
    assert (facts.most("N"), facts.most("K"), facts.most("M")) == (16, 3, None)
