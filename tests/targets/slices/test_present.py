"""What this process was given: a MIG instance inside a container, a share under MPS."""

import re

import pytest

from vkernels.ir.errors import FileError
from vkernels.targets import limits_of, load_targets, target_named
from vkernels.targets.present import gpu_target
from vkernels.targets.slices import present_slice, present_slices, slice_of, target_or_slice
from vkernels.targets.slices.present import MPS

from ..test_present import H100, MIG


@pytest.fixture(autouse=True)
def no_server(monkeypatch):
    monkeypatch.delenv(MPS, raising=False)


def present(said):
    return present_slice(gpu_target("nvidia", "nvidia:0", said))


def test_a_mig_instance_is_known_by_its_name_and_sizes():
    found = present({**MIG, "memory": 10468982784, "memory_clock_khz": 0})
    expected = slice_of(target_named("h100-sxm5-80"), "1g.10gb")
    assert (found.key, found.like) == ("nvidia:0", "h100-sxm5-80:1g.10gb")
    assert found.rates == expected.rates
    assert limits_of(found).memory_bandwidth == pytest.approx(3352.3e9 / 8)
    assert found.multiprocessors == 16


def test_an_instance_of_other_sizes_is_not_taken_for_it():
    odd = {**MIG, "multiprocessors": 24}
    assert present(odd) == gpu_target("nvidia", "nvidia:0", odd)


@pytest.mark.parametrize("percent", ["50", "12.5", " 25 "])
def test_a_client_of_mps_has_the_rates_of_its_share(monkeypatch, percent):
    monkeypatch.setenv(MPS, percent)
    part = slice_of(target_named("h100-sxm5-80"), f"mps={percent.strip()}")
    found = present({**H100, "multiprocessors": part.multiprocessors})
    assert found.like == part.key
    assert found.rates == part.rates


@pytest.mark.parametrize("percent", ["", "100", "0", "-3", "a lot", "1e2", "9" * 5000])
def test_no_share_is_no_slice(monkeypatch, percent):
    monkeypatch.setenv(MPS, percent)
    assert present(H100) == gpu_target("nvidia", "nvidia:0", H100)


def test_without_a_server_the_percentage_means_nothing(monkeypatch):
    monkeypatch.setenv(MPS, "50")
    assert present(H100).multiprocessors == 132
    assert present(H100).like == "h100-sxm5-80"


def test_the_cpu_is_always_there():
    assert present_slices()[-1].key == "cpu"


def test_ones_own_target_may_start_from_a_slice(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[mine]\nlike = "h100-sxm5-80:1g.10gb"\nmultiprocessors = 14\n[core]\nlike = "cpu:cores=1,l2=65536"'
    )
    mine, core = load_targets(path).values()
    assert (mine.key, mine.multiprocessors, mine.level_2) == ("mine", 14, 6553600)
    assert (core.vendor, core.multiprocessors, limits_of(core).shared) == ("cpu", 1, 65536)


def test_ones_own_targets_have_slices_of_their_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[mine]\nlike = "t4"\n[[mine.slices]]\nname = "half"\nkind = "mig"\nmost = 2\nmemory_share = "1/2"')
    found = target_or_slice("mine:half", load_targets(path))
    assert (found.multiprocessors, found.level_2) == (20, 2 << 20)
    assert "multiprocessors" in found.unverified


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ('like = "h100-sxm5-80:1g.1gb"', "mine: like: h100-sxm5-80:1g.1gb: there is no slice 1g.1gb; did you mean"),
        ('like = "cpu:cores=1"\n[mine.sizes]\nwarp = 32', "mine: sizes.warp: expected 1 on a CPU"),
        ('vendor = "cpu"\nsizes = { block_shared = 1, thread_registers = 8, register_bytes = 16 }', "is missing"),
    ],
)
def test_a_mistake_in_a_slice_of_ones_own_is_named(tmp_path, fields, words):
    path = tmp_path / "mine.toml"
    path.write_text(f"[mine]\n{fields}")
    with pytest.raises(FileError, match=re.escape(words)):
        load_targets(path)
