"""Slices of known devices: what vendors' documents say they have, what stays, and what is refused."""

from contextlib import suppress
from dataclasses import asdict, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.ir.errors import OptionError
from vkernels.targets import CpuSizes, PeakRates, Target, known_targets, limits_of, target_named
from vkernels.targets.slices import slice_of, split_names, target_or_slice

CPU = Target(
    key="cpu", name="Some CPU", vendor="cpu", architecture="x86_64", multiprocessors=8, memory=64 << 30,
    level_2=8 << 20, cache=32 << 20, sizes=CpuSizes(1 << 20, 32, 64),
    rates=PeakRates(3000, 100, 1.5, cache_gb_s=400, shared_gb_s=1600, multiprocessor_gb_s=20),
)  # fmt: skip
DEVICES = {**known_targets(), "cpu": CPU}


def test_a_mig_instance_has_what_a_driver_said_of_a_real_one():
    """The XLA dump of an H100's smallest instance: 16 multiprocessors, 6553600 bytes of L2."""
    found = slice_of(target_named("h100-sxm5-80"), "1g.10gb")
    assert (found.key, found.like) == ("h100-sxm5-80:1g.10gb", "h100-sxm5-80")
    assert (found.multiprocessors, found.level_2, found.cache) == (16, 6553600, 6553600)
    assert found.memory == 10468982784
    assert limits_of(found).memory_bandwidth == pytest.approx(3352.3e9 / 8)
    assert found.rates.peer_gb_s is None
    assert found.unverified == ()


def test_memory_and_multiprocessors_of_an_instance_go_their_own_ways():
    h100 = target_named("h100-sxm5-80")
    small, wide = slice_of(h100, "1g.10gb"), slice_of(h100, "1g.20gb")
    assert (small.multiprocessors, wide.multiprocessors) == (16, 26)
    assert wide.rates.memory_gb_s == 2 * small.rates.memory_gb_s
    assert wide.level_2 == small.level_2


@pytest.mark.parametrize(
    ("device", "profile", "least", "most"),
    [("b200-sxm-180", "2g.45gb", 36, 42), ("rtx-pro-6000-ws", "1g.24gb", 42, 47)],
)
def test_what_nobody_wrote_down_is_the_least_that_it_may_be_and_says_so(device, profile, least, most):
    found = slice_of(target_named(device), profile)
    assert least <= found.multiprocessors <= most
    assert "multiprocessors" in found.unverified


ALL = [(key, profile.name) for key, target in known_targets().items() for profile in target.slices]


@pytest.mark.parametrize(("key", "profile"), ALL)
def test_every_profile_of_the_table_is_part_of_its_device(key, profile):
    whole, part = target_named(key), slice_of(target_named(key), profile)
    assert part.sizes == whole.sizes
    assert part.key == f"{key}:{profile.lower()}"
    (row,) = (row for row in whole.slices if row.name == profile)
    for field in ("multiprocessors", "memory", "level_2", "cache"):
        assert 0 < getattr(part, field) <= getattr(whole, field)
    assert part.multiprocessors * row.most <= whole.multiprocessors
    assert _rates_within(limits_of(part), limits_of(whole))


def test_a_partition_is_whole_chiplets():
    mi300x = target_named("mi300x")
    found = slice_of(mi300x, "cpx")
    assert (found.key, found.chiplets, found.multiprocessors) == ("mi300x:cpx/nps1", 1, 38)
    assert found.level_2 == 4 << 20
    assert found.memory == mi300x.memory
    assert slice_of(mi300x, "CPX/NPS4").memory == 48 << 30
    assert limits_of(slice_of(mi300x, "cpx/nps4")).memory_bandwidth == pytest.approx(5.3e12 / 8)


@pytest.mark.parametrize(("percent", "expected"), [("100", 108), ("50", 54), ("0.5", 2), ("49.1", 54), ("1", 2)])
def test_mps_rounds_up_to_pairs_and_shares_all_memory(percent, expected):
    whole = target_named("a100-sxm4-40")
    found = slice_of(whole, f"mps={percent}")
    assert found.multiprocessors == expected
    assert (found.memory, found.level_2, found.sizes) == (whole.memory, whole.level_2, whole.sizes)
    assert found.rates.float32_tflops == pytest.approx(19.5 * expected / 108)
    assert found.rates.memory_gb_s == whole.rates.memory_gb_s


