"""Programs run from bundles in an environment that has no compiler: NumPy and three small packages."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import venv
from importlib.metadata import distribution, files
from pathlib import Path

import numpy as np
import pytest

import vkernels as vk
from tests.bundles import programs

ENOUGH = ("numpy", "msgspec", "platformdirs", "jaxtyping", "wadler_lindig")
"""What docs/bundles.md says that programs need; the last comes with jaxtyping."""

BLOCK = 4096
"""Bytes that a file takes on a disk at least."""

MOST_MEGABYTES = 20
"""Beside NumPy, with the byte code that Python writes as programs import modules."""

SCRIPT = """
    import importlib.util
    import sys

    import numpy as np

    import vkernels as vk
    from programs import block, challenge, images, words

    assert not any(map(importlib.util.find_spec, ["triton", "llvmlite", "xdsl", "sympy", "torch", "scipy", "typer"]))
    with vk.load("transformer.vkb", trust="unsigned").active():
        after = block(words(1))
    with vk.load("challenge.vkb", trust="unsigned").active():
        features = challenge(images())
    np.savez("results.npz", after=after, features=features)
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """The Python of an environment with these packages and this vkernels, without pip."""
    folder = tmp_path_factory.mktemp("plain")
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ENOUGH:
        for top in sorted({Path(file.parts[0]) for file in files(name) or () if ".." not in file.parts}):
            (packages / top).symlink_to(distribution(name).locate_file(top))
    (packages / "vkernels").symlink_to(Path(vk.__file__).parent)
    return folder / "bin" / "python"


@pytest.mark.slow
def test_a_transformer_block_and_the_challenge_run_there_with_the_same_bits(plain, tmp_path):
    (tmp_path / "programs.py").symlink_to(programs.__file__)
    compiled = {"after": programs.block(programs.words(1)), "features": programs.challenge(programs.images())}
    for name in ("transformer", "challenge"):
        command = ["build", f"programs.py:{name}_program", "-o", f"{name}.vkb", "--no-plain"]
        run([sys.executable, "-c", "from vkernels.commands import main; main()", *command], tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run([plain, "-I", "-c", f"import sys; sys.path.insert(0, '.'){textwrap.dedent(SCRIPT)}"], tmp_path, environment)
    found = np.load(tmp_path / "results.npz")
    assert compiled["features"].size > 0
    for name, wanted in compiled.items():
        assert found[name].tobytes() == wanted.tobytes(), name


def test_what_is_installed_for_it_is_small():
    """As docs/bundles.md says: pip writes no byte code. Python does for some of the modules, at most half of them."""
    beside = [distribution(name).locate_file(file) for name in ENOUGH[1:] for file in files(name) or ()]
    ours = [path for path in Path(vk.__file__).parent.rglob("*") if path.is_file()]
    taken = sum(blocks(path) for path in [*beside, *ours] if "__pycache__" not in path.parts)
    byte_code = sum(blocks(path) for path in ours if path.suffix == ".py") // 2
    assert taken + byte_code < MOST_MEGABYTES * 10**6
    page = (Path(__file__).parents[2] / "docs" / "bundles.md").read_text()
    assert f"plain/bin/pip install --no-compile {' '.join(ENOUGH[:-1])}\n" in page


def blocks(path: Path) -> int:
    return -(-path.stat().st_size // BLOCK) * BLOCK


def run(command, folder, environment=None):
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
