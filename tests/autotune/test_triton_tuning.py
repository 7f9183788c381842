"""Tuning of plain Triton kernels, with bounds and times that are known."""

from __future__ import annotations

from threading import Event

import numpy as np
import pytest

import vkernels as vk
from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Effort
from vkernels.autotune.measure.timing import Sample
from vkernels.autotune.result import MEASURED
from vkernels.autotune.triton_bounds import BoundTools, StaticBounds, TritonTask, compile_seconds, lowered_text
from vkernels.autotune.triton_configs import Ahead, TritonConfig, around, block_names, grid_from, grid_of, listed
from vkernels.autotune.triton_online import MeasuredLaunch, launch_inputs
from vkernels.autotune.triton_tuning import by_target, tune_triton, with_usual
from vkernels.compiler.workers.jobs import CompileFailure, CompileFailureReason
from vkernels.inspect.cases import JitSignature, KernelSource
from vkernels.inspect.worker_client import InspectPool
from vkernels.inspect.worker_service import answer_to
from vkernels.targets import target_named

GIVEN = TritonConfig({"BLOCK_M": 64, "HEAD": 64}, 4, 3)
GRID = grid_from("cdiv(M, BLOCK_M), 2 * HEADS")
TASK = TritonTask(KernelSource("k", file="k.py"), JitSignature(()), {"M": 1000, "HEADS": 3}, GRID)


def test_block_sizes_warps_and_stages_are_varied_around_the_given_ones():
    assert block_names(GIVEN, None) == ["BLOCK_M"]
    assert block_names(GIVEN, grid_from("cdiv(N, HEAD)")) == ["BLOCK_M", "HEAD"]
    space = around(GIVEN, ["BLOCK_M"])
    assert space.configs[space.given] == GIVEN
    assert {config.constants["BLOCK_M"] for config in space.configs.values()} == {16, 32, 64, 128, 256}
    assert {config.constants["HEAD"] for config in space.configs.values()} == {64}
    assert {config.warps for config in space.configs.values()} == {1, 2, 4, 8, 16}
    for odd in (48, True, "64", None, 8):
        with pytest.raises(vk.OptionError, match="power of two"):
            around(TritonConfig({"B": odd}), ["B"])


def test_a_grid_is_an_expression_of_constants_and_sizes():
    assert TASK.programs(GIVEN) == (16, 6)
    assert grid_of(grid_from("7"), {}) == (7,)
    for text, known in [
        ("M", {}),
        ("M - 3", {"M": 3}),
        ("(1, 1, 1, 1)", {}),
        ("M / 2", {"M": 4}),
        ("1 // M", {"M": 0}),
    ]:
        with pytest.raises(vk.OptionError, match="--grid"):
            grid_of(grid_from(text), known)
    for text in ("lambda meta: 1", "cdiv(M, BLOCK", "open('x')", ""):
        with pytest.raises(vk.OptionError, match="--grid"):
            grid_from(text)


def test_the_winner_is_a_triton_config(tmp_path):
    space = around(GIVEN, ["BLOCK_M"])

    def bounds(configs):
        for config in configs:
            block = int(config.constants["BLOCK_M"])
            yield "needs too much shared memory" if block > 128 else 1e-3 / block / config.warps + 1e-6 * config.stages

    told, begun = [], []
    ahead = Ahead(begun.extend, lambda: 3, rolling=True)
    found = [
        tune_triton(TASK, name, space, bounds, Stop(evaluations=125), ahead=ahead, on_trial=told.append)
        for name in ("h100", "h100:1g.10gb")
    ]
    assert found[0].best.config == TritonConfig({"BLOCK_M": 128, "HEAD": 64}, 16, 1)
    assert found[0].gain == found[0].given.seconds / found[0].best.seconds
    assert found[0].gain > 1
    assert found[0].stopped in ("space", "evaluations")
    assert {trial.reason for trial in found[0].trials if trial.seconds is None} == {"needs too much shared memory"}
    assert [trial.config for trial in told[:125]] == [trial.config for trial in found[0].trials]
    assert [trial.config for trial in told] == begun
    names: dict = {}
    exec(by_target(found), names)
    config = names["CONFIGS"]["h100:1g.10gb"]
    assert (config.kwargs, config.num_warps, config.num_stages) == ({"BLOCK_M": 128, "HEAD": 64}, 16, 1)
    assert found[0].to_json()["best"]["config"] == {
        "kwargs": {"BLOCK_M": 128, "HEAD": 64}, "num_warps": 16, "num_stages": 1,
    }  # fmt: skip


