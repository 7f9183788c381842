"""Profiles of launches are kept for later processes, whole and in parts, and measured again where they are wrong."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import vkernels as vk
from tests.autotune.database.making import SHAPE, entry
from tests.compiler.test_code_providers import finished
from tests.library.reference import fresh_seed
from vkernels.compiler.call_profiles import CallKey, CallProfile
from vkernels.compiler.default_session import use_session
from vkernels.compiler.session import CompilerSession
from vkernels.library.rows import softmax_rows
from vkernels.runtime.coordinator import gap_filling
from vkernels.runtime.coordinator.filling_calls import Waiting
from vkernels.runtime.coordinator.gap_filling import GapFilling
from vkernels.runtime.coordinator.launch_profile import JUDGED, SAMPLES, TELLING, LaunchProfile
from vkernels.runtime.gpu import calls_by_priority
from vkernels.runtime.gpu.kept_profiles import keep, recall

from .fakes import OnGpu, use
from .test_calls import with_plan
from .test_calls_by_priority import PERSISTENT, TimedOnly

PLAN = entry(1).plan
KEY = CallKey("rows", "a" * 64, SHAPE, "x=float32", "", "h200-sxm-141", "NVIDIA H200", "b" * 64)


class Store:
    """A database that all sessions share."""

    def __init__(self) -> None:
        self.kept: dict[str, CallProfile] = {}

    def profiles(self, key: CallKey) -> list[CallProfile]:
        return [each for each in self.kept.values() if each.key == key]

    def keep(self, profiles: Sequence[CallProfile]) -> None:
        self.kept |= {each.identity: each for each in profiles}


@pytest.fixture
def store() -> Store:
    return Store()


def new_session(store: Store) -> CompilerSession:
    session = CompilerSession(patience=600.0)
    session.profile_store = store
    return session


def measured() -> tuple[LaunchProfile, list[float], list[float]]:
    chance = random.Random(fresh_seed())
    durations, gaps = ([chance.uniform(1e-3, 2e-3) for _ in range(SAMPLES)] for _ in range(2))
    profile = LaunchProfile()
    for duration, gap in zip(durations, gaps, strict=True):
        profile.note_duration(duration)
        profile.note_gap(gap)
    return profile, durations, gaps


def test_a_later_process_predicts_as_the_one_that_measured(store: Store) -> None:
    bound = SimpleNamespace(plan=PLAN, call_key=lambda: KEY)
    before, durations, _ = measured()
    with use_session(new_session(store)):
        keep(bound, before, 3)
        finished()
    (kept,) = store.kept.values()
    assert (kept.calls, kept.parts, kept.gaps) == (SAMPLES, 3, tuple(before.gaps))
    assert kept.p50 == pytest.approx(np.median(durations))
    with use_session(new_session(store)):
        later, whole = LaunchProfile(), LaunchProfile()
        recall(bound, later, 3)
        recall(bound, whole, 1)
        finished()
    assert later.is_frozen
    assert later.kept == later.samples
    assert later.seconds == pytest.approx(before.seconds, rel=0.1)
    assert all(later.gap_after(each) == before.gap_after(each) for each in (0.0, 1.2e-3, 1.9e-3, 3e-3))
    assert whole == LaunchProfile(), "a call is not one of its parts"


def test_what_was_measured_here_stays(store: Store) -> None:
    profile, durations, gaps = measured()
    profile.recall([1.0] * SAMPLES, [1.0] * SAMPLES)
    assert (profile.durations, profile.gaps) == (durations, sorted(gaps))


def test_gaps_that_are_shorter_than_predicted_are_measured_again() -> None:
    chance = random.Random(fresh_seed())
    profile, _, gaps = measured()
    for _ in range(500):
        profile.judge_gap(chance.choice(gaps))
    assert sorted(gaps) == profile.gaps, "they are as predicted"
    profile.kept = profile.samples
    for _ in range(JUDGED):
        assert profile.is_frozen or profile.gaps == []
        profile.judge_gap(0.1 * min(gaps))
    assert profile.gaps == []
    assert profile.seconds is not None, "durations do not change"
    assert profile.samples > profile.kept, "nobody is told the wrong gaps any more"
    for _ in range(SAMPLES):
        profile.note_gap(1e-4)
    assert profile.is_frozen


def test_gaps_between_calls_that_follow_each_other_are_not_judged() -> None:
    profile = LaunchProfile([1e-3] * SAMPLES, [TELLING / 2] * SAMPLES)
    for _ in range(10 * JUDGED):
        profile.judge_gap(0.0)
    assert profile.is_frozen


@pytest.fixture
def fillings(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, GapFilling]]:
    found: dict[int, GapFilling] = {}
    monkeypatch.setattr(gap_filling, "FILLINGS", found)
    monkeypatch.setattr(calls_by_priority, "_own", calls_by_priority._Own())
    monkeypatch.setattr(gap_filling, "in_use", True)
    yield found
    finished()


def part_by_part(filling: GapFilling) -> None:
    def one(call: Waiting, now: float) -> int:
        filling._look(now)
        return 1

    filling._units_for = one  # type: ignore[method-assign]


def test_calls_of_all_priorities_are_kept_and_known_to_a_later_process(
    monkeypatch: pytest.MonkeyPatch, fillings: dict[int, GapFilling], store: Store
) -> None:
    pair = OnGpu(torch.zeros(5, 40)), OnGpu(torch.zeros(5, 40))
    driver = TimedOnly()
    use(monkeypatch, driver)
    with use_session(new_session(store)):
        launcher = with_plan(softmax_rows, PERSISTENT)
        launcher(*pair)
        part_by_part(fillings.setdefault(0, GapFilling()))
        with vk.priority("low"):
            for _ in range(SAMPLES):
                launcher(*pair)
        fillings[0]._look(time.perf_counter())  # as the next call of low priority does: nothing is out
        with vk.priority("high"):
            for _ in range(3 * SAMPLES):
                launcher(*pair)
                time.sleep(1e-3)
        finished()
    by_parts = {each.parts: each for each in store.kept.values()}
    assert sorted(by_parts) == [1, 3], "the rows of two programs at once"
    assert {each.key.device for each in by_parts.values()} == {driver.target(0).name}
    assert (len(by_parts[1].gaps), len(by_parts[3].gaps)) == (SAMPLES, 0)
    calls_by_priority._bounds.clear()
    fillings.clear()
    with use_session(new_session(store)):
        launcher = with_plan(softmax_rows, PERSISTENT)
        with vk.priority("low"):
            launcher(*pair)
            finished()
        (known,) = calls_by_priority._bounds.values()
    assert known.profiles[3].samples == SAMPLES, "known after one call of three parts"
