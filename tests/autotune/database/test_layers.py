"""Layers of tuned plans: measured here, then the user's others, then the site's."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import vkernels as vk
from vkernels.autotune.database import Database
from vkernels.autotune.database import launches as asking
from vkernels.autotune.database.address import site_files
from vkernels.autotune.database.layers import Layer, Layered, is_from_here, layered, preferred
from vkernels.compiler.default_session import default_session
from vkernels.targets.present import cpu_name

from .making import DEVICE, elsewhere, entry
from .test_launches import another, chosen, launched, put


@pytest.fixture
def files(tmp_path: Path, monkeypatch):
    """Where the user's and the site's databases belong."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_DATA_DIRS", f"{tmp_path / 'none'}:{tmp_path / 'site'}")
    found = [tmp_path / name / "vkernels" / "tuning.sqlite" for name in ("user", "site")]
    for file in found:
        file.parent.mkdir(parents=True)
    begin_anew(monkeypatch)
    yield found
    default_session().forget_tuned_plans()


def begin_anew(monkeypatch):
    monkeypatch.setattr(asking, "_source", asking._Source())
    default_session().forget_tuned_plans()


def plans():
    """Two plans that are not the chosen one."""
    one = another(chosen())
    return one, replace(one, tiles={"i": 2})


def test_calls_prefer_the_users_plans_to_the_sites_however_fast(files, monkeypatch):
    (user, site), (of_user, of_site) = files, plans()
    put(site, of_site, seconds=0.1)
    begin_anew(monkeypatch)
    assert launched() == of_site
    put(user, of_user, seconds=3.0, final=False)
    begin_anew(monkeypatch)
    assert launched() == of_user


def test_calls_prefer_what_was_measured_here(files):
    (user, _), (here, there) = files, plans()
    put(user, there, seconds=0.1, final=True)
    put(user, here, seconds=3.0, provenance=replace(DEVICE, device=cpu_name()))
    default_session().forget_tuned_plans()
    assert launched() == here


def test_a_plan_that_was_wrong_here_is_not_taken_from_the_site(files):
    (user, site), (wrong, _) = files, plans()
    put(site, wrong)
    put(user, wrong, failure="wrong-answer", seconds=None)
    default_session().forget_tuned_plans()
    assert launched() == chosen() != wrong


def test_a_named_database_is_the_only_one(files, tmp_path):
    (_, site), (_, of_site) = files, plans()
    put(site, of_site)
    Database.open(str(tmp_path / "other.sqlite")).close()
    vk.use_database(str(tmp_path / "other.sqlite"))
    assert launched() == chosen() != of_site
    vk.use_database(None)
    assert launched() == chosen()


def test_a_damaged_layer_leaves_the_others(files, caplog, monkeypatch):
    (user, site), (of_user, of_site) = files, plans()
    user.write_bytes(b"no database" * 1000)
    put(site, of_site)
    begin_anew(monkeypatch)
    assert launched() == of_site
    assert len(caplog.records) == 1
    shutil.copy(user, site)
    user.unlink()
    put(user, of_user)
    begin_anew(monkeypatch)
    assert launched() == of_user


def test_sites_are_asked_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_DIRS", ":".join(str(tmp_path / name) for name in "abc"))
    for name in "ca":
        (tmp_path / name / "vkernels").mkdir(parents=True)
        (tmp_path / name / "vkernels" / "tuning.sqlite").touch()
    assert [file.parent.parent.name for file in site_files()] == ["a", "c"]


def test_entries_of_this_processor_or_driver_are_from_here(monkeypatch):
    assert is_from_here(elsewhere(entry(), device=cpu_name()))
    assert not is_from_here(elsewhere(entry(), device=f"{cpu_name()} X"))
    monkeypatch.setattr("vkernels.autotune.database.layers.driver_version", lambda vendor: {"nvidia": "1.2"}[vendor])
    assert is_from_here(elsewhere(entry(), architecture="sm_90", driver="1.2"))
    assert not is_from_here(elsewhere(entry(), architecture="sm_90", driver="1.3"))


def test_measured_plans_of_any_layer_come_before_modelled_ones():
    seed = random.SystemRandom().randrange(1 << 31)
    print(f"seed = {seed}")
    choose = random.Random(seed)
    given = [
        Layered(entry(number, origin=choose.choice(["measured", "modelled"])), choose.choice([*Layer]), "")
        for number in range(1, 60)
    ]
    found = preferred(given)
    ranks = [(each.entry.standing == 1, each.layer) for each in found]
    assert ranks == sorted(ranks)
    for rank in set(ranks):
        same = [each for each in given if (each.entry.standing == 1, each.layer) == rank]
        assert [each for each, its in zip(found, ranks, strict=True) if its == rank] == same
    assert {each.layer for each in layered([entry()], True, "")} == {Layer.SITE}