def test_the_given_configuration_stays_unless_another_is_surely_faster():
    configs = [TritonConfig({"B": size}) for size in (64, 128, 32)]
    times = {64: 1.0, 128: 0.995, 32: "does not compile: no"}
    found = tune_triton(TASK, "x", listed(configs), lambda some: iter([times[c.constants["B"]] for c in some]), Stop())
    assert found.best == found.given
    assert found.stopped == "space"
    times[64] = "does not compile: no"
    found = tune_triton(TASK, "x", listed(configs), lambda some: iter([times[c.constants["B"]] for c in some]), Stop())
    assert found.best.config == configs[1]
    assert found.gain is None


def test_an_interrupt_keeps_what_was_found():
    def seconds(configs):
        if configs[0].constants["B"] == 32:
            raise KeyboardInterrupt
        yield 1.0

    configs = [TritonConfig({"B": size}) for size in (64, 128, 32, 16)]
    found = tune_triton(TASK, "x", listed(configs), seconds, Stop())
    assert (found.stopped, len(found.trials), found.best.config) == ("interrupted", 2, configs[0])


def test_finalists_are_compared_in_turns():
    configs = [TritonConfig({"B": 16 << n}) for n in range(9)]
    once = {config: 1.0 - 0.05 * n for n, config in enumerate(configs)}
    again = {config: 1.0 + 0.05 * n for n, config in enumerate(configs)}
    asked = []

    def compare(some):
        asked.extend(some)
        return [again[config] for config in some]

    found = tune_triton(TASK, "x", listed(configs), lambda some: iter(map(once.get, some)), Stop(), compare=compare)
    assert set(asked) == {configs[0], *configs[3:]}
    assert found.best == found.given
    assert all(trial.seconds >= 1 for trial in found.trials)


# On a GPU: what Triton and the clock do is faked


class Clock:
    """Each call takes as long as it has blocks."""

    def __init__(self):
        self.time, self.last = 0.0, None

    def now(self):
        self.time += 0.01
        return self.time

    def sample(self, calls):
        for call in calls:
            call()
        return Sample(1e-3 * len(calls) / calls[0].keywords["BLOCK"])


class FakeKernel:
    """Adds one to `x` in place, block by block; with 64 it forgets the last element, and 512 does not fit."""

    def __init__(self):
        self.grids = []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return self.run

    def run(self, x, N, BLOCK, num_warps, num_stages):
        if BLOCK == 512:
            raise RuntimeError("out of resource\nshared memory")
        x[: N - (BLOCK == 64)] += np.float32(1)


def test_on_a_gpu_configurations_are_run_checked_and_timed():
    kernel, x = FakeKernel(), np.arange(100, dtype=np.float32)
    launch = MeasuredLaunch(kernel, {"x": x, "N": 100}, grid_from("cdiv(N, BLOCK)"), Clock(), Effort(seconds=0.1))
    configs = [TritonConfig({"BLOCK": size}) for size in (32, 64, 128, 512)]
    found = tune_triton(
        TASK, "nvidia:0", listed(configs), launch.seconds, Stop(), ranked_by=MEASURED, compare=launch.compared
    )
    assert found.best.config == configs[2]
    assert found.gain == pytest.approx(4)
    assert [trial.reason for trial in found.trials] == [
        "", "wrong answer: x differs from that of the author's configuration", "", "RuntimeError: shared memory",
    ]  # fmt: skip
    assert set(kernel.grids) == {(4,), (2,), (1,)}


def test_what_a_function_of_inputs_returns():
    assert launch_inputs(["x", "N"], (1, 2), "f") == launch_inputs(["x", "N"], {"x": 1, "N": 2}, "f")
    for made in (3, (1, 2, 3), {"y": 1}):
        with pytest.raises(vk.ArgumentError, match="f: "):
            launch_inputs(["x", "N"], made, "f")


