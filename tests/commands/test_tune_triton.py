"""`vk tune` of plain Triton kernels."""

from __future__ import annotations

from functools import partial
from io import StringIO

import pytest
from rich.console import Console

from vkernels.autotune.drive import Stop
from vkernels.autotune.triton_configs import TritonConfig
from vkernels.autotune.triton_tuning import TritonTrial
from vkernels.commands.tune.triton_progress import failures, shown_trials

from ..autotune.test_triton_tuning import FILE


@pytest.fixture
def path(tmp_path, monkeypatch):
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    path = tmp_path / "plain_kernels.py"
    path.write_text(FILE)
    return path


OFFLINE = ["--offline", "--target", "a100-sxm4-80"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([*OFFLINE], "give its grid"),
        (["--grid", "1"], "name one with --target"),
        ([*OFFLINE, "--grid", "cdiv(N"], "--grid"),
        ([*OFFLINE, "--grid", "1", "--dtype", "float16"], "not --dtype"),
        (["--grid", "1", "--target", "a100-sxm4-80"], "--offline"),
    ],
)
def test_options_that_are_missing_are_named(run_vk, path, options, text):
    code, _, err = run_vk("tune", f"{path}:copy", *options)
    assert code in (2, 3)
    assert text in err


def test_the_options_are_for_plain_kernels_only(run_vk):
    code, _, err = run_vk("tune", "softmax_rows", "--grid", "1")
    assert code == 2
    assert "apply to plain Triton kernels" in err


def test_trials_are_shown_in_a_terminal():
    configs = [TritonConfig({"BLOCK": 16 << number}) for number in range(4)]
    trials = [
        TritonTrial(configs[0], 4e-6), TritonTrial(configs[1], None, "spills 272 B"), TritonTrial(configs[2], 1e-6),
        TritonTrial(configs[3], None, "spills 80 B"),
    ]  # fmt: skip
    for is_terminal, text in ((True, "k on h100: 4 tried, 2 failed, best 1 µs (4.00 ×), until 60 s"), (False, "")):
        console = Console(file=StringIO(), force_terminal=is_terminal, width=120)
        with shown_trials(console, "k on h100", Stop(seconds=60)) as note:
            for trial in trials:
                note(trial)
        assert text in console.file.getvalue()
        assert is_terminal or not console.file.getvalue().strip()
    assert failures([*trials, TritonTrial(configs[0], None, "no")]) == [
        "2 failed: spills 272 B (figures of the first)", "1 failed: no",
    ]  # fmt: skip
    assert failures([TritonTrial(config, None, "abcdefg"[n % 7]) for n, config in enumerate(configs * 2)])[-1] == (
        "3 failed for other reasons"
    )
    assert failures(trials[:1]) == []


@pytest.mark.thorough
def test_a_kernel_is_tuned_for_a_slice_by_its_binaries(run_vk, path, tmp_path):
    run = partial(run_vk, "tune", f"{path}:pruned", *OFFLINE, "--grid", "cdiv(N, BLOCK)", "--shapes", "N=1000000")
    code, _, err = run()
    assert code == 2
    assert "--signature must give the types of a, b, N" in err
    code, out, err = run(
        "--signature", "*fp32:16,*fp32:16,i32", "--slice", "all", "--slice", "1g.10gb", "--configs", tmp_path / "o.py"
    )
    assert code == 0, err
    assert out.count("triton.Config({'BLOCK'") >= 2
    assert "prune function" in out
    names: dict = {}
    exec((tmp_path / "o.py").read_text(), names)
    assert set(names["CONFIGS"]) == {"a100-sxm4-80", "a100-sxm4-80:1g.10gb"}