def test_few_multiprocessors_cannot_draw_all_of_the_bandwidth():
    h100 = target_named("h100-sxm5-80")
    assert limits_of(slice_of(h100, "sms=16")).memory_bandwidth == pytest.approx(16 * 64 * 1.98e9)
    assert limits_of(slice_of(h100, "sms=128")).memory_bandwidth == limits_of(h100).memory_bandwidth


def test_green_contexts_follow_their_rule():
    assert slice_of(target_named("h100-sxm5-80"), "sms=16").multiprocessors == 16
    assert slice_of(target_named("a100-sxm4-40"), "sms=6").multiprocessors == 6
    with pytest.raises(OptionError, match=r"at least 8 multiprocessors, a multiple of 8.*nearest is sms=24"):
        slice_of(target_named("h100-sxm5-80"), "sms=23")


def test_compute_units_of_rdna_come_in_pairs():
    assert slice_of(target_named("rx7900xtx"), "cus=10").multiprocessors == 5
    assert slice_of(target_named("mi300x"), "cus=37").multiprocessors == 37
    with pytest.raises(OptionError, match="96 compute units in pairs, not 11"):
        slice_of(target_named("rx7900xtx"), "cus=11")


def test_cores_keep_their_level_2_and_share_the_rest():
    found = slice_of(CPU, "cores=2")
    limits = limits_of(found)
    assert (limits.multiprocessors, limits.shared, limits.registers) == (2, 1 << 20, 32)
    assert (found.level_2, limits.cache) == (2 << 20, 8 << 20)
    assert limits.multiply_adds["float32"] == pytest.approx(1.5e12 / 2 / 4)
    assert limits.memory_bandwidth == pytest.approx(2 * 20e9)
    assert limits_of(slice_of(CPU, "cores=7")).memory_bandwidth == pytest.approx(100e9)


def test_a_core_may_have_less_than_it_has():
    limits = limits_of(slice_of(CPU, "l2=524288,registers=16,l3=1048576"))
    assert (limits.shared, limits.registers, limits.cache, limits.multiprocessors) == (524288, 16, 1 << 20, 8)
    assert limits.multiply_adds == limits_of(CPU).multiply_adds


def test_options_apply_to_what_is_left():
    assert slice_of(target_named("h100-sxm5-80"), "3g.40gb,mps=50").multiprocessors == 30
    twice = slice_of(CPU, "cores=4,l3=1000000")
    assert (twice.multiprocessors, twice.cache) == (4, 1000000)
    with pytest.raises(OptionError, match="has 16777216 bytes of L3"):
        slice_of(CPU, "cores=4,l3=20000000")


def test_the_whole_device_is_a_slice_too():
    for key, text in {"a100-sxm4-40": "mps=100", "mi300x": "spx", "cpu": "cores=8"}.items():
        assert limits_of(slice_of(DEVICES[key], text)) == limits_of(DEVICES[key])


