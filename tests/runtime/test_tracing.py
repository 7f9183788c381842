"""Traces of kernel calls, what torch's profiler shows, and the functions that `perf` finds."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler import timeline
from vkernels.ir.errors import SetupError
from vkernels.library import softmax
from vkernels.runtime import perf_map as mapping
from vkernels.runtime.gaps import Filled
from vkernels.runtime.objects.elf import read_object
from vkernels.runtime.perf_map import PerfMap, functions_of
from vkernels.runtime.tracing import Trace, TracedSpan, tracing


def fresh():
    """A kernel that was never called, so that its first call builds, plans and compiles."""

    @vk.kernel
    def scale(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
        i = vk.tile("M")
        j = vk.tile("N")
        out[i, j] = 2 * x[i, j]

    return scale


def called(kernel, shape=(37, 53)):
    x = np.random.default_rng(3).normal(size=shape)
    out = np.full_like(x, np.nan)
    kernel(x, out)
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.compile
def test_a_first_call_holds_its_parts_and_later_ones_only_run():
    kernel = fresh()
    shape = 43, 59  # of no other test, so that the plan is new
    with tracing() as trace:
        called(kernel, shape)
        called(kernel, shape)
    first, second = [span for span in trace.spans if span.kind == "call"]
    assert (first.about["cached"], second.about["cached"]) == (False, True)
    line = kernel.function.__code__.co_firstlineno
    assert first.about["source"] == f"{__file__}:{line}"
    assert first.about["sizes"] == {"M": 43, "N": 59}
    parts = {span.kind: span for span in trace.spans if span.kind in ("build", "plan", "compile")}
    assert set(parts) == {"build", "plan", "compile"}
    for part in parts.values():
        assert first.start <= part.start <= part.end <= first.end
        assert part.about["source"] == first.about["source"]
    for run, call in zip([span for span in trace.spans if span.kind == "run"], (first, second), strict=True):
        assert call.start < run.start < run.end == call.end
        assert run.thread == call.thread
    assert parts["compile"].end <= first.end
    assert (first.about["priority"], first.about["gap"]) == ("normal", None)
    assert second.about["gap"] == second.start - first.end
    (gap,) = [span for span in trace.spans if span.kind == "gap"]
    assert (gap.start, gap.end, gap.thread) == (first.end, second.start, first.thread)
    assert gap.about == {"priority": "normal", "filled": 0.0}


def test_gaps_tell_how_long_work_of_lower_priority_filled_them():
    trace = Trace()
    trace.spans = [
        TracedSpan("call", "one", 1, 0.0, 1.0, {"priority": "low"}),
        TracedSpan("call", "other", 2, 0.5, 3.0, {"priority": "low"}),
        TracedSpan("call", "third", 3, 3.5, 4.0, {"priority": "normal"}),
        TracedSpan("gap", "gap", 4, 0.25, 5.0, {"priority": "high"}),
        TracedSpan("gap", "gap", 5, 2.5, 6.0, {"priority": "normal"}),
        TracedSpan("gap", "gap", 6, 0.0, 1.0, {"priority": "low"}),
    ]
    trace.fill_gaps()
    assert [span.about["filled"] for span in trace.spans[3:]] == [3.25, 0.5, 0.0]


def test_what_intervals_cover_together_is_counted_once():
    chance = random.Random(seed := random.randrange(1 << 32))
    print(f"seed {seed}")
    points = [sorted(chance.sample(range(100), 2)) for _ in range(12)]
    filled = Filled.of([(float(begin), float(end)) for begin, end in points])
    covered = {unit for begin, end in points for unit in range(begin, end)}
    for _ in range(100):
        begin, end = sorted(chance.choices(range(-5, 105), k=2))
        assert filled.seconds(begin, end) == len(covered & set(range(begin, end)))
    assert Filled.of([]).seconds(0.0, 9.0) == 0.0


@pytest.mark.compile
def test_each_thread_has_a_track_even_if_its_number_is_used_again():
    kernel = fresh()
    with tracing() as trace:
        for number in range(3):
            thread = threading.Thread(target=called, args=(kernel,), name=f"worker {number}")
            thread.start()
            thread.join()
    calls = [span for span in trace.spans if span.kind == "call"]
    assert [trace.threads[span.thread] for span in calls] == ["worker 0", "worker 1", "worker 2"]
    assert len({span.thread for span in calls}) == 3


@pytest.mark.compile
def test_the_file_is_in_the_trace_event_format(tmp_path):
    with tracing() as trace:
        called(fresh())
        softmax(np.random.default_rng(5).normal(size=(5, 70)))
    trace.write(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kinds = Counter(event["ph"] for event in found)
    assert set(kinds) == {"M", "X"}
    named = {event["tid"] for event in found if event["ph"] == "M"}
    spans = [event for event in found if event["ph"] == "X"]
    assert {event["name"] for event in spans} >= {"scale", "softmax_rows", "build", "compile", "run"}
    for event in spans:
        assert event["tid"] in named
        assert event["pid"] == os.getpid()
        assert min(event["ts"], event["dur"]) >= 0
    assert all(one["ts"] <= other["ts"] for one, other in pairwise(spans))


@pytest.mark.compile
def test_nothing_is_traced_after_the_block():
    kernel = fresh()
    with tracing() as trace:
        called(kernel)
    count = len(trace.spans)
    called(kernel)
    called(fresh())
    assert len(trace.spans) == count
    assert timeline.LISTENERS == ()


@pytest.mark.compile
def test_a_listener_that_fails_hinders_no_call(caplog):
    class Failing:
        def ended(self, span):
            raise ValueError("ended")

        def loaded(self, code):
            raise ValueError("loaded")

    with timeline.listening(Failing()):
        called(fresh())
    assert "a listener of the timeline failed" in caplog.text


@pytest.mark.compile
def test_torchs_profiler_shows_raw_kernels_while_it_is_active():
    kernel = fresh()
    called(kernel)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        called(kernel)
        called(kernel)
        softmax(torch.randn(5, 70))
        softmax(torch.randn(5, 70))
        softmax(torch.randn(5, 70))
    counts = {event.key: event.count for event in profile.key_averages()}
    assert counts["scale"] == 2
    assert counts["softmax_rows"] == 3
    called(kernel)  # which no profiler sees any more
    assert {event.key: event.count for event in profile.key_averages()}["scale"] == 2


@pytest.mark.compile
def test_perf_finds_the_functions_of_code_where_they_are():
    found = []

    class Loads:
        def ended(self, span):
            pass

        def loaded(self, code):
            found.append(code)

    kernel = fresh()
    with timeline.listening(Loads()):
        called(kernel)
    place = f" {os.path.basename(__file__)}:{kernel.function.__code__.co_firstlineno}"
    for code in found:
        functions = {name: (start, size) for start, size, name in functions_of(code)}
        for name, address in code.addresses.items():
            start, size = functions[name + place]
            assert start == address
            assert size > 0
        sections = [section for section in read_object(code.object).sections.values() if section.is_code]
        assert sum(size for _, size in functions.values()) <= sum(section.size for section in sections)
        for (start, size), (after, _) in pairwise(sorted(functions.values())):
            assert start + size <= after
    assert any("scale_launch_0" + place in {name for *_, name in functions_of(code)} for code in found)


@pytest.mark.compile
def test_the_map_has_a_line_for_each_function_and_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(mapping, "perf_map_file", lambda process: tmp_path / f"perf-{process}.map")
    with mapping.perf_map() as file:
        called(fresh())
    lines = [line.split(" ", 2) for line in file.read_text().splitlines()]
    assert any(name.startswith("scale_launch_0 ") for _, _, name in lines)
    assert all(int(start, 16) > 0 and int(size, 16) > 0 for start, size, _ in lines)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_map_is_never_written_through_a_link(tmp_path):
    (tmp_path / "other").write_text("kept")
    (tmp_path / "perf-1.map").symlink_to(tmp_path / "other")
    with pytest.raises(SetupError):
        PerfMap(tmp_path / "perf-1.map")
    assert (tmp_path / "other").read_text() == "kept"
