"""`vk tune` of plain Triton kernels."""

from __future__ import annotations

from functools import partial

import pytest

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
