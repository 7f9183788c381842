"""What is remembered, what replaces what, and which entry is the best."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from itertools import permutations

import pytest

from vkernels.autotune.database import MODELLED, Database, EntryFilter
from vkernels.autotune.database.entry import shape_class, size_class
from vkernels.autotune.database.entry_json import document_of, entries_of
from vkernels.ir.errors import FileError

from .making import DEVICE, LIMITS, SHAPE, elsewhere, entry, key


@pytest.fixture
def database(url):
    with Database.open(url) as found:
        yield found


def test_entries_come_back_as_they_were(database):
    given = (
        entry(1), entry(2, failure="time-out", text="after 60 s\nand more"),
        entry(3, constants={"block": 32, "on": True}), entry(4, origin=MODELLED),
        entry(5, final=True), entry(6, kernel="b"),
    )  # fmt: skip
    database.add(*given)
    assert sorted(database.entries(), key=lambda each: each.identity) == sorted(given, key=lambda each: each.identity)
    assert database.entries(EntryFilter(kernel="kernel_b")) == given[-1:]
    assert {each.plan.tiles["i"] for each in database.entries(EntryFilter(key=key(), shape=SHAPE))} == {1, 2, 3, 4, 5}


def test_what_a_failure_says_may_be_anything(database):
    database.add(entry(1, failure="crash", text="\x1b[2J\0 signal 11\r\n" + "x" * 10_000))
    (found,) = database.entries()
    assert found.text.isprintable() or "\n" in found.text
    assert "signal 11" in found.text
    assert "\x1b" not in found.text


def test_the_best_is_what_a_run_settled_on_then_the_least_time_then_what_is_modelled(database):
    database.add(entry(1, 0.5), entry(2, 0.7), entry(3, 0.1, origin=MODELLED), entry(4, failure="crash"))
    assert [each.plan.tiles["i"] for each in database.candidates(key(), SHAPE)] == [1, 2, 3]
    database.add(entry(2, 0.7, final=True))
    assert database.best(key(), SHAPE).plan.tiles["i"] == 2


def test_an_interval_counts_by_its_upper_end(database):
    database.add(entry(1, 1.0, low=0.1, high=2.0), entry(2, 1.1, low=1.0, high=1.2))
    assert database.best(key(), SHAPE).plan.tiles["i"] == 2


def test_the_very_shape_comes_before_others_of_its_class_and_the_nearest_of_those_first(database):
    near, far = {"M": 64, "N": 1001}, {"M": 64, "N": 1019}
    assert shape_class(near) == shape_class(far) == shape_class(SHAPE)
    database.add(entry(1, 0.1, far, final=True), entry(2, 0.1, near, final=True), entry(3, 0.9))
    assert [each.plan.tiles["i"] for each in database.candidates(key(), SHAPE)] == [3, 2, 1]


def test_slices_with_like_rates_come_before_others(database):
    fast = replace(LIMITS, memory_bandwidth=3 * LIMITS.memory_bandwidth)
    assert key(limits=fast) == key()
    database.add(entry(1, 0.2, limits=fast), entry(2, 0.9))
    assert database.best(key(), SHAPE, LIMITS).plan.tiles["i"] == 2
    assert database.best(key(), SHAPE, fast).plan.tiles["i"] == 1


@pytest.mark.parametrize(
    "other", [key(limits=replace(LIMITS, shared=1 << 18)), key(kernel="b"), replace(key(), compilers="triton=1")]
)
def test_another_key_has_none_of_it(database, other):
    database.add(entry(1))
    assert database.best(other, SHAPE) is None


@pytest.mark.parametrize("where", [{"device": "another"}, {"driver": "2.0"}, {"architecture": "arm64"}])
def test_another_environment_is_never_overwritten(database, where):
    database.add(entry(1, 1.0))
    database.add(elsewhere(entry(1, 2.0), **where))
    assert sorted(each.seconds for each in database.entries()) == [1.0, 2.0]


def test_the_same_environment_is_and_a_run_or_a_day_makes_no_other(database):
    database.add(entry(1, 1.0))
    database.add(elsewhere(entry(1, 2.0), run="another"))
    (found,) = database.entries()
    assert found.seconds == 2.0


def test_of_one_identity_the_higher_standing_stays_in_whatever_order_they_come(url):
    ladder = [
        entry(1, failure="time-out"), entry(1, 3.0, origin=MODELLED), entry(1, 2.0), entry(1, 1.0, final=True),
        entry(1, failure="wrong-answer"),
    ]  # fmt: skip
    with Database.open(url) as database:
        for number, order in enumerate(permutations(range(len(ladder)), 2)):
            shape = {"M": 64, "N": 2000 + number}
            given = [entry(1, shape=shape, failure=each.failure) if each.failure else
                     entry(1, each.seconds, shape, origin=each.origin, final=each.final)
                     for each in (ladder[at] for at in order)]  # fmt: skip
            for each in given:
                database.add(each)
            (found,) = database.entries(EntryFilter(key=key(shape), shape=shape))
            assert found == given[order.index(max(order))]


def test_adding_what_is_new_leaves_the_rest_as_it_was(database):
    database.add(entry(1, 1.0))
    assert database.add_new([entry(1, 9.0), entry(2), entry(2)]) == (1, 1)
    assert [each.seconds for each in database.entries()] == [1.0, 1.0]


def test_export_and_import_go_round(database, tmp_path):
    database.add(entry(1), entry(2, failure="crash"), entry(3, final=True))
    with Database.open(str(tmp_path / "other.sqlite")) as other:
        assert other.add_new(entries_of(document_of(database.entries()))) == (3, 0)
        assert other.add_new(entries_of(document_of(database.entries()))) == (0, 3)
        assert {each.identity for each in other.entries()} == {each.identity for each in database.entries()}


def test_prune_takes_what_its_flags_name_and_nothing_else(url):
    stale = replace(entry(9), key=replace(key(), compilers="triton=1"))
    given = [entry(1, 1.0), entry(2, 2.0), entry(3, 3.0, origin=MODELLED), entry(4, failure="crash"), stale]
    cases = {
        "stale": {9}, "failures": {4}, "beaten": {2},
    }  # fmt: skip
    with Database.open(url) as database:
        for flag, doomed in cases.items():
            database.prune()
            database.add(*given)
            assert database.prune(**{flag: True}, dry=True) == len(doomed)
            assert len(database.entries()) == len(given)
            assert database.prune(**{flag: True}) == len(doomed)
            assert {each.plan.tiles["i"] for each in database.entries()} == {1, 2, 3, 4, 9} - doomed
        assert database.prune(EntryFilter(kernel="another")) == 0
        assert database.prune(EntryFilter(before=DEVICE.when)) == 0
        assert database.prune(EntryFilter(before=DEVICE.when + 1)) == len(database.entries()) + 4


def test_a_file_is_its_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with Database.open() as database:
        database.add(entry(1))
    file = tmp_path / "data" / "vkernels" / "tuning.sqlite"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(file.parent).st_mode) == 0o700


def test_reading_makes_no_file(tmp_path):
    with pytest.raises(FileError, match="no database"):
        Database.open(str(tmp_path / "none.sqlite"), read_only=True)
    assert not [*tmp_path.iterdir()]


def test_sizes_of_a_class_differ_by_a_quarter_at_most():
    classes: dict[str, list[int]] = {}
    for size in range(1, 5000):
        classes.setdefault(size_class(size), []).append(size)
    assert all(max(sizes) < 1.25 * min(sizes) for sizes in classes.values() if min(sizes) > 8)
    assert all(len({size % 16 == 0 for size in sizes}) == 1 for sizes in classes.values() if min(sizes) > 8)
    assert all(len(sizes) == 1 for sizes in classes.values() if min(sizes) <= 8)


def of_farm(given):
    return replace(given, provenance=replace(given.provenance, by="vk farm: ann, job 1"))


def test_a_farm_never_replaces_what_a_users_own_run_settled_on(database):
    own = entry(1, 1.0, final=True)
    database.add(own, of_farm(entry(2, 0.5)))
    database.add(of_farm(entry(1, 0.3, final=True)), of_farm(entry(2, 0.4, final=True)), of_farm(entry(3, 0.2)))
    assert own in database.entries()
    assert [each.plan.tiles["i"] for each in database.candidates(key(), SHAPE)] == [1, 2, 3]
    database.add(of_farm(entry(2, 0.3, final=True)), entry(1, 0.9, final=True))
    assert [each.seconds for each in database.candidates(key(), SHAPE)] == [0.9, 0.3, 0.2]


def test_a_users_own_run_replaces_what_a_farm_settled_on(database):
    database.add(of_farm(entry(1, 0.5, final=True, text='"by": "vk farm')))
    database.add(own := entry(1, 1.0, final=True, text='"by": "vk farm'))
    database.add(of_farm(entry(1, 0.5, final=True)))
    assert database.entries() == (own,)


def test_what_cannot_be_written_is_given_back(database, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Database, "add", lambda *_: (_ for _ in ()).throw(FileError("away")))
        database.keep(entry(1))
        database.keep(entry(2))
        assert database.take_unwritten() == [entry(1), entry(2)]
    assert database.take_unwritten() == []
    assert database.entries() == ()