REFUSED = {
    "h100-sxm5-80:1g.11gb": "there is no slice 1g.11gb; did you mean 1g.10gb?",
    "h100-sxm5-80:": "expected a slice: 1g.10gb",
    "h100-sxm5-80:mp=50": "did you mean mps?",
    "h100-sxm5-80:mps": "there is no slice mps; did you mean mps=…?",
    "h100-sxm5-80:mps=0": "expected a percentage above 0, up to 100",
    "h100-sxm5-80:mps=101": "expected a percentage",
    "h100-sxm5-80:mps=1e1": "expected a percentage",
    "h100-sxm5-80:mps=-5": "expected a percentage",
    "h100-sxm5-80:mps=nan": "expected a percentage",
    "h100-sxm5-80:mps=٣": "expected a percentage",
    "h100-sxm5-80:mps=50,1g.10gb": "1g.10gb must come first",
    "h100-sxm5-80:1g.10gb,2g.20gb": "2g.20gb must come first, and alone",
    "h100-sxm5-80:mps=50,sms=8": "choose one",
    "h100-sxm5-80:mps=50,mps=50": "given twice",
    "h100-sxm5-80:mps=50,": "must come first",
    "h100-sxm5-80:sms=8.5": "expected a whole number",
    "h100-sxm5-80:1g.10gb,sms=24": "at most the 16 that there are",
    "h100-sxm5-80:cus=8": "there is no cus to cut h100-sxm5-80 by",
    "mi300x:1g.10gb": "there is no slice 1g.10gb",
    "mi300x:cus=305": "304 compute units, not 305",
    "t4:1g.5gb": "there is no slice 1g.5gb; there are mps=…, sms=…",
    "t4:\x1b[2J": "there is no slice",
    "t4:" + "9" * 10_000: "expected a slice",
    "cpu:cores=9": "has 8 cores, not 9",
    "cpu:l2=1048577": "has 1048576 bytes of L2, not 1048577",
    "cpu:registers=0": "expected a whole number of vector registers",
    "h100": "there is no target 'h100'; did you mean h100-sxm5-80 or h100-pcie-80?",
    "h100-sxm5:1g.10gb": "there is no target 'h100-sxm5'; did you mean h100-sxm5-80?",
    "": "there is no target ''",
    "nvidia:3": "there is no target 'nvidia:3'",
    "amd:0:cpx": "there is no target 'amd:0'",
}


@pytest.mark.parametrize("name", REFUSED, ids=lambda name: repr(name[:30]))
def test_a_mistake_is_one_clear_message(name):
    with pytest.raises(OptionError) as error:
        target_or_slice(name, DEVICES)
    assert REFUSED[name] in str(error.value)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 800


@given(text=st.text(max_size=30), key=st.sampled_from([*DEVICES]))
def test_no_text_does_anything_but_cut_or_refuse(text, key):
    with suppress(OptionError):
        assert target_or_slice(f"{key}:{text}", DEVICES).multiprocessors <= DEVICES[key].multiprocessors


@given(percents=st.lists(st.integers(1, 100), min_size=2, max_size=2), key=st.sampled_from([*known_targets()]))
def test_more_of_a_device_is_never_less(percents, key):
    target = known_targets()[key]
    option = {"nvidia": "mps", "amd": "cus"}[target.vendor]
    pair = 2 if target.architecture.startswith("gfx1") else 1
    most = 100 if option == "mps" else target.multiprocessors
    less, more = (slice_of(target, f"{option}={max(1, p * most // 100) * pair}") if option == "cus" else
                  slice_of(target, f"{option}={p}") for p in sorted(percents))  # fmt: skip
    assert less.multiprocessors <= more.multiprocessors
    assert _rates_within(limits_of(less), limits_of(more))


def test_slices_go_by_the_name_that_they_are_given():
    for name in ("h100-sxm5-80:1g.10gb", "a100-sxm4-40:mps=12.5", "cpu:l2=65536,registers=8", "mi300x:qpx/nps4"):
        found = target_or_slice(name, DEVICES)
        assert found.key == name
        assert target_or_slice(found.key, DEVICES) == found


def test_devices_of_this_machine_can_be_cut():
    here = {"nvidia:0": replace(target_named("t4"), key="nvidia:0")}
    assert target_or_slice("nvidia:0:mps=50", here).multiprocessors == 20


def test_a_list_of_names_keeps_slices_whole():
    assert split_names("h100-sxm5-80:1g.10gb,mps=50, t4 ,cpu:l2=5,registers=3") == [
        "h100-sxm5-80:1g.10gb,mps=50", "t4", "cpu:l2=5,registers=3",
    ]  # fmt: skip
    assert split_names("t4,mps=50") == ["t4", "mps=50"]


def _rates_within(part, whole):
    """Whether no rate of one is above the other's; but for rounding."""
    slack = 1 + 1e-9
    for name, rate in asdict(part).items():
        other = getattr(whole, name)
        if isinstance(rate, float) and not rate <= other * slack:
            return False
        if isinstance(rate, dict) and "float32" in rate and any(v > other[k] * slack for k, v in rate.items()):
            return False
    return Fraction(part.multiprocessors, whole.multiprocessors) <= 1
