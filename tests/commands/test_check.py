"""`vk check`: what it takes, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from vkernels.compiler.workers import compile_pool
from vkernels.compiler.workers.compile_pool import CompilePool
from vkernels.inspect.check import check as checking
from vkernels.inspect.resolve import JitOptions, resolve_cases
from vkernels.inspect.specialisation import parse_specialisation
from vkernels.inspect.worker_client import InspectPool
from vkernels.library import catalogue
from vkernels.library.catalogue import CATALOGUE
from vkernels.targets import known_targets

from ..inspect.check import fakes

STYLES = Path(__file__).parents[1] / "compiler" / "backends" / "data" / "triton_styles.py"
SIGNATURE = "*fp32:16,*fp32:16,*fp32:16,i32"
OWN = """
import vkernels as vk
from jaxtyping import Float, Int

@vk.kernel
def scale(x: Float[vk.Tensor, "M N"], by: vk.Scalar, out: Float[vk.Tensor, "M N"], mode: vk.Constant):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, j] * by
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def vk(run_vk, shared_workers):
    """Runs `vk check` in this process; gives exit code, output and errors. One plan is compiled."""
    return lambda *arguments: run_vk("check", "--judge", "1", *arguments)


@pytest.fixture(scope="module")
def fake_compilers():
    """The children of all tests here that compile nothing."""
    with CompilePool(2, compiler=fakes.PLAIN_COMPILER) as pool:
        yield pool


@pytest.fixture
def fake_compiler(monkeypatch, fake_compilers):
    """Every binary takes what `takes` holds by then: these tests are about the command."""
    takes = {}
    monkeypatch.setattr(compile_pool, "CompilePool", lambda *limits: nullcontext(fake_compilers))
    monkeypatch.setattr(checking, "read_binary", lambda binary, artifacts: fakes.reading(**takes))
    return takes


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


