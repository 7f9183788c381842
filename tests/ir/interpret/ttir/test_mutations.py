"""A barrier, mask or bound that is taken out of a library kernel's code is found when it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from vkernels.ir.errors import CheckError
from vkernels.ir.lowering.ttir import LoweredTtir
from vkernels.ir.plan import Plan

from .library import (
    COPIES,
    HELD,
    MEMORY,
    ONE_COPY,
    PRODUCT,
    RECOMPUTED,
    SHARED,
    SPLIT,
    Call,
    layer_norm,
    matmul,
    network,
    softmax,
)
from .mutations import Mutation, mutations_of


@dataclass(frozen=True)
class Case:
    """A kernel under a plan. `kinds`: of mutations that it must have.

    `redundant`: barriers, at most, without which nothing can go wrong: `insert-barriers` does not see that the chunk
    left over after a loop lies past the loop's, nor that a barrier before a loop is followed by one within it.
    """

    call: Callable[[], Call]
    plan: Plan
    kinds: str
    exact: bool = False
    redundant: int = 0


def rows(length: int) -> Callable[[], Call]:
    """Three rows, two a program; elements between rows, and numbers so small that a 0 among them would be found."""
    return lambda: softmax(3, length, padding=14, shift=-300)


def in_place(length: int) -> Call:
    return replace(rows(length)(), in_place="x")


CASES = {
    "softmax in registers": Case(rows(50), HELD, "bound full mask"),
    "softmax computed again": Case(rows(40), RECOMPUTED, "barrier bound full mask", redundant=1),
    "softmax in shared memory": Case(rows(40), SHARED, "barrier bound full mask", True, redundant=2),
    "softmax in shared memory, whole chunks": Case(rows(32), SHARED, "barrier bound full mask", True),
    "softmax in swap space": Case(rows(40), MEMORY, "barrier bound full mask", True, redundant=3),
    "softmax in swap space, whole chunks": Case(rows(32), MEMORY, "barrier bound full mask", True),
    "softmax in place": Case(lambda: in_place(40), RECOMPUTED, "barrier bound full mask", redundant=3),
    "softmax in registers, in place": Case(lambda: in_place(50), HELD, "barrier bound full mask"),
    "softmax of split rows": Case(
        lambda: softmax(2, 40, padding=12, shift=-300), SPLIT, "barrier bound mask", redundant=1
    ),
    "layer norm": Case(
        lambda: layer_norm(3, 40, padding=14), RECOMPUTED, "barrier bound full mask", redundant=1
    ),
    "matmul": Case(lambda: matmul(20, 40, 24, padding=8), PRODUCT, "bound mask"),
    "network, two copies": Case(
        lambda: network(20, 6, 2, 2), COPIES, "barrier bound full mask", redundant=5
    ),
    "network, two copies, whole chunks": Case(
        lambda: network(16, 6, 2, 2), COPIES, "barrier bound full mask", redundant=2
    ),
    "network, one copy": Case(
        lambda: network(20, 6, 2, 2), ONE_COPY, "barrier bound full mask", redundant=8
    ),
    "network, one copy, whole chunks": Case(
        lambda: network(16, 6, 2, 2), ONE_COPY, "barrier bound full mask", redundant=2
    ),
}  # fmt: skip


def is_caught(call: Call, lowered: LoweredTtir) -> bool:
    """Whether code is reported or gives something wrong, with programs that follow others or none that do."""
    try:
        return any(call.difference(call.run(lowered, resident=resident)) for resident in (3, 1))
    except CheckError:
        return True


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CASES)
def test_what_is_taken_out_is_missed(name):
    case = CASES[name]
    call = case.call()
    lowered = call.lowered(case.plan, case.exact)
    assert not is_caught(call, lowered), "it is right as it is"
    mutations = list(mutations_of(lowered))
    assert " ".join(sorted({mutation.kind for mutation in mutations})) == case.kinds
    missed = [mutation for mutation in mutations if not is_caught(call, mutation.of(lowered))]
    barriers = [mutation for mutation in missed if mutation.kind == "barrier"]
    assert len(barriers) <= case.redundant, _listed(barriers)
    others = [mutation for mutation in missed if mutation.kind != "barrier" and not mutation.is_harmless]
    assert not others, _listed(others)


def _listed(mutations: list[Mutation]) -> str:
    return "\n".join(map(str, ["nothing misses:", *mutations]))


def test_code_that_is_mutated_is_a_copy():
    call = softmax(3, 50)
    lowered = call.lowered(HELD)
    for mutation in mutations_of(lowered):
        assert str(mutation.of(lowered).launches[0].module) != str(lowered.launches[0].module)
    assert not call.difference(call.run(lowered))


def test_the_report_names_the_authors_line():
    call = softmax(3, 50, padding=14)
    lowered = call.lowered(HELD)
    store = next(m for m in mutations_of(lowered) if m.kind == "mask" and "tt.store" in m.text)
    with pytest.raises(CheckError, match=r"rows.py:\d+:\d+: error: tt.store writes 4 bytes at byte \d+ of `out`") as e:
        call.run(store.of(lowered))
    assert "out[i, j] = e / vk.sum(e, axis=j)" in str(e.value)
    assert "at element (0, 50) of the tensor" in str(e.value)
