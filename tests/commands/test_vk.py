"""The command line: what it prints, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest

from tests.sparse_network import tsv_writers
from vkernels.commands.exits import exit_with_code
from vkernels.ir import errors
from vkernels.sparse_network import infer, tsv_files
from vkernels.sparse_network.generate import radix_network

from ..sparse_network.networks import numpy_layers
from ..sparse_network.test_challenge import deaf

WIDE = {**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def vk(run_vk):
    """Runs `vk` in this process; gives exit code, output and errors."""
    return run_vk


def vk_process(*arguments):
    return subprocess.run(
        [sys.executable, "-c", "from vkernels.commands import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=WIDE,
        timeout=120,
    )


MISTAKES = {
    "no such command": ["fly"],
    "no such job": ["run", "fly"],
    "no such option": ["run", "spdnn", "--fast"],
    "no such global option": ["--fast"],
    "an argument too many": ["run", "spdnn", "1024"],
    "neurons that no network has": ["run", "spdnn", "--neurons", "1000"],
    "neurons that are no number": ["run", "spdnn", "--neurons", "many"],
    "no layers": ["run", "spdnn", "--layers", "0"],
    "too many layers": ["run", "spdnn", "--layers", "1921"],
    "half a layer": ["run", "spdnn", "--layers", "1.5"],
    "no threads": ["run", "spdnn", "--threads", "0"],
    "an option without its value": ["run", "spdnn", "--images"],
    "images of no known kind": ["run", "spdnn", "--images", "cats"],
    "no such file of images": ["run", "spdnn", "--images", "absent.npz"],
    "no such table of images": ["run", "spdnn", "--images", "absent.tsv"],
    "a folder for images": ["run", "spdnn", "--images", "folder.npz"],
    "images in text": ["run", "spdnn", "--images", "text.npz"],
    "half an archive": ["run", "spdnn", "--images", "half.npz"],
    "another array": ["run", "spdnn", "--images", "another.npz"],
    "a pickle": ["run", "spdnn", "--images", "objects.npz"],
    "images of floats": ["run", "spdnn", "--images", "floats.npz"],
    "a malformed table": ["run", "spdnn", "--images", "words.tsv"],
    "no such folder": ["run", "spdnn", "--network", "absent"],
    "an empty folder": ["run", "spdnn", "--network", "folder.npz"],
    "a file for a folder": ["run", "spdnn", "--network", "text.npz"],
    "a folder with too few layers": ["run", "spdnn", "--network", "network", "--layers", "2"],
    "a folder of other neurons": ["run", "spdnn", "--network", "network", "--neurons", "4096", "--layers", "1"],
    "a malformed layer": ["run", "spdnn", "--network", "malformed", "--layers", "1"],
    "results into a folder": ["run", "spdnn", "--json", "folder.npz"],
    "results into no folder": ["run", "spdnn", "--json", "absent/results.json"],
}


@pytest.fixture
def wrong_files(tmp_path, monkeypatch):
    """A working folder with files that are wrong in many ways."""
    monkeypatch.chdir(tmp_path)
    images = np.zeros((3, 28, 28), np.uint8)
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "text.npz").write_text("images")
    np.savez(tmp_path / "whole.npz", images=images)
    content = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(content[: len(content) // 2])
    np.savez(tmp_path / "another.npz", pictures=images)
    np.savez(tmp_path / "objects.npz", images=images.astype(object))
    np.savez(tmp_path / "floats.npz", images=images.astype(np.float64))
    (tmp_path / "words.tsv").write_text("1\t1\t1\n1\tone\t1\n")
    (tmp_path / "network").mkdir()
    tsv_writers.write_layer(tmp_path / "network" / "n1024-l1.tsv", radix_network(1024, 1).read(0, 1), 0)
    (tmp_path / "malformed").mkdir()
    (tmp_path / "malformed" / "n1024-l1.tsv").write_text("1\t1\t1\n1\t2000\t1\n")


@pytest.mark.usefixtures("wrong_files")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_message_and_code_2(vk, name):
    code, output, said = vk(*MISTAKES[name])
    assert code == 2
    assert output == ""
    assert len([line for line in said.splitlines() if line.lower().startswith("error: ")]) == 1
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.usefixtures("wrong_files")
@pytest.mark.parametrize("name", ["no such option", "half an archive", "a malformed layer"])
def test_a_mistake_is_one_message_in_a_process_too(name):
    done = vk_process(*MISTAKES[name])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.lower().count("error: ") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("wrong_files")
def test_messages_name_what_is_wrong(vk):
    for arguments, words in {
        ("--images", "half.npz"): "half.npz: not a whole .npz file",
        ("--images", "words.tsv"): "words.tsv:2: expected 3 numbers",
        ("--network", "malformed", "--layers", "1"): "n1024-l1.tsv:2: output 2000 is not",
        ("--neurons", "1000"): "1024, 4096, 16384, 65536",
        ("--fast",): "--fast",
    }.items():
        assert words in vk("run", "spdnn", *arguments)[2]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.FileError("x"), 2),
        (errors.OptionError("x"), 2),
        (errors.ArgumentError("x"), 2),
        (errors.SetupError("x"), 3),
        (MemoryError(), 3),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_every_end_has_its_code(capsys, error, code):
    def fail():
        raise error

    with pytest.raises(SystemExit) as exit:
        exit_with_code(fail)
    assert exit.value.code == code
    assert ("Traceback" in capsys.readouterr().err) == (code == 70)


def test_version_and_help(vk):
    assert vk("--version") == (0, f"vkernels {version('vkernels')}\n", "")
    for arguments in (["--help"], ["run", "--help"], ["run", "spdnn", "--help"]):
        code, output, said = vk(*arguments)
        assert (code, said) == (0, "")
        assert "Usage: vk" in output


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from vkernels.commands import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "triton", "scipy", "sklearn", "sympy", "xdsl", "llvmlite"}
    assert not heavy & set(done.stdout.splitlines()[-1].split())


@pytest.fixture
def plain_kernel(monkeypatch):
    """NumPy in place of the compiled kernel: these tests are about the command."""
    monkeypatch.setattr(infer, "run_layers", numpy_layers)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_kernel")
def test_a_run_says_what_it_found(vk, tmp_path):
    code, output, _ = vk("run", "spdnn", "--layers", "3", "--threads", "2", "--json", tmp_path / "results.json")
    assert code == 0
    assert "categories: match" in output
    data = json.loads((tmp_path / "results.json").read_text())
    assert (data["schema_version"], data["categories"], data["threads"]) == (1, "match", 2)
    assert (data["neurons"], data["layers"], data["images"], data["baselines"]) == (1024, 3, 1797, {})
    assert data["target"].startswith("cpu-")


@pytest.mark.slow
@pytest.mark.usefixtures("plain_kernel")
def test_json_can_go_to_standard_output(vk):
    code, output, said = vk("run", "spdnn", "--layers", "2", "--compare", "--json", "-")
    assert code == 0
    assert list(json.loads(output)["baselines"]) == ["torch_csr", "torch_csr_batched", "scipy_csr"]
    assert "categories: match" in said


def test_survivors_that_differ_are_code_1(vk, monkeypatch):
    monkeypatch.setattr(infer, "run_layers", deaf)
    code, output, _ = vk("run", "spdnn", "--layers", "2")
    assert code == 1
    assert "categories: differ" in output
    assert "only in float64: [0, 1" in output


@pytest.mark.usefixtures("plain_kernel")
def test_the_challenges_own_files_can_be_run(vk, tmp_path):
    layers = radix_network(1024, 3).read(0, 3)
    for layer in range(3):
        tsv_writers.write_layer(tmp_path / tsv_files.layer_file(1024, layer), layers, layer)
    inputs = (np.random.default_rng(2).random((1024, 40)) < 0.3).astype(np.float32)
    tsv_writers.write_image_table(tmp_path / "sparse-images-1024.tsv", inputs)
    code, output, _ = vk(
        "run",
        "spdnn",
        "--layers",
        3,
        "--network",
        tmp_path,
        "--images",
        tmp_path / "sparse-images-1024.tsv",
        "--json",
        "-",
    )
    assert code == 0
    assert json.loads(output)["images"] == 40


@pytest.mark.slow
def test_the_default_job_runs_as_a_process():
    done = vk_process("run", "spdnn", "--json", "-")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["categories"], data["layers"]) == ("match", 120)
    assert 0 < data["survivors"] < 1797


ANNOUNCED = """
from vkernels.commands import main
from vkernels.sparse_network import generate

make = generate.radix_network

def announce(*args, **kwargs):
    print("begun", flush=True)
    return make(*args, **kwargs)

generate.radix_network = announce
main()
"""
"""A program that says when the command's work begins."""


def test_an_interrupted_run_is_code_130():
    process = subprocess.Popen(
        [sys.executable, "-c", ANNOUNCED, "run", "spdnn", "--neurons", "65536"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=WIDE,
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