# Lowering, in the process that executes the user's file

FILE = """
import triton
import triton.language as tl

@triton.jit
def copy(a, b, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + at, tl.load(a + at, at < N), at < N)

@triton.jit
def broken(a, b, N, BLOCK: tl.constexpr):
    tl.store(a, undefined)

pruned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)], key=["N"],
                         prune_configs_by={"early_config_prune": lambda configs, args, **more: configs})(copy)
"""
SIGNATURE = JitSignature((("a", "*fp32"), ("b", "*fp32"), ("N", "i32")), (), ("a", "b"))


class InProcess:
    """Answers as a worker does; one asked for so many warps hangs."""

    def __init__(self, hangs: int | None = None):
        self.hangs = hangs

    def submit(self, request):
        if request["configuration"]["warps"] == self.hangs:
            answer = InspectPool._failed(None, CompileFailure(CompileFailureReason.TIME_OUT, "", 120))
        else:
            answer = answer_to(request)
        return type("Done", (), {"result": lambda self: answer})()


def test_each_configuration_is_lowered_or_says_why_not(tmp_path):
    path = tmp_path / "plain_kernels.py"
    path.write_text(FILE)
    task = TritonTask(KernelSource("copy", file=str(path)), SIGNATURE, {"N": 1000}, grid_from("cdiv(N, BLOCK)"))
    configs = [TritonConfig({"BLOCK": 64}, 2, 1), TritonConfig({"BLOCK": 48}), TritonConfig({"BLOCK": 128}, 8)]
    lowered = [lowered_text(task, config, "sm_90", InProcess()) for config in configs]
    assert [each.get("options", {}).get("warps") for each in lowered] == [2, None, 8]
    assert "power of 2" in lowered[1]["message"]
    assert "tensor<64x" in lowered[0]["text"]
    assert lowered[0]["parameters"] == ["a", "b", "N"]
    described = answer_to({"kind": "describe", "source": vars(KernelSource("pruned", file=str(path)))})
    assert described["has_prune"]
    assert [with_usual(each, {}).warps for each in described["configurations"]] == [4, 8]
    broken = TritonTask(KernelSource("broken", file=str(path)), SIGNATURE, {}, grid_from("1"))
    with StaticBounds(broken, target_named("h100-sxm5-80"), BoundTools(InProcess(), None), Stop()) as bounds:
        (found,) = bounds.seconds(configs[:1])
    assert "undefined" in found


def test_a_configuration_that_hangs_is_skipped(tmp_path):
    path = tmp_path / "plain_kernels_that_hang.py"
    path.write_text(FILE)
    task = TritonTask(KernelSource("broken", file=str(path)), SIGNATURE, {}, grid_from("1"))
    tools = BoundTools(InProcess(hangs=8), None)
    configs = [TritonConfig({"BLOCK": 64}, 2), TritonConfig({"BLOCK": 64}, 8), TritonConfig({"BLOCK": 64}, 4)]
    with StaticBounds(task, target_named("h100-sxm5-80"), tools, Stop()) as bounds:
        bounds.begin(configs)
        found = list(bounds.seconds(configs))
    assert ["took more than 120 s" in each for each in found] == [False, True, False]


def test_what_is_not_compiled_when_the_time_ends_is_no_trial():
    done = Event()

    class Slow(StaticBounds):
        def _found(self, config):
            assert config.warps == 1 or done.wait(60)
            return 1.0

    configs = [TritonConfig({"BLOCK": 64}, warps) for warps in (1, 2, 4)]
    stop = Stop(seconds=0.2)
    with Slow(TASK, target_named("h100-sxm5-80"), BoundTools(None, None), stop) as bounds:
        found = tune_triton(TASK, "h100", listed(configs), bounds.seconds, stop, ahead=bounds.ahead)
        done.set()
    assert (found.stopped, [trial.config for trial in found.trials]) == ("seconds", configs[:1])


@pytest.mark.parametrize(("seconds", "each"), [(None, 60), (1000, 60), (90, 30), (6, 20)])
def test_how_long_a_configuration_may_compile(seconds, each):
    assert compile_seconds(Stop(seconds=seconds)) == each