MISTAKES = {
    "no kernel": ([], "KERNEL"),
    "no such kernel": (["sofmax"], "did you mean softmax?"),
    "no such target": (["softmax", "--targets", "t44"], "did you mean t4?"),
    "no such slice": (["softmax", "--targets", "h100-sxm5-80:1g.11gb"], "did you mean 1g.10gb?"),
    "no target": (["softmax", "--targets", ""], "there is no target ''"),
    "no such slice of any": (["softmax", "--slice", "1g.11gb"], "--slice: "),
    "a slice of another's": (["softmax", "--targets", "t4,mi300x", "--slice", "mps=50"], "no mps to cut mi300x by"),
    "a slice of a slice": (
        ["softmax", "--targets", "h100-sxm5-80:1g.10gb", "--slice", "mps=50"],
        "h100-sxm5-80:1g.10gb is a slice already",
    ),
    "no such table": (["softmax", "--table", "absent.toml"], "absent.toml"),
    "no such dtype": (["softmax", "--dtype", "float17"], "did you mean float16?"),
    "a dtype that it cannot have": (["softmax", "--dtype", "int32"], "softmax_rows cannot be int32"),
    "a dtype of no tensor": (["softmax", "--dtype", "z=f32"], "has no tensor 'z'"),
    "no such size": (["softmax", "--shape", "Q=3"], "has no size 'Q'"),
    "no size": (["softmax", "--shape", "M"], "expected NAME=VALUE"),
    "a size below 1": (["softmax", "--shape", "M=0"], "expected a positive whole number"),
    "a size in words": (["softmax", "--shape", "M=many"], "expected a positive whole number"),
    "no such constant": (["matmul", "--constants", "activatio=relu"], "did you mean activation?"),
    "a signature of ours": (["softmax", "--signature", "*fp16"], "to plain Triton kernels"),
    "warps of no power of two": ([f"{STYLES}:add", "--signature", SIGNATURE, "--warps", "3"], "a power of two, got 3"),
    "no workers": (["softmax", "--workers", "0"], "workers"),
    "no such finding": (["softmax", "--fail-on", "fire"], "fire"),
    "no such option": (["softmax", "--fast"], "--fast"),
    "results into a folder": (["softmax", "--json", "."], "is a folder"),
    "no such file": (["absent.py:scale"], "absent.py: there is no such file"),
    "no kernel in it": (["own.py"], "name a kernel in a file as FILE.py:KERNEL"),
    "no such kernel in it": (["own.py:scal"], "did you mean scale?"),
    "no sizes": (["own.py:scale", "--constants", "mode=a"], "sizes must be given: M, N"),
    "no constant": (["own.py:scale", "--shape", "M=4,N=4"], "give it with --constants mode="),
    "a signature of a vk.kernel": (["own.py:scale", "--signature", "*fp16"], "is a vk.kernel"),
    "no signature": ([f"{STYLES}:add"], "--signature must give the types of x, y, out, count"),
    "a short signature": ([f"{STYLES}:add", "--signature", "*fp16"], "has 1 entries"),
    "a shape of a plain kernel": ([f"{STYLES}:add", "--signature", SIGNATURE, "--shape", "M=1"], "not --shape"),
    "no constant of a plain one": ([f"{STYLES}:add", "--signature", SIGNATURE], "no value for BLOCK"),
    "nothing of a name": ([f"{STYLES}:CONSTANT", "--signature", "i32"], "CONSTANT is no kernel"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_and_code_2(vk, own, monkeypatch, name):
    monkeypatch.chdir(own.parent)
    arguments, words = MISTAKES[name]
    code, output, said = vk(*arguments)
    assert (code, output) == (2, "")
    assert words in said
    assert len([line for line in said.splitlines() if line.lower().startswith("error: ")]) == 1
    assert "Traceback" not in said


@pytest.mark.usefixtures("fake_compiler")
def test_kernels_take_the_sizes_and_constants_that_they_have(vk, own):
    """Kernels of a file and of the library in one run, of different sizes."""
    text = """
@vk.kernel
def outer(a: Float[vk.Tensor, "K"], out: Float[vk.Tensor, "K N"]):
    k, j = vk.tile("K"), vk.tile("N")
    out[k, j] = a[k] * j
"""
    own.write_text(OWN + text)
    names = f"{own}:scale", f"{own}:outer", "softmax_rows"
    options = "--targets", "t4", "--constants", "mode=a", "--json", "-"
    _, output, _ = vk(*names, *options, "--shape", "M=4,N=8,K=16")
    shapes = {cell["kernel"].rpartition(":")[2]: cell["shape"] for cell in json.loads(output)["cells"]}
    assert shapes == {"scale": {"M": 4, "N": 8}, "outer": {"K": 16, "N": 8}, "softmax_rows": {"M": 4, "N": 8}}
    code, _, said = vk(*names, *options, "--shape", "M=4,N=8,K=16,Q=2")
    assert code == 2
    assert "has no size 'Q'" in said


def test_all_is_every_kernel_of_the_catalogue():
    with InspectPool(1) as pool:
        cases = resolve_cases(["all"], parse_specialisation(None, None, None), JitOptions(), CATALOGUE, pool)
    assert {case.source.name for case in cases} == {entry.name for entry in CATALOGUE}


@pytest.mark.slow
@pytest.mark.usefixtures("fake_compiler")
def test_all_kernels_are_checked(vk, tmp_path, monkeypatch):
    """All of a catalogue of five kernels, as planning the whole one takes long."""
    few = {"softmax_rows", "layer_norm_rows", "matmul_bias", "spdnn", "take_columns"}
    monkeypatch.setattr(catalogue, "CATALOGUE", tuple(entry for entry in CATALOGUE if entry.name in few))
    code, output, _ = vk("all", "--targets", "h100-sxm5-80:1g.10gb", "--json", tmp_path / "results.json")
    assert code == 0
    data = json.loads((tmp_path / "results.json").read_text())
    assert (data["schema_version"], data["command"]) == (1, "check")
    kernels = {cell["kernel"] for cell in data["cells"]}
    assert kernels == few
    assert {cell["target"] for cell in data["cells"]} == {"h100-sxm5-80:1g.10gb"}
    assert data["counts"]["cells"] == len(data["cells"])
    assert data["counts"]["fit"] + data["counts"]["misfit"] + data["counts"]["unknown"] == len(data["cells"])
    for name in ("softmax_rows", "h100-sxm5-80:1g.10gb", "cells:"):
        assert name in output


@pytest.mark.usefixtures("fake_compiler")
def test_without_targets_a_kernel_is_checked_on_all_that_are_known(vk):
    data = json.loads(vk("take_columns", "--json", "-")[1])
    assert [cell["target"] for cell in data["cells"]] == list(known_targets())
    assert data["binaries"] < len(data["cells"])


FIELDS = {
    "kernel", "target", "dtype", "shape", "fits", "reason", "registers_per_thread", "shared_bytes", "spill_bytes",
    "blocks_per_multiprocessor", "compile_seconds",
}  # fmt: skip


def test_a_misfit_is_a_cell_and_code_1_where_that_is_asked_for(vk, fake_compiler):
    fake_compiler |= {"dynamic_shared": 131072}
    arguments = ["take_columns", "--targets", "rtx4090,h100-sxm5-80", "--json", "-"]
    code, output, said = vk(*arguments)
    misfit, fit = json.loads(output)["cells"]
    assert code == 0
    assert (misfit["fits"], misfit["reason"]) == (False, "needs 131072 B of shared memory, has 101376")
    assert (fit["fits"], fit["reason"]) == (True, "")
    assert misfit.keys() >= FIELDS
    assert "rtx4090: needs 131072 B of shared memory, has 101376" in said
    assert vk(*arguments, "--fail-on", "misfit")[0] == 1
    assert vk(*arguments, "--fail-on", "spill")[0] == 0
    fake_compiler |= {"dynamic_shared": 0, "spill_load_bytes": 8}
    assert vk(*arguments, "--no-cache", "--fail-on", "misfit")[0] == 0
    assert vk(*arguments, "--no-cache", "--fail-on", "spill", "--fail-on", "misfit")[0] == 1


@pytest.mark.usefixtures("fake_compiler")
def test_dtypes_and_sizes_are_as_given(vk):
    _, output, _ = vk("softmax_rows", "--targets", "t4", "--dtype", "bf16", "--shape", "M=7,N=77", "--json", "-")
    (cell,) = json.loads(output)["cells"]
    assert (cell["dtype"], cell["shape"]) == ("bfloat16", {"M": 7, "N": 77})


@pytest.mark.usefixtures("fake_compiler")
@pytest.mark.parametrize("given", ["u8", "uint8"])
def test_unsigned_dtypes(vk, tmp_path, given):
    file = tmp_path / "mine.py"
    file.write_text(
        "import vkernels as vk\nfrom jaxtyping import UInt\n\n\n@vk.kernel\n"
        'def copied(x: UInt[vk.Tensor, "M"], out: UInt[vk.Tensor, "M"]):\n    i = vk.tile("M")\n'
        "    out[i] = x[i] // 3\n"
    )
    _, output, _ = vk(f"{file}:copied", "--targets", "t4", "--dtype", given, "--shape", "M=70", "--json", "-")
    (cell,) = json.loads(output)["cells"]
    assert cell["dtype"] == "uint8"


@pytest.mark.usefixtures("fake_compiler")
def test_slices_are_checked_as_targets_are(vk):
    _, output, _ = vk("take_columns", "--targets", "h100-sxm5-80:1g.10gb,mps=50,t4", "--json", "-")
    assert [cell["target"] for cell in json.loads(output)["cells"]] == ["h100-sxm5-80:1g.10gb,mps=50", "t4"]


@pytest.mark.usefixtures("fake_compiler")
def test_each_target_is_cut_by_each_slice(vk):
    def keys(*arguments):
        _, output, _ = vk("take_columns", *arguments, "--json", "-")
        return [cell["target"] for cell in json.loads(output)["cells"]]

    of_two = keys("--targets", "h100-sxm5-80,h100-pcie-80", "--slice", "1g.10gb,3g.40gb,mps=50", "--slice", "sms=16")
    specs = ("1g.10gb", "3g.40gb,mps=50", "sms=16")
    assert of_two == [f"{device}:{spec}" for device in ("h100-sxm5-80", "h100-pcie-80") for spec in specs]
    of_all = keys("--slice", "cus=20")
    assert of_all
    assert {key.partition(":")[2] for key in of_all} == {"cus=20"}
    assert {known_targets()[key.partition(":")[0]].vendor for key in of_all} == {"amd"}


@pytest.mark.usefixtures("fake_compiler")
def test_cells_say_which_plan_they_got(vk, own):
    shape = ["--shape", "M=64,N=1000", "--constants", "mode=1", "--targets", "h100-sxm5-80", "--json", "-"]
    cell = json.loads(vk(f"{own}:scale", *shape)[1])["cells"][0]
    assert (cell["plan_origin"], cell["plans_tried"], cell["rung"], cell["homes"]) == ("chosen", 1, "registers", {})
    assert cell["plan"]["tiles"].keys() == {"i", "j"}
    assert 0 < cell["roofline_seconds"] < cell["modelled_seconds"]
    assert cell["bottleneck"]
    assert (cell["tensor_bytes"], cell["swap_bytes"]) == (2 * 4 * 64 * 1000, 0)


def test_a_cpu_is_checked_by_its_native_code(vk, own):
    arguments = ["--shape", "M=64,N=1000", "--constants", "mode=1", "--targets", "cpu,cpu:cores=1", "--json", "-"]
    code, output, _ = vk(f"{own}:scale", *arguments)
    cells = json.loads(output)["cells"]
    assert code == 0
    assert [(cell["target"], cell["fits"], cell["launches"]) for cell in cells] == [
        ("cpu", True, []), ("cpu:cores=1", True, []),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_named_processor_says_which_dot_unit_it_uses(vk):
    named = "cpu:cooperlake:cores=1,cpu:skylake-avx512:cores=1"
    sizes = ["--shape", "M=512,N=512,K=512", "--dtype", "bfloat16"]
    code, out, _ = vk("matmul", *sizes, "--targets", named, "--json", "-")
    assert code == 0
    assert [(cell["fits"], cell["units"]) for cell in json.loads(out)["cells"]] == [(True, ["avx512-bf16"]), (True, [])]
    _, out, _ = vk("matmul", *sizes, "--targets", named)
    assert "cpu:cooperlake:cores=1: multiplies on the dot unit avx512-bf16\n" in out


def test_targets_of_ones_own_are_checked_too(vk, tmp_path):
    (tmp_path / "own.toml").write_text('[mine]\nlike = "t4"\nname = "my own"\n')
    _, output, _ = vk("take_columns", "--targets", "mine,t4", "--table", tmp_path / "own.toml", "--json", "-")
    assert [cell["target"] for cell in json.loads(output)["cells"]] == ["mine", "t4"]


@pytest.mark.slow
def test_the_cache_is_used_unless_forbidden(vk, own):
    arguments = ["take_columns", "--targets", "t4,mi300x", "--json", "-"]
    found = [json.loads(vk(*arguments, *more)[1])["from_cache"] for more in ([], [], ["--no-cache"])]
    assert found == [0, 2, 0]


def test_kernels_of_ones_own_become_binaries(vk, own):
    code, output, _ = vk(
        f"{own}:scale", "--shape", "M=64,N=1000", "--constants", "mode=1", "--targets", "h100-sxm5-80,rx7900xtx",
        "--json", "-", "--fail-on", "misfit",
    )  # fmt: skip
    assert code == 0
    for cell in json.loads(output)["cells"]:
        assert (cell["kernel"], cell["fits"], cell["dtype"]) == (f"{own}:scale", True, "float32")
        assert cell["registers_per_thread"] > 0
        assert cell["blocks_per_multiprocessor"] > 0
        assert cell["compile_seconds"] > 0


@pytest.mark.slow
def test_plain_triton_kernels_are_checked_in_each_configuration(vk):
    code, output, _ = vk(
        f"{STYLES}:multiply_tuned", "--signature", "*fp16:16,*fp16:16,*fp16:16,i32:16,i32:16,i32:16",
        "--targets", "rtx4090,mi300x", "--json", "-", "--fail-on", "misfit",
    )  # fmt: skip
    cells = json.loads(output)["cells"]
    assert [(c["configuration"]["ROWS"], c["target"], c["fits"]) for c in cells] == [
        (64, "rtx4090", True), (64, "mi300x", True), (128, "rtx4090", True), (128, "mi300x", False),
    ]  # fmt: skip
    assert "B of shared memory, has 65536" in cells[3]["reason"]
    assert code == 1


@pytest.mark.slow
def test_an_interrupted_check_is_code_130_and_leaves_no_children():
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    arguments = ["check", "softmax_rows", "layer_norm_rows", "--no-cache", "--targets", "t4,h100-sxm5-80,mi300x"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from vkernels.commands import main; main()", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    children = _await_workers(process.pid)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    until = time.monotonic() + 20
    while any(_runs(child) for child in children):
        assert time.monotonic() < until, "a worker outlives the command"
        time.sleep(0.05)


def _await_workers(process):
    """The worker processes of a process, as soon as it compiles in two."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        children = []
        with suppress(FileNotFoundError):  # threads come and go
            for task in Path(f"/proc/{process}/task").iterdir():
                children += [int(number) for number in (task / "children").read_text().split()]
        if len(children) >= 3:
            return children
        time.sleep(0.05)
    raise AssertionError("no workers were started")


def _runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "more"),
    [
        ("own.py:scale", ["--shape", "M=64,N=1000", "--constants", "mode=1"]),
        (f"{STYLES}:add", ["--signature", SIGNATURE, "--constants", "BLOCK=1024"]),
    ],
)
def test_what_grew_since_the_baseline_is_code_1(vk, fake_compiler, own, kernel, more):
    name = str(own) + kernel.removeprefix("own.py") if kernel.startswith("own.py") else kernel
    arguments = [name, *more, "--targets", "t4,h100-sxm5-80", "--no-cache"]
    file = own.parent / "baseline.json"
    assert vk(*arguments, "--write-baseline", file)[0] == 0
    code, output, _ = vk(*arguments, "--baseline", file)
    assert (code, "2 cells compared, 0 worse" in output) == (0, True)
    fake_compiler |= {"registers": 40}
    code, output, _ = vk(*arguments, "--baseline", file, "--write-baseline", own.parent / "next.json", "--json", "-")
    found = json.loads(output)["baseline"]
    assert (code, found["compared"], len(found["regressions"])) == (1, 2, 2)
    code, output, _ = vk(*arguments, "--baseline", file)
    assert "40 registers per thread, were 32, +25.0%" in output
    assert f"def {name.rpartition(':')[2]}(" in output
    assert vk(*arguments, "--baseline", file, "--tolerance", "25")[0] == 0
    assert vk(*arguments, "--baseline", own.parent / "next.json")[0] == 0


def test_a_baseline_of_other_cells_alone_is_code_1(vk, fake_compiler, own):
    """Else a check in CI that compares nothing, after a changed size, would always pass."""
    file = own.parent / "baseline.json"
    arguments = [f"{own}:scale", "--constants", "mode=1", "--targets", "t4", "--no-cache"]
    assert vk(*arguments, "--shape", "M=64,N=1000", "--write-baseline", file)[0] == 0
    code, output, _ = vk(*arguments, "--shape", "M=64,N=1001", "--baseline", file)
    (said,) = [line for line in output.splitlines() if line.startswith("Nothing was compared")]
    assert (code, "N=1000" in said, "N=1001" in said) == (1, True, True)
    assert vk(*arguments, "--shape", "M=64,N=1001", "--baseline", file, "--write-baseline", file)[0] == 0
    assert vk(*arguments, "--shape", "M=64,N=1001", "--baseline", file)[0] == 0


def test_a_spoilt_baseline_is_refused_before_anything_is_compiled(vk, tmp_path):
    (tmp_path / "baseline.json").write_text('{"format": "vkernels check baseline", "schema_version": 7}')
    code, output, said = vk("softmax", "--baseline", tmp_path / "baseline.json")
    assert (code, output) == (2, "")
    assert "baseline.json:1: schema_version: expected 1, got 7" in said
