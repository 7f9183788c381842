"""Placements chosen are the best there are: compared with all of them."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkernels.ir.errors import ArgumentError, MemoryPlanError
from vkernels.memory.calibration import AccessCosts, AccessRates, Managed
from vkernels.memory.placement.choose import choose, seconds_of
from vkernels.memory.placement.costs import BufferPlacement, costs_of
from vkernels.memory.placement.program import Buffer, BufferUse, HostCode, PlacedLaunch, PlacedProgram, Side

from .drawn import MIB, accesses, programs

FAST, LINK = 1e12, 1e10
DISCRETE = AccessCosts(
    False,
    LINK,
    LINK,
    1e-5,
    AccessRates(FAST, FAST, FAST, FAST),
    AccessRates(LINK / 2, LINK / 2, LINK / 5, LINK / 5),
    False,
    1e10,
    1e10,
    4e-6,
    Managed(1e-5, 64 << 10, LINK, LINK, LINK, 1e-5, 0.0),
)
INTEGRATED = AccessCosts(
    True,
    LINK,
    LINK,
    1e-5,
    AccessRates(1e11, 1e11, 1e11, 1e11),
    AccessRates(1e11, 1e11, 4e10, 4e10),
    False,
    1e10,
    1e9,
    4e-6,
    Managed(2e-6, 64 << 10, None, None, None, 0.0, 0.0),
)


def every(program, access, limit):
    """Rank and placements of all that fit, by the same count of seconds as the decision's."""
    for costs in itertools.product(*(costs_of(buffer, program, access) for buffer in program.buffers)):
        footprint = sum(cost.footprint for cost in costs)
        if limit is None or footprint <= limit:
            yield round(seconds_of(program, costs) * 1e12), footprint, [cost.placement for cost in costs]


@settings(max_examples=40, deadline=None)
@given(program=programs(), access=accesses(), part=st.one_of(st.none(), st.floats(0, 1.1)))
def test_no_placement_that_fits_is_faster_or_as_fast_in_fewer_bytes(program, access, part):
    limit = None if part is None else int(part * 2 * sum(each.size for each in program.buffers))
    fitting = list(every(program, access, limit))
    if not fitting:
        with pytest.raises(MemoryPlanError) as error:
            choose(program, access, limit)
        assert error.value.least == min(footprint for _, footprint, _ in every(program, access, None))
        return
    decision = choose(program, access, limit)
    assert (round(decision.seconds * 1e12), decision.footprint) == min(fitting, key=lambda each: each[:2])[:2]
    assert (round(decision.seconds * 1e12), decision.footprint, [c.placement for c in decision.choices]) in fitting


@settings(max_examples=20, deadline=None)
@given(program=programs(), access=accesses())
def test_alternatives_are_the_program_with_one_buffer_placed_otherwise(program, access):
    decision = choose(program, access)
    for number, choice in enumerate(decision.choices):
        assert choice.cost in [each.cost for each in choice.alternatives]
        for each in choice.alternatives:
            costs = [other.cost for other in decision.choices]
            costs[number] = each.cost
            assert each.seconds == seconds_of(program, costs)
            assert round(each.seconds * 1e12) >= round(decision.seconds * 1e12)


@settings(max_examples=40, deadline=None)
@given(program=programs(), access=accesses(), parts=st.tuples(st.floats(0.3, 1), st.floats(0.3, 1)))
def test_more_room_never_makes_it_slower(program, access, parts):
    whole = 2 * sum(each.size for each in program.buffers)
    found = []
    for part in sorted(parts):
        try:
            found.append(choose(program, access, int(part * whole)).seconds)
        except MemoryPlanError:
            found.append(float("inf"))
    assert found[0] >= found[1] - 1e-12


