"""`vk check --inputs`: kernels run on their author's own inputs, as a function or a file gives them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

STYLES = Path(__file__).parents[1] / "compiler" / "backends" / "data" / "triton_styles.py"
SIGNATURE = "*fp32:16,*fp32:16,*fp32:16,i32"


@pytest.fixture
def vk(run_vk, shared_workers):
    """Runs `vk check` in this process; gives exit code, output and errors. One plan is compiled."""
    return lambda *arguments: run_vk("check", "--judge", "1", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["finds", "finds in a file"])
def test_the_race_on_the_page_is_found(vk, tmp_path, monkeypatch, mark):
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text()
    source = re.search(r"```python\n# sums.py\n(.*?)```", page, re.DOTALL)[1]
    command, shown = re.search(
        rf"<!-- {mark} -->\n```bash\nvk check (.*?)\n```\n```text\n…\n(.*?)```", page, re.DOTALL
    ).groups()
    (tmp_path / "sums.py").write_text("# sums.py\n" + source)
    monkeypatch.chdir(tmp_path)
    if mark != "finds":
        exec(re.search(r"```python\n(import numpy as np\n\nnp.savez.*?)```", page, re.DOTALL)[1], {})
    code, output, _ = vk(*shlex.split(command), "--json", "results.json")
    assert code == 1
    pattern = ".*?".join(map(re.escape, shown.split("…")))
    assert re.search(pattern, output, re.DOTALL), output
    (ran,) = json.loads((tmp_path / "results.json").read_text())["inputs"]
    assert ran["kernel"] == "sums.py:sums"
    assert "which another program of the launch has written" in ran["finding"]


def test_library_kernels_run_on_files(vk, tmp_path):
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    x = np.random.default_rng(seed).normal(size=(3, 40)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, out=np.empty_like(x))
    arguments = "softmax_rows", "--targets", "mi300x", "--shape", "M=3,N=40"
    code, output, errors = vk(*arguments, "--inputs", tmp_path / "x.npz")
    assert (code, errors) == (0, "")
    assert re.search(r"x\.npz: [1-9]\d* programs, no race and no access out of bounds", output)
    (tmp_path / "x.npz").write_bytes(b"PK\3\4 and more")
    code, _, errors = vk(*arguments, "--inputs", tmp_path / "x.npz")
    assert code == 2
    assert "cannot be read as arrays" in errors


def test_inputs_must_fit_the_kernels_and_targets(vk, tmp_path):
    own = f"{STYLES}:add", "--signature", SIGNATURE, "--targets"
    for arguments, said in (
        (("softmax_rows", "--targets", "mi300x", "--inputs", "call"), "give kernels as FILE.py:KERNEL"),
        ((*own, "cpu", "--inputs", "call"), "runs code for GPUs"),
        ((*own, "mi300x", "--inputs", tmp_path / "absent.npz", "--grid", "4"), "there is no such file"),
        ((*own, "mi300x", "--inputs", "call", "--grid", "4"), "--grid goes with --inputs FILE.npz"),
        ((*own, "mi300x", "--grid", "4"), "--grid goes with --inputs FILE.npz"),
    ):
        code, _, errors = vk(*arguments)
        assert code == 2
        assert said in errors
