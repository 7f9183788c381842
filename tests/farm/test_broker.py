"""What was only modelled becomes a job as soon as a machine with the device is there."""

from __future__ import annotations

from dataclasses import replace

from tests.autotune.database.making import LIMITS, SHAPE, entry
from vkernels.autotune.database import MODELLED
from vkernels.autotune.database.database import Database
from vkernels.autotune.database.entry import limits_hash
from vkernels.farm.broker import BROKER, asked_for
from vkernels.farm.head import Head
from vkernels.farm.queue import Queue
from vkernels.farm.records import Offer
from vkernels.farm.store import Store, User

from .fake_cluster import FakeCluster, good, offer, slots, submission

HERE = Offer("cpu:cores=1", "A CPU", limits_hash(LIMITS), 1, "a machine", [0])


def asked(number: int = 1, **more):
    return replace(entry(number, origin=MODELLED), kernel="softmax_rows", **more)


def test_what_nobody_measured_is_found(url):
    other = {"M": 64, "N": 1001}
    with Database.open(url) as database:
        database.add(asked(1), asked(2), replace(entry(3, shape=other, origin=MODELLED), kernel="softmax_rows"))
        assert {each.shape["N"] for each in database.unmeasured()} == {1000, 1001}
        assert len(database.unmeasured()) == 2
        database.add(entry(4))
        assert [each.shape["N"] for each in database.unmeasured()] == [1001]


def test_jobs_are_for_devices_that_are_here():
    (found,) = asked_for([asked()], slots(1, HERE), [])
    assert found.tasks[0].task == {
        "kernel": "vkernels.library.rows:softmax_rows", "shape": SHAPE, "dtypes": {"x": "float32"}, "constants": {},
    }  # fmt: skip
    assert found.slices == ["cpu:cores=1"]
    assert asked_for([asked()], slots(1, offer()), []) == []
    assert asked_for([asked()], slots(1, HERE), [found]) == []
    assert asked_for([entry(1, origin=MODELLED)], slots(1, HERE), []) == []  # no kernel of the library


def test_idle_machines_measure_what_was_modelled(tmp_path):
    with Database.open(str(tmp_path / "tuning.sqlite")) as database:
        database.add(asked())
    store, cluster = Store(tmp_path / "farm.sqlite"), FakeCluster(slots(1, HERE))
    head = Head(store, Queue(str(tmp_path / "tuning.sqlite")), cluster, clock=lambda: 0.0, has_broker=True)
    head.submit(User("ann"), submission("a", seconds=10.0))
    head.step()
    assert [job["user"] for job in head.status()["jobs"]] == ["ann", BROKER]
    cluster.answer(good())
    head.step()
    assert cluster.begun[-1].request.by == f"{BROKER}, job 2"
    store.close()