def test_eighteen_buffers_of_a_chain_are_chosen_under_a_limit():
    buffers = tuple(Buffer(f"b{n}", (n + 1) * MIB, Side.HOST if n % 3 else None, wanted=n % 3 == 0) for n in range(18))
    steps = tuple(
        PlacedLaunch(
            f"l{n}",
            tuple(
                BufferUse(each.name, each.size, 0, each.size * (1 + n % 5), 0) if each.starts else
                BufferUse(each.name, 0, each.size, 0, each.size, fresh=True)
                for each in buffers[n : n + 6]
            ),
            {"operations": 1e-4 * n},
        )
        for n in range(0, 18, 3)
    )  # fmt: skip
    program = PlacedProgram(buffers, steps)
    whole = sum(each.size for each in buffers)
    free, tight = choose(program, DISCRETE), choose(program, DISCRETE, whole // 3)
    assert tight.footprint <= whole // 3 < free.footprint
    assert free.seconds < tight.seconds


def streamed(size, again=1, scattered=False):
    """A tensor from the host that one launch reads; a result."""
    uses = (BufferUse("x", size, 0, size * again, 0, scattered), BufferUse("out", 0, size, 0, size, fresh=True))
    buffers = (Buffer("x", size), Buffer("out", size, None, wanted=True))
    return PlacedProgram(buffers, (PlacedLaunch("kernel", uses, {"operations": 1e-6}, 4e-6),))


def test_what_is_touched_once_is_reached_in_place_where_memory_is_one():
    decision = choose(streamed(64 * MIB), INTEGRATED)
    assert [each.placement for each in decision.choices] == [BufferPlacement.ZERO_COPY, BufferPlacement.ZERO_COPY]
    assert decision.footprint == 128 * MIB
    assert decision.copying_footprint == 256 * MIB
    assert decision.gain > 2


def test_what_is_read_again_and_again_is_not_reached_without_caches():
    assert choose(streamed(64 * MIB, again=100), INTEGRATED).of("x").placement is BufferPlacement.MANAGED
    assert choose(streamed(64 * MIB, again=100), DISCRETE).of("x").placement is BufferPlacement.COPY
    assert choose(streamed(64 * MIB, again=100, scattered=True), DISCRETE, 64 * MIB).of("out").placement is (
        BufferPlacement.ZERO_COPY
    )


def test_a_few_bytes_are_reached_over_the_link_rather_than_copied():
    assert choose(streamed(512), DISCRETE).of("x").placement is BufferPlacement.ZERO_COPY


def test_code_of_the_host_between_launches_has_a_copy_go_back_and_forth():
    size = 8 * MIB
    use = BufferUse("x", size, size, size, size)
    program = PlacedProgram(
        (Buffer("x", size, Side.HOST, wanted=True),),
        (PlacedLaunch("a", (use,)), HostCode("between", (use,)), PlacedLaunch("b", (use,))),
    )
    copy, mapped, managed = costs_of(program.buffers[0], program, DISCRETE)
    assert copy.moving == pytest.approx(4 * (1e-5 + size / LINK))
    assert mapped.moving == 0
    assert managed.moving == pytest.approx(4 * (1e-5 + size / LINK))
    assert managed.prefetched
    assert copy.host == pytest.approx(2 * size / 1e10)
    assert costs_of(program.buffers[0], program, INTEGRATED)[1].host == pytest.approx(2 * size / 1e9)


def test_what_only_launches_touch_is_never_copied():
    size = MIB
    steps = (
        PlacedLaunch("a", (BufferUse("t", 0, size, 0, size, fresh=True),)),
        PlacedLaunch("b", (BufferUse("t", size, 0, size, 0),)),
    )
    copy, *_ = costs_of(Buffer("t", size, None), PlacedProgram((Buffer("t", size, None),), steps), INTEGRATED)
    assert (copy.moving, copy.footprint, copy.why) == (0, size, "never copied")


def test_too_few_bytes_name_the_largest_buffer_and_what_would_do():
    with pytest.raises(MemoryPlanError, match=r"x alone takes 67108864 .* 134217728 at least") as error:
        choose(streamed(64 * MIB), INTEGRATED, 1000)
    assert error.value.least == 128 * MIB
    assert choose(streamed(64 * MIB), INTEGRATED, 128 * MIB).footprint == 128 * MIB


@pytest.mark.parametrize(
    ("buffers", "uses", "message"),
    [
        ((Buffer("x", 1), Buffer("x", 1)), (), "2 buffers 'x'"),
        ((Buffer("x", -1),), (), "-1 bytes"),
        ((Buffer("x", 1),), (BufferUse("y", 1),), "'y', which is no buffer"),
        ((Buffer("x", 1),), (BufferUse("x", -1),), "below 0"),
        ((Buffer("x", 1),), (BufferUse("x", float("nan")),), "below 0"),
        ((Buffer("x", 1, None),), (BufferUse("x", 1),), "nobody has written"),
        ((Buffer("x", 1),), (BufferUse("x", 1), BufferUse("x", 1)), "twice"),
    ],
)
def test_programs_that_contradict_themselves_are_refused(buffers, uses, message):
    with pytest.raises(ArgumentError, match=message):
        PlacedProgram(buffers, (PlacedLaunch("k", uses),))
