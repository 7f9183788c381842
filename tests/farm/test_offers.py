"""Machines lend devices, and jobs ask for them, by limits; what shares a core does not run at the same time."""

from __future__ import annotations

import pytest

from tests.runtime.gpu.fakes import FakeDriver, use
from vkernels.autotune.database.entry import limits_hash
from vkernels.autotune.slice_names import slice_limits
from vkernels.farm.cluster import slots_of
from vkernels.farm.offers import asks_for, offers_here, slices_here
from vkernels.farm.queue import Queue
from vkernels.ir.errors import OptionError, SetupError
from vkernels.targets import target_named

from .fake_cluster import ALL, ONE, good, offer, submission

torch = pytest.importorskip("torch")


@pytest.fixture
def two_gpus(monkeypatch):
    use(monkeypatch, FakeDriver())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr("vkernels.farm.offers.usable", lambda: (0, 1, 2, 3))
    monkeypatch.setattr("vkernels.autotune.slice_names.usable", lambda: (0, 1, 2, 3))


@pytest.mark.usefixtures("two_gpus")
def test_equal_gpus_are_one_resource_with_the_limits_of_their_driver():
    assert slices_here() == [ONE, ALL, "nvidia:0", "nvidia:1"]
    found = offers_here(["nvidia:0", "nvidia:1"])
    assert {each.limits for each in found} == {limits_hash(slice_limits("h200-sxm-141"))}
    assert len({each.resource for each in found}) == 1
    assert {each.device for each in found} == {target_named("h200-sxm-141").name}
    assert [each.count for each in found] == [1, 1]


@pytest.mark.usefixtures("two_gpus")
def test_gpus_are_launched_on_from_cores_of_their_own():
    assert [each.cores for each in offers_here([ONE, "nvidia:0", "nvidia:1"])[1:]] == [[0], [1]]
    assert [each.cores for each in offers_here(["nvidia:0", "nvidia:1"])] == [[0, 1], [2, 3]]


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("asked", ["nvidia", "nvidia:0", "nvidia:5", "h200-sxm-141"])
def test_a_job_for_a_gpu_runs_on_any_that_is_meant(asked):
    queue = Queue("")
    there = list(slots_of({"a node": offers_here(["nvidia:0", "nvidia:1"])}))
    queue.submit("ann", submission("a", "b", slices=[asked]))
    begun = queue.next_turns(there)
    assert sorted(turn.request.slice for turn in begun) == ["nvidia:0", "nvidia:1"]
    queue.finish(begun[0].id, good())
    (again,) = queue.next_turns(there)  # on the other GPU runs what ran there
    assert again.slot.id == begun[0].slot.id


@pytest.mark.usefixtures("two_gpus")
def test_no_turn_of_the_cpu_runs_on_the_core_of_a_gpu_at_work():
    queue = Queue("")
    there = list(slots_of({"a node": offers_here([ONE, "nvidia:0"])}))
    queue.submit("ann", submission("a", slices=["nvidia"]))
    (first,) = queue.next_turns(there)
    queue.submit("ann", submission("b", "c", "d", "e", slices=[ONE]))
    begun = queue.next_turns(there)
    assert len(begun) == 3
    assert all(set(turn.slot.cores).isdisjoint(first.slot.cores) for turn in begun)


@pytest.mark.parametrize("asked", ["amd", "amd:0", "h100-sxm5-80", "nowhere-1", "h200-sxm-141:none=1", ONE, "cuda"])
def test_others_are_not_meant(asked):
    assert not asks_for(asked, offer("nvidia:0", device="H200", cores=(0,)))


def test_without_a_driver_only_the_cpu_is_lent(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr("vkernels.farm.offers.slice_limits", _absent)
    assert slices_here() == [ONE, ALL]
    with pytest.raises(SetupError, match="no driver"):
        offers_here([ONE])


def _absent(name):
    raise SetupError("no driver")


@pytest.mark.parametrize("names", [[], [ONE, ONE]])
def test_slices_are_lent_once(names):
    with pytest.raises(OptionError, match="expected different slices"):
        offers_here(names)
