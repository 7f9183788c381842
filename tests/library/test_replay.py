"""Calls of library functions that are like earlier ones are repeated without the function: with the same outcome."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels import library
from vkernels.compiler.default_session import use_session
from vkernels.compiler.session import CompilerSession
from vkernels.library.arrays import empty_like, give_back
from vkernels.library.losses import cross_entropy_backward, cross_entropy_parts
from vkernels.library.norms import layer_norm_backward
from vkernels.library.replay import refuse
from vkernels.library.rows import softmax_rows
from vkernels.library.segments import embedding_bag_backward
from vkernels.library.sparse_products_gradients import csr_matmul_backward
from vkernels.library.transposes import csr_transpose
from vkernels.runtime import class_calls
from vkernels.runtime.class_calls import ClassCalls
from vkernels.runtime.dispatch import launcher_of

from .replayed_calls import calls_of, normal


def test_a_like_call_is_right_and_does_not_run_the_function():
    softmax, ran = calls_of(library.softmax)
    for seed in range(4):
        x = normal(5, 33, seed=seed)
        torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
    assert len(ran) == 1


def test_a_models_parameters_are_tensors_like_others():
    norm, ran = calls_of(library.rms_norm)
    for seed in range(6):
        x, weight = normal(5, 33), normal(33, seed=seed)
        weight = torch.nn.Parameter(weight) if seed % 2 else weight
        with torch.no_grad():
            torch.testing.assert_close(norm(x, weight, 1e-5), torch.rms_norm(x, (33,), weight, 1e-5))
    assert len(ran) <= 2


def test_results_are_new_at_each_call():
    x = normal(4, 8)
    first = library.softmax(x)
    kept = first.clone()
    second = library.softmax(2 * x)
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, kept)


@pytest.mark.parametrize("change", ["shape", "stride", "dtype", "number", "name"])
def test_calls_of_other_kinds_are_kept_apart(change):
    x, w = normal(6, 8), normal(8, seed=1)
    library.rms_norm(x, w, 1e-5)
    other, eps, more = x, 1e-5, {}
    if change == "shape":
        other = normal(3, 8)
    elif change == "stride":
        other = normal(8, 6).t()
    elif change == "dtype":
        other, w = x.double(), w.double()
    elif change == "number":
        eps = 1.0
    else:
        more = {"out": torch.empty(6, 8)}
    for _ in range(2):
        found = library.rms_norm(other, w, eps, **more)
        expected = torch.nn.functional.rms_norm(other, (8,), w, eps)
        torch.testing.assert_close(found, expected)


def test_functions_of_several_kernels_and_arrays_are_repeated():
    backward, ran = calls_of(layer_norm_backward)
    for seed in range(3):
        x, grad, weight = normal(7, 12, seed=seed), normal(7, 12, seed=seed + 10), normal(12, seed=seed + 20)
        leaf, w, b = (each.clone().requires_grad_() for each in (x, weight, torch.zeros(12)))
        torch.nn.functional.layer_norm(leaf, (12,), w, b).backward(grad)
        for found, expected in zip(backward(grad, x, weight), (leaf.grad, w.grad, b.grad), strict=True):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert len(ran) == 1


def test_what_shares_memory_goes_the_long_way():
    softmax, ran = calls_of(library.softmax)
    out = torch.empty(4, 8)
    softmax(normal(4, 8), out)
    softmax(normal(4, 8, seed=1), out)
    assert len(ran) == 1
    x = normal(4, 8, seed=2)
    expected = torch.softmax(x, -1)
    torch.testing.assert_close(softmax(x, x), expected)
    assert len(ran) == 2


def test_views_of_one_memory_are_not_taken_for_one_another():
    for seed in range(3):
        packed = normal(1, 16, 3, 2, 8, seed=seed)
        q, k, v = (packed[:, :, n].transpose(1, 2) for n in range(3))
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        torch.testing.assert_close(library.attention(q, k, v), expected, atol=1e-5, rtol=1e-4)
    apart = [normal(1, 16, 3, 2, 8, seed=seed)[:, :, 0].transpose(1, 2) for seed in (7, 8, 9)]
    expected = torch.nn.functional.scaled_dot_product_attention(*apart)
    torch.testing.assert_close(library.attention(*apart), expected, atol=1e-5, rtol=1e-4)


def test_wrong_indices_are_found_in_a_repeated_call():
    table, start = normal(10, 4), torch.tensor([0, 2, 3])
    for index in (torch.tensor([1, 2, 9]), torch.tensor([0, 0, 0])):
        found = library.embedding_bag(table, index, start)
        torch.testing.assert_close(found, torch.stack([table[index[:2]].sum(0), table[index[2]]]))
    with pytest.raises(vk.ArgumentError, match="index holds 1 to 10, expected 0 to 9"):
        library.embedding_bag(table, torch.tensor([1, 10, 3]), start)
    with pytest.raises(vk.ArgumentError, match="start falls"):
        library.embedding_bag(table, torch.tensor([1, 2, 3]), torch.tensor([2, 1, 3]))
    with pytest.raises(vk.ArgumentError, match="start holds 0 to 4, expected 0 to 3"):
        library.embedding_bag(table, torch.tensor([1, 2, 3]), torch.tensor([0, 2, 4]))


def test_arguments_that_are_wrong_are_so_at_every_call():
    for _ in range(3):
        with pytest.raises(vk.ArgumentError):
            library.softmax(normal(4, 8), torch.empty(4, 9))


def test_tensors_that_autograd_follows_go_the_long_way():
    softmax, ran = calls_of(library.softmax)
    x = normal(4, 8).requires_grad_()
    for _ in range(2):
        softmax(x)
    assert len(ran) == 2
    with torch.no_grad():
        softmax(x)
        softmax(x)
    assert len(ran) == 3


def test_autograd_is_told_of_results_written_in_place():
    x, out = normal(4, 8), torch.empty(4, 8)
    library.softmax(x, out)
    before = out._version
    library.softmax(x, out)
    assert out._version > before


def test_a_function_of_functions_that_are_repeated_is_repeated_whole():
    def twice(x):
        return library.softmax(library.softmax(x))

    function, ran = calls_of(twice)
    for seed in range(3):
        x = normal(4, 8, seed=seed)
        torch.testing.assert_close(function(x), torch.softmax(torch.softmax(x, -1), -1))
    assert len(ran) == 1


def test_what_works_on_elements_beside_kernels_is_not_repeated():
    def doubled(x):
        out = empty_like(x, tuple(x.shape))
        softmax_rows(x * 2, out)
        return out

    function, ran = calls_of(doubled)
    for seed in range(3):
        x = normal(4, 8, seed=seed)
        torch.testing.assert_close(function(x), torch.softmax(2 * x, -1))
    assert len(ran) == 3


def test_what_cannot_be_repeated_says_so():
    def with_copy(x, out):
        rows = out.reshape(-1)
        rows[...] = 1
        refuse()
        give_back(rows, out)

    function, ran = calls_of(with_copy)
    for _ in range(3):
        function(normal(4, 8), torch.empty(8, 4).t())
    assert len(ran) == 3


def test_results_of_other_strides_are_copied_at_every_call():
    for seed in range(3):
        x, out = normal(2, 3, 8, seed=seed), torch.full((8, 3, 2), torch.nan).permute(2, 1, 0)
        torch.testing.assert_close(library.softmax(x, out), torch.softmax(x, -1))


def test_listeners_are_told_of_every_call():
    x = normal(4, 8)
    library.softmax(x)
    heard = []
    with vk.on_launch(heard.append):
        library.softmax(x)
        library.softmax(x)
    assert len(heard) == 2


def test_calls_are_counted():
    x = normal(4, 8)
    library.softmax(x)
    before = vk.stats().kernels["softmax_rows"].calls
    library.softmax(x)
    assert vk.stats().kernels["softmax_rows"].calls == before + 1


def test_a_change_of_threads_is_noticed():
    softmax, ran = calls_of(library.softmax)
    x, threads = normal(4, 8), vk.get_threads()
    try:
        softmax(x)
        vk.set_threads(1)
        torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
    finally:
        vk.set_threads(threads)
    assert len(ran) == 2


def test_several_threads_may_repeat_one_call():
    xs = [normal(64, 64, seed=seed) for seed in range(4)]
    grads, weight = [normal(64, 64, seed=seed + 9) for seed in range(4)], torch.ones(64)
    expected = [layer_norm_backward(grad, x, weight) for grad, x in zip(grads, xs, strict=True)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(100):
            found = layer_norm_backward(grads[number], xs[number], weight)
            if not all(map(torch.equal, found, expected[number])):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_empty_tensors_and_numpy_arrays_keep_working():
    for _ in range(2):
        assert library.softmax(torch.empty(0, 4)).shape == (0, 4)
        x = normal(3, 5).numpy()
        found = library.softmax(x)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, torch.softmax(torch.from_numpy(x), -1).numpy(), rtol=1e-5)


def test_numbers_equal_but_of_other_types_are_kept_apart():
    x = normal(4, 8).abs()
    by_number = library.sum(x, 1)
    assert by_number.shape == (4,)
    for _ in range(2):
        assert library.sum(x, 1, True).shape == (4, 1)
        assert library.sum(x, 1, False).shape == (4,)
        assert library.sum(x).shape == ()


def test_arguments_of_several_tensors_are_told_apart_by_each_of_them():
    backward, ran = calls_of(csr_matmul_backward)
    start, column = torch.tensor([0, 2, 2, 4]), torch.tensor([0, 1, 3, 0])
    other = torch.tensor([0, 1, 3, 4])
    for seed, starts in enumerate((start, start, other, other, start)):
        value, dense, grad = normal(4, seed=seed), normal(5, 6, seed=seed + 9), normal(3, 6, seed=seed + 20)
        turned = csr_transpose(starts, column, 5)
        rows = torch.repeat_interleave(torch.arange(3), starts.diff())
        of_value, of_dense, none = backward(grad, starts, column, value, dense, transpose=turned)
        torch.testing.assert_close(of_value, (grad[rows] * dense[column]).sum(1))
        torch.testing.assert_close(of_dense, torch.zeros(5, 6).index_add(0, column, value[:, None] * grad[rows]))
        assert none is None
    assert len(ran) == 1
    shorter = csr_transpose(start, column, 4)
    with pytest.raises(vk.Error):
        backward(grad, start, column, value, dense, transpose=shorter)
    wrong = replace(turned, order=turned.order + 1)
    with pytest.raises((vk.Error, IndexError)):
        backward(grad, start, column, value, dense, transpose=wrong)
    plain = replace(turned, row_of=None)
    for _ in range(2):
        torch.testing.assert_close(backward(grad, start, column, value, dense, transpose=plain)[1], of_dense)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradients_that_torch_computes_a_part_of_are_repeated(reduction):
    backward, ran = calls_of(cross_entropy_backward)
    for seed in range(3):
        x, target = normal(5, 9, seed=seed).requires_grad_(), torch.tensor([seed, 8, -100, 3, 1])
        grad = normal(5, seed=seed + 1) if reduction == "none" else normal(1, seed=seed + 1).reshape(())
        torch.nn.functional.cross_entropy(x, target, reduction=reduction).backward(grad)
        _, normaliser, count = cross_entropy_parts(x.detach(), target, -100, 0.0, reduction, True)
        found = backward(grad, x.detach(), target, normaliser, count, reduction=reduction)
        torch.testing.assert_close(found, x.grad)
    assert len(ran) == 1


@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_gradients_of_bags_are_repeated(kind):
    backward, ran = calls_of(embedding_bag_backward)
    index, start = torch.tensor([1, 2, 0, 2]), torch.tensor([0, 1, 3, 4])
    turned = csr_transpose(start, index, 5)
    for seed in range(3):
        table, grad = normal(5, 6, seed=seed).requires_grad_(), normal(3, 6, seed=seed + 9)
        torch.nn.functional.embedding_bag(index, table, start[:-1], mode=kind).backward(grad)
        found = backward(grad, table.detach(), index, start, kind, turned)
        torch.testing.assert_close(found, table.grad)
    assert len(ran) == 1


def test_numbers_that_change_are_given_to_each_call():
    parameter, grad = normal(6, 8), normal(6, 8, seed=1)
    mean, square = torch.zeros(6, 8), torch.zeros(6, 8)
    leaf = parameter.clone().requires_grad_()
    optimiser = torch.optim.AdamW([leaf], lr=1e-2)
    for step in range(1, 6):
        leaf.grad = grad * step
        optimiser.step()
        library.adamw(parameter, grad * step, mean, square, step, rate=1e-2)
        torch.testing.assert_close(parameter, leaf.detach())


def test_each_seed_drops_other_elements():
    x = torch.ones(64, 64)
    kept = [library.dropout(x, 0.5, seed) != 0 for seed in (1, 2, 1)]
    assert torch.equal(kept[0], kept[2])
    assert not torch.equal(kept[0], kept[1])


def test_wrong_classes_are_found_in_a_repeated_call():
    x = normal(4, 10)
    for target in (torch.tensor([0, 9, 3, -100]), torch.tensor([1, 2, 3, 4])):
        torch.testing.assert_close(library.cross_entropy(x, target), torch.nn.functional.cross_entropy(x, target))
    with pytest.raises(vk.ArgumentError, match="target holds 10"):
        library.cross_entropy(x, torch.tensor([0, 10, 3, 4]))


def test_code_of_a_class_is_repeated_until_the_sizes_have_their_own(monkeypatch):
    @vk.kernel
    def increment(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        out[i] = x[i] + 1

    def incremented(x):
        out = empty_like(x, tuple(x.shape))
        increment(x, out)
        return out

    def check(x):
        torch.testing.assert_close(repeated(x), x + 1)

    repeated, ran = calls_of(incremented)
    session = CompilerSession(patience=600.0, exact_shapes=1)
    with use_session(session):
        for length in (7, 33, 33, 33):
            check(normal(length))
        assert len(ran) == 2
        entry = [*launcher_of(increment).entries][-1]
        assert isinstance(entry.distinct, ClassCalls)
        monkeypatch.setattr(class_calls, "WORTH_SECONDS", 0.0)
        check(normal(33))
        deadline = time.monotonic() + 60
        while entry.distinct is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        check(normal(33))
        assert not isinstance(entry.distinct, ClassCalls)
        before = len(ran)
        for _ in range(3):
            check(normal(33))
        assert len(ran) == before + 1
    session.close()
