"""What works without packages that only some uses need, and what is said where one is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vkernels.commands.exits import Code, exit_with_code
from vkernels.ir.optional_packages import COMPILERS, missing_package

OPTIONAL = ("jinja2", "plotly", "scipy", "sklearn", "sqlalchemy", "sympy", "torch")
HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
KERNEL = """
import linecache
import numpy as np
import vkernels as vk
from jaxtyping import Float
source = '''
@vk.kernel
def double(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = 2 * x[i]
'''
linecache.cache["<double>"] = (len(source), None, source.splitlines(True), "<double>")
exec(compile(source, "<double>", "exec"))
x, out = np.arange(3.0), np.full(3, np.nan)
"""


def run_without(names: tuple[str, ...], code: str) -> str:
    program = HIDE.format(names=names) + code
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_numpy_users_need_none_of_them():
    code = """
double(x, out)
assert out.tolist() == [0, 2, 4]
from vkernels.library import softmax
print(softmax(np.log([[1.0, 3.0]])).round(3).tolist())
try:
    import vkernels.torch
except vk.SetupError as error:
    print(error)
"""
    printed = run_without(OPTIONAL, KERNEL + code)
    assert printed.splitlines() == [
        "[[0.25, 0.75]]",
        "torch is not installed, and this needs it: pip install torch, or 'vkernels[all]'",
    ]


@pytest.mark.slow
def test_sparse_networks_and_their_images_need_no_torch():
    code = """
from vkernels.sparse_network.bench.challenge import run_challenge
from vkernels.sparse_network.generate import radix_network
from vkernels.sparse_network.images import digits
print(run_challenge(radix_network(1024, 2), digits(1024), threads=1, rounds=1).matches)
import vkernels.commands.run_spdnn
"""
    assert run_without(("torch", "sqlalchemy", "jinja2", "plotly"), code) == "True\n"


@pytest.mark.slow
def test_without_triton_kernels_are_interpreted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # no code that was compiled before
    code = """
double.interpret(x, out)
print(out.tolist())
try:
    double(x, out)
except vk.SetupError as error:
    print(error)
"""
    printed = run_without((*OPTIONAL, "triton"), KERNEL + code).splitlines()
    assert printed[0] == "[0.0, 2.0, 4.0]"
    assert "Triton is not installed" in printed[1]


def test_without_compilers_calls_and_commands_say_so():
    code = """
from vkernels.commands import main
ahead = dict(shapes={"N": 3}, targets=["t4"])
for call in (
    lambda: double(x, out),
    lambda: double.interpret(x, out),
    lambda: double.compile(x, out),
    lambda: double.compile(**ahead),
    lambda: double.source,
):
    try:
        call()
    except vk.SetupError as error:
        print(error)
from vkernels.commands.doctor import software
software.find_spec = lambda name: None
try:
    main(["doctor", "--bundle", "none.vkb"])
except SystemExit as exit:
    print(exit.code)
"""
    printed = run_without((*OPTIONAL, *COMPILERS), KERNEL + code).splitlines()
    assert printed[:2] == 2 * [
        "xdsl is not installed, and kernels are compiled with it: pip install llvmlite triton xdsl. "
        "Without compilers, kernels run from bundles: vk.load"
    ]
    assert len(set(printed[:5])) == 1
    assert printed[-1] == "1"
    (bundle,) = [line for line in printed if line.startswith("problem: ")]
    assert "none.vkb" in bundle


def test_commands_name_what_is_missing(capsys):
    def command():
        raise ModuleNotFoundError("No module named 'sklearn.tree'", name="sklearn.tree")

    with pytest.raises(SystemExit) as exit:
        exit_with_code(command)
    assert exit.value.code == Code.ENVIRONMENT
    assert "pip install scikit-learn" in capsys.readouterr().err


def test_the_command_line_says_that_it_is_not_installed():
    code = """
from vkernels.commands import main
try:
    main(["doctor"])
except SystemExit as exit:
    print(exit.code)
"""
    program = HIDE.format(names=("typer", "rich")) + code
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert "is not installed, and the command line needs it: pip install typer" in done.stderr


def test_a_missing_module_of_ours_is_a_bug():
    assert missing_package(ModuleNotFoundError("No module named 'vkernels.gone'", name="vkernels.gone")) is None
